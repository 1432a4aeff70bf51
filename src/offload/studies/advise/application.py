"""A user's application: the servers that can serve it, the causes of its limit, its deployment."""

from __future__ import annotations

import importlib.util
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from offload import loads
from offload.causes import calls, diagnosis, execution, failures, pools, victims
from offload.causes import who as who_in_words
from offload.causes.gains import Gain
from offload.causes.hangs import FORK_WITH_THREADS
from offload.causes.memory import PRELOAD_LOST
from offload.causes.rules import Cause
from offload.engine import builder, server, server_reports, workload
from offload.engine.application import HotLine, Started, Who
from offload.engine.calling_process import ImportedApplication, find_application
from offload.engine.hot_lines import read_kept_lines
from offload.engine.record import LONG, Record
from offload.engine.server import find_interpreter
from offload.errors import MachineError, UserError, escaped
from offload.registry import catalog, places
from offload.registry.entries import Entry
from offload.studies.advise import costs, result
from offload.studies.advise.costs import Costs
from offload.studies.advise.evidence import THREADS, Evidence, Setup, kind_of, rank
from offload.suites import Case, Request
from offload.units import counted, seconds

TITLES = {"asgi": "ASGI", "wsgi": "WSGI", "tornado": "Tornado"}
WARM_S, TRACE_S, TRACED_S = 1.0, 2.0, 5.0  # s of load before and in a trace, and with the start
TRACED_USERS = 4  # traced code is slow
FAIL = {failures.REQUESTS_FAIL, failures.WORKER_FAILS}  # they go on in several processes
# So do these, but they are not seen there: no stack is sampled, each process has few requests.
GO_ON = FAIL | {
    failures.IMPORT_STARTS,
    execution.NEW_OBJECTS,
    execution.COST_GROWS,
    calls.RETRIES,
    pools.PAUSES,
}
DJANGO = "django.core.{kind}:get_{kind}_application"  # the factory for Django settings


@dataclass(frozen=True)
class WorkerMemory:
    """The memory of the largest process in MiB: its PSS, and the part that it does not share."""

    pss: float | None
    private: float | None

    @property
    def text(self) -> str:
        """The memory in words."""
        private = "" if self.private is None else f", {self.private:.0f} MiB of it private"
        return f"{self.pss or 0.0:.0f} MiB per worker (PSS){private}"


