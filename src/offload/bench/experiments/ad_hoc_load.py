"""An ad-hoc load test: one load against a server that is already running."""

from __future__ import annotations

import sys
from dataclasses import replace

from offload import upstream
from offload.bench.target import pinning
from offload.bench.target.needed_upstream import needs_upstream
from offload.bench.trial import builder, load_phase
from offload.bench.trial.load_phase import SingleRequest
from offload.bench.trial.trial import build_record, is_stable
from offload.bench.trial.workload import GET, send_first_requests
from offload.engine import journal
from offload.engine.record import Baseline, CaseFacts, Record, ServerFacts
from offload.errors import StartError
from offload.loads import HERE, Load, Sender, mask_query
from offload.registry import catalog
from offload.suites import Case, Placement, Request
from offload.suites._load import ANYWHERE
from offload.upstream import Upstream


def of_server(
    facts: dict[str, object],
    load: Load,
    driver: str,
    sent: Request = GET,
    placement: Placement = ANYWHERE,
) -> Record:
    """Load one of our servers with the request `sent`; `facts` are its ready line."""
    task = str(facts["task"])
    entry = catalog.find_server(str(facts["server"]))
    defaults = {key: value for key, value in entry.settings.items() if key in facts}
    given = {key: facts[key] for key, value in defaults.items() if facts[key] != value}
    given |= {key: facts[key] for key in ("bind",) if key in facts}
    python, path = (_text(facts.get(key)) for key in ("executable", "path"))
    case = Case(
        entry.name,
        task,
        load.users,
        load.seconds or 0.0,
        load.keep_alive,
        given,
        python=None if python == sys.executable else python,
        path=path,
        request=None if sent == GET else replace(sent, header=None),
        placement=placement,
    )
    known = upstream.running() if needs_upstream(case) else None
    before = _baseline(load.url, case, sent)
    expected = before.body_sha256 if before.is_stable else None
    with pinning.pinned(int(str(facts["pid"])), placement.server_cpus):
        return _measure(
            builder.case_facts(case, known),
            builder.server_facts(facts),
            before,
            replace(load, response_sha256=expected),
            driver,
            placement.sender,
            facts,
            known,
            placement.pin,
        )


def _text(fact: object) -> str | None:
    return None if fact is None else str(fact)


def _baseline(url: str, case: Case, sent: Request) -> Baseline:
    """Measure the first requests, which also wait until the backlog of an earlier load is done.

    With 25 users, 4 workers and a task of 0.28 s the backlog is 1.75 s of work, which would slow
    down the next load by 5 %.
    """
    try:
        first = send_first_requests(url, request=sent)
    except StartError:  # the load counts these responses as failures
        return Baseline()
    return Baseline(
        alone_s=round(first.alone_s, 6),
        body_sha256=first.body_sha256,
        is_stable=is_stable(first, case),
    )


def of_url(load: Load, driver: str, sender: Sender = HERE) -> Record:
    """Load any URL of this machine, or of one that `sender` allows.

    The facts of its server are unknown.
    """
    shown = mask_query(load.url)
    command = f"run_load_test:url={shown}"
    place = Placement(sender.hosts).label
    case = CaseFacts(f"url/{shown}{place}", "url", shown, command, load.users)
    return _measure(case, ServerFacts(), Baseline(), load, driver, sender)


def _measure(
    case: CaseFacts,
    server: ServerFacts,
    before: Baseline,
    load: Load,
    driver: str,
    sender: Sender,
    facts: dict[str, object] | None = None,
    known: Upstream | None = None,
    pin: str | None = None,
) -> Record:
    case = replace(
        case,
        seconds=load.seconds,
        requests=load.requests,
        keep_alive=load.keep_alive,
        asked_rate=None if load.arrivals is None else load.arrivals.rate,
        think_s=load.think,
    )
    if load.message.headers:
        headers = "; ".join(f"{k}: {v}" for k, v in load.message.masked().headers.items())
        command = f"{case.command} ({headers})"
        case = replace(case, id=f"{case.id} {headers}", command=command)
    trial = builder.new_trial(journal.LASTING)
    loaded = load_phase.with_pin(load_phase.run(load, driver, facts, known, sender=sender), pin)
    server = builder.with_gil(server, loaded.gil_state)
    return build_record(trial, case, server, before, SingleRequest(), loaded)
