"""The commands. `fab` lists them, `fab --help COMMAND` explains one, `fab list` names what runs."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric import task
from fabric.main import program
from invoke import Context, Exit

import catalog
import spelling
import values
from errors import Mendable, RunError, UsageError

if TYPE_CHECKING:
    from suites import Case

GROUPS: dict[str, list[str]] = {}


def command(group: str) -> Callable[[Callable[..., None]], Any]:
    """Make a function a command of a group; what a user can mend ends it with one line."""

    def decorate(function: Callable[..., None]) -> Any:
        @functools.wraps(function)
        def run(context: Context, *words: str, **options: Any) -> None:
            for number in (signal.SIGTERM, signal.SIGHUP):  # so that every finally is run
                signal.signal(number, signal.default_int_handler)
            try:
                function(context, *words, **options)
                sys.stdout.flush()
            except Mendable as error:
                raise Exit(f"error: {error}", code=error.exit_code) from error
            except KeyboardInterrupt:
                raise Exit("interrupted: what was finished is kept", code=130) from None
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

        GROUPS.setdefault(group, []).append(function.__name__)
        return task(auto_shortflags=False)(run)

    return decorate


@command("Start here")
def quick(context: Context, driver: str = "") -> None:
    """Measure the 14 rows of the main benchmark in under 4 minutes, and print the table."""
    _run("tornado", driver, is_quick=True)


@command("Start here")
def list(context: Context) -> None:  # noqa: A001 - the command's name
    """Name every server, task, load driver and suite."""
    kinds = {
        "Servers": catalog.servers(),
        "Tasks": catalog.tasks(),
        "Load drivers": catalog.drivers(),
        "Suites": catalog.suites(),
    }
    width = max(len(name) for found in kinds.values() for name in found)
    for kind, found in kinds.items():
        print(kind)
        for entry in found.values():
            number = "" if entry.number is None else str(entry.number)
            print(f"  {number:1} {entry.name:{width}}  {entry.summary}".rstrip())
        print()
    print(
        "A task of your own: package.module:function (with path=FOLDER) or path/to/file.py:function"
    )


@command("Serve")
def run_server(
    context: Context,
    server: str = "",
    task: str = "",
    port: str = "8000",
    workers: str = "",
    backlog: str = "",
    start_method: str = "",
    python: str = "",
    path: str = "",
) -> None:
    """Serve a task with a server until Ctrl-C: fab run_server:3,network_sync.

    server        its number or name (2_group: the loop with a task that is split)
    task          its name, or package.module:function, or path/to/file.py:function
    port          on 127.0.0.1, 8000 unless given
    workers       of a pool, 4 unless given
    backlog       of the listen queue: 5 for sync, 1024 for the others
    start_method  of processes: forkserver, spawn or fork
    python        the interpreter to serve with: a path, or a name on PATH
    path          a folder that a task of your own imports from
    """
    from bench import serve

    serve.become(
        _case(
            server,
            task,
            {"workers": workers, "backlog": backlog, "start_method": start_method},
            python=serve.interpreter(python) if python else None,
            path=str(Path(path).expanduser().absolute()) if path else None,
        ),
        values.whole("port", port, 1, 65535),
    )


@command("Serve")
def run_upstream(context: Context, latency: str = "0", port: str = "") -> None:
    """Serve what the network tasks fetch, HTTP and HTTPS, until Ctrl-C.

    latency  seconds before each answer (0 unless given)
    port     for HTTP on 127.0.0.1; 8081 unless given, or a free one when that is busy
    """
    from bench import serve

    words = ["--latency", str(values.seconds("latency", latency, 0.0))]
    if port:
        serve.check_port(values.whole("port", port, 1, 65535))
        words += ["--port", port]
    os.chdir(catalog.ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "upstream", *words])  # noqa: S606 - as the user asked


@command("Measure")
def run_load_test(
    context: Context,
    time: str = "",
    users: str = "25",
    driver: str = "",
    requests: str = "",
    url: str = "",
    port: str = "",
    keep_alive: bool = False,
    format: str = "text",  # noqa: A002 - the option's name
) -> None:
    """Load the server that is running: fab run_load_test:time=30,users=25.

    time        seconds, 30 unless given (also 30s, 2m)
    users       that ask at once, each again as soon as it has its answer
    driver      siege or builtin; siege when it is installed
    requests    stop after so many instead of after a time
    url         load this URL of this machine instead
    port        which server, when several are running
    keep_alive  keep connections instead of a new one for each request
    format      text or json
    """
    import loads
    from bench import journal, load_test, running
    from reports import as_json, publish, text

    values.one_of("format", format, "text", "json")
    for one, other in ((("url", url), ("port", port)), (("requests", requests), ("time", time))):
        if one[1] and other[1]:
            raise UsageError(f"{one[0]}= and {other[0]}= exclude each other: give one of them")
    wanted = values.whole("port", port, 1, 65535) if port else None
    load = loads.Load(
        url,
        users=values.whole("users", users, 1, 100_000),
        seconds=None if requests else values.seconds("time", time or "30", 0.1),
        requests=values.whole("requests", requests, 1, 10**9) if requests else None,
        keep_alive=keep_alive,
    )
    tool = catalog.find_driver(driver or loads.default_driver()).name
    facts = {} if url else running.find(wanted)
    load = replace(load, url=url or f"http://127.0.0.1:{facts['port']}/")
    loads.check(load, tool)
    folder = journal.lasting_run(load_test.RUN)
    record = load_test.of_url(load, tool) if url else load_test.of_server(facts, load, tool)
    journal.append(folder, record)
    newest = publish.publish(folder, journal.read(folder))
    if format == "json":
        print(as_json.as_json([record]), end="")
    else:
        print(f"{record.output}\n\n{text.row(record)}\nrecorded in {newest}")
    if record.problem is not None or not record.completed:
        raise RunError(record.problem or f"no request was completed: see what {load.url} answers")


@command("Measure")
def run_all_load_tests(context: Context, quick: bool = False, driver: str = "") -> None:
    """Measure every row of the main benchmark and write results/results.txt.

    quick   only the 14 published rows, 10 s each: under 4 minutes
    driver  siege or builtin; siege when it is installed
    """
    _run("tornado", driver, is_quick=quick)


@command("Understand")
def report(context: Context, run: str = "", format: str = "text") -> None:  # noqa: A002
    """Print the table of a run, the newest unless named.

    run     its folder in results/, such as example
    format  text, json or rst
    """
    from bench import journal
    from reports import as_json, gil, rows, summary, text

    values.one_of("format", format, "text", "json", "rst")
    records = journal.read(journal.named(run) if run else journal.newest())
    if format == "json":
        print(as_json.as_json(records), end="")
    elif format == "rst":
        kept = rows.rows(records)
        print(summary.table(kept, "rst"), gil.table(gil.effects(kept), "rst"), sep="\n\n")
    else:
        print(text.tables(records), end="")


def _run(suite: str, driver: str, is_quick: bool) -> None:
    """Measure a suite's cases in turn and keep results.txt current after each."""
    import loads
    from bench import journal
    from bench.progress import duration
    from bench.run import expected_s, run
    from reports import publish, text

    module = importlib.import_module(f"suites.{catalog.find_suite(suite).name}")
    cases = [case.quick() for case in module.QUICK] if is_quick else module.CASES
    tool = driver or loads.default_driver()
    for case in cases:
        loads.check(loads.Load("http://127.0.0.1/", case.users, case.seconds), tool)
    folder = journal.new_run(suite)
    takes = duration(expected_s(cases))
    print(f"{len(cases)} rows with {tool}, about {takes}; into {folder}", file=sys.stderr)
    records = []
    for record in run(cases, suite, folder, tool):
        records.append(record)
        newest = publish.publish(folder, records)
    print(text.tables(records))
    print(f"all of it, with every load tool's own output: {newest}")
    if not any(record.completed for record in records):
        raise RunError("no row has figures: the notes under the table say why")


def _case(
    server: str, task: str, settings: dict[str, str], python: str | None, path: str | None
) -> Case:
    from suites import Case

    if not server:
        known = ", ".join(f"{e.number or ''} {e.name}".strip() for e in catalog.servers().values())
        raise UsageError(f"which server? fab run_server:NUMBER[,TASK] with one of {known}")
    given: dict[str, object] = {key: value for key, value in settings.items() if value}
    for key, most in (("workers", 256), ("backlog", 65535)):
        if key in given:
            given[key] = values.whole(key, settings[key], 1, most)
    if settings["start_method"]:
        values.one_of("start_method", settings["start_method"], "forkserver", "spawn", "fork")
    name = catalog.find_server(server).name
    return Case(
        name, task or catalog.default_task(server), settings=given, python=python, path=path
    )


def _print_commands() -> None:
    commands = program.collection.tasks
    width = max(len(name) for name in commands)
    for group, names in GROUPS.items():
        print(group)
        for name in names:
            print(f"  {name:{width}}  {(commands[name].__doc__ or '').partition(chr(10))[0]}")
        print()
    print("fab --help COMMAND explains one; arguments are written run_server:3,task,port=9000")


spelling.accept(program, _print_commands)