@dataclass(frozen=True)
class Application:
    """An application: its kinds (asgi, wsgi, tornado), and its name in its module.

    The name is None for Django. `alone_s` is the response time of a single request; `response_s` is
    that, or the one under the load of few users after many had no responses. `causes` were found
    for one process, and `remaining` for the chosen set-up. `worker` is the memory of one of
    its processes, `preloaded` the same with the application imported before the fork. `who` are the
    lines of one process.
    `gains` are those of switches that were measured with one process, by kind of cause.
    `preload_causes` are why its import before the fork does harm, or saves little. `probe` is the
    record of one process, and `advised` are those of the windows of the chosen set-up. `started` is
    what the import starts.
    """

    kinds: tuple[str, ...]
    name: str | None
    costs: Costs
    alone_s: float
    response_s: float
    users: int
    request: Request | None = None
    causes: tuple[Cause, ...] = ()
    remaining: tuple[Cause, ...] = ()
    worker: WorkerMemory | None = None
    preloaded: WorkerMemory | None = None
    who: Who | None = None
    gains: Mapping[str, Gain] = field(default_factory=dict)
    probe: Record | None = None
    advised: tuple[Record, ...] = ()
    preload_causes: tuple[Cause, ...] = ()
    started: tuple[Started, ...] = ()

    def title(self, case: Case) -> str:
        """Return its name and its request, for a headline."""
        sent = case.request.short_form if case.request else "GET /"
        return f"{places.display_name(case.task)}, {sent}"

    @property
    def fixable(self) -> bool:
        """Whether a change of the application removes the limit of each process."""
        every = (*self.causes, *self.remaining)
        known = (each for each in every if each.gain is None or not each.gain.is_refuted)
        return any(map(diagnosis.is_per_process, known))

    def seen(self) -> Iterator[str]:
        """Yield the causes in one process, each as a sentence."""
        for cause in self.causes:
            if cause.kind not in {diagnosis.NOTHING, diagnosis.UNEXPLAINED}:
                yield diagnosis.sentence(cause, self.users)

    def why(self) -> Iterator[str]:
        """Yield the causes of its limit; say which ones do not limit the chosen set-up."""
        if not self.causes:
            missing = "figures that would show it are missing, or other programs disturbed it"
            yield f"What limits one process is unknown: {missing}."
        # Many requests in progress have many objects: to collect these is no fault.
        left = [each for each in self.remaining if not (each.gain and each.gain.is_refuted)]
        remaining = {cause.kind for cause in left} - FAIL
        last_words = {diagnosis.NOTHING, diagnosis.UNEXPLAINED}
        for cause in self.causes:
            if cause.kind == diagnosis.NOTHING and self.costs.leak_mib:
                continue  # the answer names the leak
            is_shared = isinstance(cause.facts, pools.SharedByProcesses)
            is_over = remaining and not is_shared and cause.kind not in {*remaining, *last_words}
            is_limit = cause.kind not in GO_ON
            over = " It does not limit the advised size." if is_over and is_limit else ""
            text = diagnosis.sentence(cause, self.users)
            if cause.kind == diagnosis.NOTHING:
                text = f"One process alone: {text[0].lower()}{text[1:]}"
            yield f"{text}{over}"
        known = {cause.kind for cause in self.causes} | last_words
        for cause in left:
            if cause.kind not in known:
                yield f"In the advised size: {diagnosis.sentence(cause, self.users)}"
        for kind, gain in self.gains.items():
            if gain.is_judged and kind not in known | remaining:
                yield f"{gain.text}{': this is no remedy here' if gain.is_refuted else ''}."
        yield from who_in_words.sentences(self.who, {cause.line for cause in self.causes})
        if self.probe is not None:
            yield from victims.sentences([self.probe], {cause.kind for cause in self.causes})
            yield from self._light_routes_now()

    def _light_routes_now(self) -> Iterator[str]:
        """Yield how long a light route that is slow in one process takes in the chosen set-up."""
        now = {each.path: each for each in victims.find(self.advised)}
        for before in victims.find([self.probe] if self.probe else []):
            found = now.get(before.path)
            if before.is_slow and found is not None and found.p50_s is not None:
                yield f"In the advised size {escaped(found.path)} takes {seconds(found.p50_s)}."

    def notes(self, best: Evidence) -> Iterator[str]:
        """Yield what the reader must know of the application in the chosen set-up."""
        if self.worker is not None and self.worker.pss is not None:
            yield f"{self.worker.text}."
        if self.probe is not None and (first_s := self.probe.baseline.prepares_s):
            yield (
                f"The first request to a new process takes {seconds(first_s)}, later ones "
                f"{seconds(self.alone_s)}: prepare that at its start."
            )
        for each in self.started:
            if each.is_thread:
                yield f"{_describe_threads(each, best.setup.processes)}."
        for cause in self.preload_causes:
            yield f"With preload: {diagnosis.sentence(cause, self.users)}"
        if best.setup.processes > 1 and not catalog.find_server(best.setup.server).can_preload:
            yield f"{best.setup.server} cannot preload."
        in_program = catalog.find_server(best.setup.server).constants.get("IN_PROGRAM")
        if isinstance(in_program, str):
            yield f"In your own program: {in_program.format(processes=best.setup.processes)}."

    def values(self) -> dict[str, Any]:
        """Return the values of its own in the JSON object."""
        return {
            "kinds": [*self.kinds],
            "request": None if self.request is None else dict(self.request.masked),
            "alone_s": self.alone_s,
            "worker_memory_mib": self.worker and asdict(self.worker),
            "preloaded_worker_memory_mib": self.preloaded and asdict(self.preloaded),
            "causes": [asdict(cause) for cause in self.causes],
            "preload_causes": [asdict(cause) for cause in self.preload_causes],
            "remaining_causes": [asdict(cause) for cause in self.remaining],
            "beside": victims.values([self.probe] if self.probe else []),
            "remaining_beside": victims.values(self.advised),
            **who_in_words.values(self.who),
        }


def find(case: Case) -> ImportedApplication:
    """Return the kinds of an application and its name; raise the error of its import."""
    return find_application(case.task, case.python, case.path)


def servers(kinds: Sequence[str], python: str | None) -> list[str]:
    """Return the servers that can serve an application of `kinds` here, the usual ones first.

    With another interpreter, `python`, missing servers are installed at their start. Raise
    MachineError if there is no server.
    """
    entries = [e for e in catalog.servers().values() if e.serves in kinds]
    found = [e for e in entries if python is not None or not _missing(e)]
    if not found:
        lacking = _missing(min(entries, key=lambda e: rank(e.name)))
        what = f"no server here can serve {' or '.join(TITLES[kind] for kind in kinds)}"
        raise MachineError(
            f"{what}: {' and '.join(lacking)} missing", places.install_command(lacking)
        )
    return sorted((e.name for e in found), key=rank)


def probe_setup(server: str, users: int) -> Setup:
    """Return the set-up whose costs are measured: one process, with a thread for each user."""
    entry = catalog.find_server(server)
    kind = kind_of(entry)
    if kind != THREADS:
        return Setup(server, kind)
    return Setup(server, kind, 1, 1 if entry.workers_are == "processes" else users)


def describe(
    kinds: tuple[str, ...],
    name: str | None,
    started: Sequence[Started],
    cases: Sequence[Case],
    records: Sequence[Record],
) -> Application:
    """Return the application from the record of one process alone; there is one with a rate."""
    found = next(each for each in records if is_probe(each) and each.result.rate)
    case = cases[found.trial.case_index or 0]
    gains = result.gains(diagnosis.switches([found]), case, cases, records)
    alone_s, users = found.baseline.alone_s or 0.0, found.case.users
    probes = (each for each in records if is_probe(each))
    is_repeated = any(
        each.case.users > users and each.case.server == found.case.server for each in probes
    )
    return Application(
        kinds,
        name,
        costs.estimate_from_record(found, result.setup_of(case).workers),
        alone_s,
        max(alone_s, users / (found.result.rate or math.inf)) if is_repeated else alone_s,
        users,
        case.request,
        tuple(diagnosis.diagnose([found], gains, failures.import_starts(started))),
        gains=gains,
        who=found.who,
        probe=found,
        started=tuple(started),
    )


def add_setup(
    known: Application, setup: Setup, cases: Sequence[Case], records: Sequence[Record]
) -> Application:
    """Return an application with the causes and the memory of a set-up."""
    own = {index for index, case in enumerate(cases) if result.setup_of(case) == setup}
    preload = {index for index in own if cases[index].settings.get("preload") == "yes"}
    plain = {index for index in own if not result.is_variant(cases[index])}
    measured = [each for each in records if each.trial.case_index in plain]
    found = [each for each in measured if result.is_raced(each)] or measured
    windows = [each for each in found if each.trial.kind != LONG]
    gains = {**known.gains}
    for index in plain:
        gains |= result.gains(diagnosis.switches(windows), cases[index], cases, records)
    forked = {index for index in own if cases[index].settings.get("preload", "no") != "no"}
    preloaded = diagnosis.diagnose([each for each in records if each.trial.case_index in forked])
    shared = diagnosis.diagnose([each for each in records if each.trial.case_index in preload])
    return replace(
        known,
        preload_causes=(
            *(each for each in preloaded if each.kind == FORK_WITH_THREADS),
            *(each for each in shared if each.kind == PRELOAD_LOST),
        ),
        remaining=tuple(diagnosis.diagnose(windows, gains)),
        advised=tuple(windows),
        worker=_memory(found),
        preloaded=_memory([each for each in records if each.trial.case_index in preload]),
    )


def add_shared(known: Application, found: Sequence[Evidence]) -> Application:
    """Return an application whose causes say whether several processes share what limits them."""
    one = None if known.probe is None else known.probe.result.rate
    if not one:
        return known
    rates: dict[int, float] = {}
    for each in found:
        count = each.setup.processes
        rates[count] = max(each.capacity or 0.0, rates.get(count, 0.0))
    causes = tuple(pools.mark_shared(cause, one, rates) for cause in known.causes)
    remaining = tuple(pools.mark_shared(cause, one, rates) for cause in known.remaining)
    return replace(known, causes=causes, remaining=remaining)


def trace_memory(case: Case, leak_mib: float = 0.0) -> tuple[HotLine, ...]:
    """Load a server that traces its memory; return the lines that allocate what stays in use.

    Empty if they are unknown, or if most of a leak of `leak_mib` by each request is not Python's.
    It takes about TRACED_S.
    """
    with suppress(UserError, ValueError), server.hold_for(case) as upstream:
        running = server.start(case, {} if upstream is None else upstream.environment())
        try:
            return _trace_memory(case, running, leak_mib)
        finally:
            server.stop(running, server.SHORT_DRAIN)
    return ()


def _trace_memory(case: Case, running: server.Server, leak_mib: float) -> tuple[HotLine, ...]:
    sent, facts = case.request or Request(), builder.server_facts(running.facts)
    url = workload.url(running.url, sent)
    load = workload.warm_up(url, builder.case_facts(case, None), facts, sent)
    load = replace(load, users=min(case.users, TRACED_USERS), seconds=WARM_S)
    pids = server_reports.members(running.facts)

    def switch(trace: bool) -> list[server_reports.Facts]:
        values = {"trace": trace}
        return server_reports.request_reports(pids, values, server_reports.TIMEOUT_S)

    loads.run(load, "builtin")  # caches and buffers of threads
    switch(True)
    ran = loads.run(replace(load, seconds=TRACE_S), "builtin")
    return read_kept_lines(switch(False), leak_mib * (ran.result.figures.completed or 0))


def is_probe(record: Record) -> bool:
    """Whether a record is of one process alone."""
    return record.trial.round == result.ALONE


def _describe_threads(started: Started, processes: int) -> str:
    """Return what the import starts in words: so many processes do the same so many times."""
    place = escaped(f"{started.file}:{started.line}")
    text = f"The import starts {counted(started.count, 'thread')} ({place})"
    if processes == 1:
        return text
    each = f"in each of {processes} processes, unless it is preloaded"
    return f"{text} {each}: work such as that of a scheduler is repeated"


def _memory(records: Sequence[Record]) -> WorkerMemory | None:
    """Return the memory of a worker in the last record in which it is known."""
    found = [m for r in records if (m := r.application.memory).pss_mib is not None]
    return WorkerMemory(found[-1].pss_mib, found[-1].private_mib) if found else None


def deployment(case: Case, setup: Setup, name: str | None, preload: bool = False) -> str | None:
    """Return the command line of the server's own program; None without DEPLOY and FACTORY.

    `name` is the application's name in its module; None for settings of Django.
    """
    server = catalog.find_server(setup.server)
    form, factory_form = server.constants.get("DEPLOY"), server.constants.get("FACTORY")
    if not isinstance(form, str) or not isinstance(factory_form, str):
        return None
    spelling = catalog.parse_application(case.task)
    where, folder = spelling.where, case.path
    variables = {}
    if spelling.is_file:
        path = Path(where).absolute()
        where, folder = path.stem, str(path.parent)
    is_factory, target = spelling.is_factory, f"{where}:{name}"
    if name is None:
        variables["DJANGO_SETTINGS_MODULE"] = where
        is_factory, target = True, DJANGO.format(kind=server.serves)
    if folder is not None:
        variables = {"PYTHONPATH": folder, **variables}
    app = _quoted(factory_form if is_factory else "{app}", target)
    line = form.format(
        processes=setup.processes,
        threads=setup.workers or server.settings.get("workers"),
        app=app,
        preload=" --preload" if preload else "",
    )
    if case.python is not None:
        program, _, rest = line.partition(" ")
        line = f"{shlex.quote(find_interpreter(case.python))} -m {program} {rest}"
        line = line.replace("-m waitress-serve", "-m waitress")
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), line])


def _quoted(form: str, target: str) -> str:
    """Return a form with its `{app}`, quoted for a shell: a file may have any name."""
    if form.startswith("'"):  # the whole word is quoted
        return shlex.quote(form.strip("'").format(app=target))
    return form.format(app=shlex.quote(target))


def _missing(entry: Entry) -> list[str]:
    if entry.needs_python > sys.version_info[:2]:
        return ["a newer Python"]
    return [name for name in entry.needs if importlib.util.find_spec(name) is None]
