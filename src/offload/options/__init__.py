"""The options of all commands, each declared once: its name, its type, its values and its help.

A command annotates a parameter with a row of this table. An option that means something else in one
command is declared beside that command by `option`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter, Token

from offload.errors import UsageError
from offload.options import arguments
from offload.registry import addresses, catalog, entries

if TYPE_CHECKING:
    from offload.suites import Case, Placement, Request

LOAD = Group.create_ordered("Load")
REQUEST = Group.create_ordered("Application and request")
GATE = Group.create_ordered("Gate")
PLACEMENT = Group.create_ordered("Placement")
SERVER = Group.create_ordered("Server")
OUTPUT = Group.create_ordered("Output")
Parse = Callable[[str, str], Any]  # name and text of an option to its value; raises UsageError


def option(name: str, help: str, group: Group | None = None, parse: Parse | None = None) -> Any:  # noqa: A002
    """Declare an option; without `parse` its value is a text."""

    def convert(kind: object, tokens: tuple[Token, ...]) -> object:
        assert parse is not None
        return parse(name, tokens[-1].value)

    return Parameter(
        name="--" + name.replace("_", "-"),
        help=help,
        group=group,
        converter=None if parse is None else convert,
        allow_leading_hyphen=True,
    )


def number(minimum: float, maximum: float) -> Parse:
    """Return a parser of numbers."""
    return partial(arguments.number, minimum=minimum, maximum=maximum)


def count(minimum: int, maximum: int) -> Parse:
    """Return a parser of whole numbers."""
    return partial(arguments.whole_number, minimum=minimum, maximum=maximum)


def seconds(minimum: float) -> Parse:
    """Return a parser of durations."""
    return partial(arguments.seconds, minimum=minimum)


def choice(*words: str) -> Parse:
    """Return a parser of one of several words."""
    return lambda name, text: arguments.one_of(name, text, *words)


def percent(minimum: float, maximum: float) -> Parse:
    """Return a parser of percentages, whose value is a share."""
    return lambda name, text: arguments.number(name, text, minimum, maximum) / 100


def parse_bind(name: str, text: str) -> str:
    """Parse the address of bind=."""
    return addresses.parse_bind(text)


def cpu_count(name: str, text: str) -> int | None:
    """Parse the number of CPUs that everything may use; None for an empty text."""
    if not text:
        return None
    return arguments.whole_number("cpus", text, 1, len(os.sched_getaffinity(0)))


REPORT_FORMATS = ("text", "json", "svg", "html")
YES_OR_NO = choice("yes", "no")
SECONDS = number(entries.MIN_S, entries.MAX_S)
CASE = (
    "SERVER/TASK, or with app= only SERVER; SERVERx16 has 16 workers, SERVERx2x16 2 processes of "
    "16 workers, SERVER@3.14 runs in Python 3.14"
)

# One row an option, which the formatter would make a column.
# fmt: off
# What is measured
CaseText = Annotated[str, option("case", CASE)]
Task = Annotated[str, option("task", "a task name, package.module:function or "
    "path/to/file.py:function")]
Run = Annotated[str, option("run", "its name in results/, or its path; default: the newest")]
Args = Annotated[str, option("args", "its arguments: @FILE with JSON, a list or an object of named "
    "arguments")]
Inputs = Annotated[str, option("inputs", "module:function that yields the arguments of successive "
    "calls")]
Code = Annotated[str, option("code", "a framework, such as fastapi or tornado: also print a "
    "program that uses the strategy", OUTPUT)]

# How it is measured
Users = Annotated[int, option("users", "concurrent users; each waits for a response before its "
    "next request; default: 25", LOAD, count(1, 20_000))]
KeepAlive = Annotated[bool, option("keep_alive", "keep connections open; default: a new connection "
    "for each request", LOAD)]
Driver = Annotated[str, option("driver", "load tool of the long runs; default: the published tool "
    "if installed, else builtin", LOAD)]
Arrivals = Annotated[str, option("arrivals", "of an open loop: uniform (default), at equal "
    "intervals; or poisson, at random, as from many independent users, which needs more "
    "reserve", LOAD, choice("uniform", "poisson"))]
Quick = Annotated[bool, option("quick", "at most 7 rounds instead of 40", LOAD)]
Rows = Annotated[str, option("rows", "a group of its rows; default: all, with quick those that its "
    "claims use", LOAD)]
Target = Annotated[float | None, option("target", "half-width of the intervals in percent; "
    "default: 2, with quick 5", LOAD, percent(0.1, 50.0))]
Cpus = Annotated[int | None, option("cpus", "number of CPUs that everything may use, the load tool "
    "too; default: all", LOAD, cpu_count)]

# By what it is served
Python = Annotated[str, option("python", "interpreter by its name from offload pythons; default: "
    "this one", SERVER)]
Workers = Annotated[int, option("workers", "number of threads, and of processes; default: "
    "4", SERVER, count(1, 256))]
Path = Annotated[str | None, option("path", "a folder from which your own task or application "
    "imports", REQUEST, arguments.folder)]
App = Annotated[str, option("app", "your own ASGI, WSGI or Tornado application, served unchanged, "
    "instead of a task: package.module:name, its factory as package.module:create_app(), or the "
    "settings module of Django", REQUEST)]
Pin = Annotated[str, option("pin", "yes: the load tool uses the last CPU and the server the "
    "others; or the CPUs of the server and of the tool, as 0-2/3", PLACEMENT)]

# What is printed
Format = Annotated[str, option("format", "text (default) or json", OUTPUT, choice("text", "json"))]
Open = Annotated[bool, option("open", "show the run live in a browser: see offload live", OUTPUT)]

# advise
AdviseRate = Annotated[float | None, option("rate", "requests/s that must be carried, such as 300: "
    "the cheapest set-up that carries them with a reserve of 20 %, shown by a load of 20 "
    "s", LOAD, number(0.1, 1e6))]
AdviseP99 = Annotated[float | None, option("p99", "maximum 99th percentile of response times, such "
    "as 50ms; default: unlimited", LOAD, arguments.response_time)]
AdviseMemory = Annotated[float | None, option("memory", "maximum memory of the server, such as "
    "512M; default: unlimited", LOAD, arguments.mebibytes)]
AdviseConnections = Annotated[int | None, option("connections", "maximum number of calls in "
    "progress, such as 16 connections to a database; default: unlimited", LOAD, count(1, 512))]
AdviseUsers = Annotated[int | None, option("users", "concurrent users who wait for each response; "
    "default: as many as each set-up needs", LOAD, count(1, 1000))]
AdviseIsolate = Annotated[str, option("isolate", "yes: a call that crashes must not affect others; "
    "default: no", LOAD, YES_OR_NO)]
AdviseOverload = Annotated[str, option("overload", "yes: then load the advised set-up with 1.5 "
    "times its capacity for 20 s, as it is, with a short backlog= and with protect=yes: 90 s more; "
    "default: no", LOAD, YES_OR_NO)]
AdviseBudget = Annotated[float | None, option("budget", "seconds until the answer; default: 90; "
    "180 if a call takes more than 50 ms; 60 if it takes 1 s or more", LOAD, number(30.0, 3600.0))]

# gil
GilWorkers = Annotated[int, option("workers", "number of threads in each process; the total is "
    "also the number of worker processes to compare with; default: 4", SERVER, count(1, 256))]
GilProcesses = Annotated[int, option("processes", "processes that share the port, each with its "
    "threads; default: 1", SERVER, count(1, 64))]

# run_all_load_tests
RunAllLoadTestsQuick = Annotated[bool, option("quick", "only the 14 published rows, at most 14 "
    "rounds and one run of 4 s each: 5 minutes", LOAD)]
RunAllLoadTestsRows = Annotated[str, option("rows", "a group of its rows: published, latency, "
    "later, crowd, gil, matrix, matrix_xml, protection or all; default: all, with quick "
    "published", LOAD)]

# run_suite
RunSuiteSuite = Annotated[str, option("suite", "a name from offload list, or all, to run them one "
    "after another")]
RunSuiteQuick = Annotated[bool, option("quick", "at most 14 rounds and one run of 4 s each", LOAD)]
RunSuitePythons = Annotated[str, option("pythons", "measure every row in each of these, by names "
    "from offload pythons: 3.11+3.14+3.13t-nogil", SERVER)]

# resume
ResumeRun = Annotated[str, option("run", "its name in results/, or its path; default: the newest "
    "unfinished run")]
ResumeFormat = Annotated[str, option("format", "text (default) or json; for a gate any format of "
    "offload compare_runs", OUTPUT)]

# capacity
CapacityP50 = Annotated[float | None, option("p50", "limit of the "
    "median", LOAD, arguments.response_time)]
CapacityP90 = Annotated[float | None, option("p90", "limit of the 90th "
    "percentile", LOAD, arguments.response_time)]
CapacityP95 = Annotated[float | None, option("p95", "limit of the 95th "
    "percentile", LOAD, arguments.response_time)]
CapacityP99 = Annotated[float | None, option("p99", "limit of the 99th percentile of the response "
    "times, as 50ms or 0.2s", LOAD, arguments.response_time)]
CapacityP999 = Annotated[float | None, option("p999", "limit of the 99.9th "
    "percentile", LOAD, arguments.response_time)]

# compare
CompareOne = Annotated[str, option("one", CASE)]
CompareOther = Annotated[str, option("other", "the case to compare with it")]
CompareQuick = Annotated[bool, option("quick", "at most 7 rounds instead of 40; differences below "
    "5 % instead of 2 % do not matter", LOAD)]

# scale
ScaleWorkers = Annotated[str, option("workers", "numbers of workers to measure (of processes, if "
    "the server has no workers): a range 1..16, or a list 1+2+4+8", LOAD)]
ScaleProcesses = Annotated[str, option("processes", "numbers of processes that share the port; "
    "together with workers=, every pair is measured, and ranges double: processes=1..4 "
    "workers=8..64 are 12 sizes", LOAD)]
ScaleUsers = Annotated[str, option("users", "numbers of users instead of workers; with workers a "
    "single number, default: 25", LOAD)]

# baseline
BaselineName = Annotated[str, option("name", "letters, digits, '.', '_' and '-'; a run that has "
    "this name is replaced")]

# compare_runs
CompareRunsName = Annotated[str, option("name", "a baseline from offload baseline, or a run: its "
    "cases are compared")]
CompareRunsGate = Annotated[str, option("gate", "percent of its rate that a case may lose; "
    "default: 5", GATE)]
CompareRunsAgainst = Annotated[str, option("against", "what to measure now, side by side with this "
    "checkout and environment: the folder of another checkout or venv, an interpreter such as "
    "3.13, or a version of a package such as tornado==6.4; default: nothing is measured, and the "
    "baseline's records are compared", GATE)]
CompareRunsCases = Annotated[str, option("cases", "only these cases, as 3/sleep_sync+4/sleep_sync; "
    "with against= they need no baseline", GATE)]
CompareRunsRun = Annotated[str, option("run", "without against=: the run to compare with the "
    "baseline; default: the newest", GATE)]
CompareRunsMinRate = Annotated[str, option("min_rate", "requests/s that each case must have now, "
    "too", GATE)]
CompareRunsMaxP99 = Annotated[str, option("max_p99", "the 99th percentile of response times that "
    "each case may have now, such as 50ms", GATE)]
CompareRunsUsers = Annotated[str, option("users", "with against= and without a baseline: "
    "concurrent users of each case; default: 25", LOAD)]
CompareRunsBudget = Annotated[str, option("budget", "seconds of measuring; default: 600", LOAD)]
CompareRunsFormat = Annotated[str, option("format", "text (default), json, markdown, junit (XML), "
    "bencher (Bencher Metric Format) or badge (JSON of shields.io); results/gate/ has all of "
    "them", OUTPUT)]

# live
LiveRun = Annotated[str, option("run", "its name in results/, or its path; default: the newest "
    "that is measured now, else the newest")]
LiveOpen = Annotated[bool, option("open", "open the page in a browser")]

# run_load_test
RunLoadTestTime = Annotated[float | None, option("time", "duration in seconds (also 30s, 2m); "
    "default: 30", LOAD, seconds(0.1))]
RunLoadTestUsers = Annotated[int, option("users", "concurrent users; each waits for a response "
    "before its next request; default: 25, at most 1,000 with siege; with rate= the maximum number "
    "of connections", LOAD, count(1, 20_000))]
RunLoadTestDriver = Annotated[str, option("driver", "a load tool from offload list; default: siege "
    "if installed, else builtin", LOAD)]
RunLoadTestRequests = Annotated[int | None, option("requests", "number of requests after which the "
    "test ends, instead of time", LOAD, count(1, 10**9))]
RunLoadTestUrl = Annotated[str, option("url", "a URL on this machine to load instead of the "
    "server; other machines need allow=; it may have user:password@", REQUEST)]
RunLoadTestPort = Annotated[int | None, option("port", "port of the server, if several are "
    "running", REQUEST, count(1, 65535))]
RunLoadTestRate = Annotated[float | None, option("rate", "open loop: requests per second, "
    "independent of responses; only with builtin", LOAD, number(0.001, 1e6))]
RunLoadTestThink = Annotated[float, option("think", "mean seconds between a response and the next "
    "request; default: 0; only with builtin", LOAD, seconds(0.0))]
RunLoadTestLoadProcesses = Annotated[int, option("load_processes", "number of load processes of "
    "builtin, on each host; default: 1", LOAD, count(1, 64))]
RunLoadTestAllow = Annotated[str, option("allow", "with url=: names of other machines that may be "
    "loaded, as a+b; only name your own", PLACEMENT)]

# completion
CompletionShell = Annotated[str, option("shell", "bash (default), zsh or fish")]

# run_server
RunServerServer = Annotated[str, option("server", "number or name of the server (2_group: the loop "
    "with a split task)")]
RunServerPort = Annotated[int, option("port", "port to listen on; default: "
    "8000", parse=count(1, 65535))]
RunServerPython = Annotated[str, option("python", "interpreter of the server: a path, a name on "
    "PATH or a name from offload pythons such as 3.14; 3.13t-gil and 3.13t-nogil set the GIL of "
    "3.13t; default: this one", SERVER)]

# run_upstream
RunUpstreamLatency = Annotated[float, option("latency", "seconds before each response; default: "
    "0", parse=number(0.0, 60.0))]
RunUpstreamPort = Annotated[int | None, option("port", "HTTP port on 127.0.0.1; default: 8081, or "
    "a free port if that is in use", parse=count(1, 65535))]

# build_octopus_db
BuildOctopusDbRows = Annotated[int, option("rows", "number of octopuses, and of links to their "
    "food; default: 1000000", parse=count(1000, 10_000_000))]

# quick
QuickDriver = Annotated[str, option("driver", "load tool of the long runs: siege, builtin or "
    "h2load; default: siege if installed, else builtin", LOAD)]

# report
ReportRun = Annotated[str, option("run", "its name in results/, such as example, or its path; "
    "default: the newest")]
ReportRuns = Annotated[str, option("runs", "several runs instead, as RUN+RUN; with html side by "
    "side")]
ReportFormat = Annotated[str, option("format", "text (default), json, svg for a picture of "
    "the GIL effects, or html to write report.html into its folder: the answer, pictures and "
    "every figure", OUTPUT, choice(*REPORT_FORMATS))]
ReportOpen = Annotated[bool, option("open", "open the report.html in a browser", OUTPUT)]

# claims
ClaimsSuite = Annotated[str, option("suite", "a suite; default: all, or those of the run")]
ClaimsRun = Annotated[str, option("run", "a folder in results/ to use instead, such as example; "
    "the verdicts are written to it")]

# watch
WatchPid = Annotated[int | None, option("pid", "pid of a gunicorn, uvicorn, granian or any Python, "
    "whose children are watched, too; default: the process that listens on the port of url, or "
    "that of offload run_server", parse=count(1, 2**22))]
WatchUrl = Annotated[str, option("url", "also send one request a second to it, and print its "
    "response time")]
WatchSeconds = Annotated[float | None, option("seconds", "end after this time (30, 2m); default: "
    "end with Ctrl-C", parse=seconds(1.0))]
WatchWithoutGil = Annotated[bool, option("without_gil", "watch the other figures if no GIL can be "
    "read, as in a program without Python")]
WatchFormat = Annotated[str, option("format", "text (default) or json: one object a "
    "line", OUTPUT, choice("text", "json"))]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The request that users send."""

    request: Annotated[str, option("request", "the path to request, such as /quote/7?size=2; "
        "default: /", REQUEST)] = ""
    method: Annotated[str, option("method", "the request's method; default: GET, with body "
        "POST", REQUEST)] = ""
    body: Annotated[str, option("body", "the request's body, or with @FILE the content of a "
        "file", REQUEST)] = ""
    header: Annotated[str, option("header", "'Name: value' to send, several as 'A: 1; B: 2', or "
        "@FILE with one in each line, which hides them from other users of this machine; records "
        "show the values of harmless headers only", REQUEST)] = ""
    beside: Annotated[str, option("beside", "a light route to measure under this load, such as "
        "/healthz; default: healthz, livez, readyz, ping or health, if the application has "
        "it", REQUEST)] = ""

    def parse(self) -> Request | None:
        """Return the request; None for the default, `GET /`. Raise UsageError."""
        return parse_request(self.request, self.method, self.body, self.header, self.beside)

    def check_unused(self) -> None:
        """Raise UsageError if there is a request, which only an application can be sent."""
        if self.parse() is not None:
            what = "request=, method=, body=, header= and beside= need app="
            raise UsageError(what, "name your application by app=, or leave them out")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CaseOptions(RequestOptions):
    """Your own application and its request, or the folder of your own task."""

    app: App = ""
    path: Path = None

    def case(self, text: str, which: str = "case") -> Case:
        """Return the case of a text with this application and request; raise UsageError."""
        one = parse_case(text, self.app, which)
        if self.beside and not self.app:
            raise UsageError("beside= needs app=, your application", "leave it out, or add app=")
        return replace(one, path=self.path, request=self.parse())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """How the answer is shown."""

    open: Open = False
    format: Format = "text"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """The hosts that send a load, and how they are connected."""

    from_: Annotated[str, option("from", "hosts that send the load together by SSH, as "
        "a+user@b:2222 (or fab -H a,b); default: this machine; see "
        "docs/how_to/load_hosts.rst", PLACEMENT)] = ""
    ssh_config: Annotated[str, option("ssh_config", "with from=: an SSH configuration (or fab -S "
        "FILE)", PLACEMENT)] = ""
    identity: Annotated[str, option("identity", "with from=: a private key (or fab -i "
        "FILE)", PLACEMENT)] = ""
    connect_timeout: Annotated[int | None, option("connect_timeout", "with from=: seconds until a "
        "host accepts a connection (or fab -t SECONDS)", PLACEMENT, count(1, 3600))] = None

    def connect(self) -> None:
        """Use these options for connections to hosts."""
        from offload import ssh

        ssh.configure(self.ssh_config, self.identity, self.connect_timeout)


BIND = "with from=: the address of this machine at which the hosts reach the server"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlacementOptions(HostOptions):
    """Where the load of a case is sent from."""

    bind: Annotated[str, option("bind", BIND, PLACEMENT)] = ""

    def place(self, one: Case, pin: str = "") -> Case:
        """Return the case with a placement, and the address of its server; raise UsageError."""
        placed = place_case(one, self.from_, self.bind, pin)
        if placed.placement.hosts:
            self.connect()
        return placed


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of servers; a server refuses those that it does not have."""

    workers: Annotated[str, option("workers", "maximum number of concurrent tasks in each process: "
        "workers of the pool, threads, child processes or greenlets; default: 4; 40 for a thread "
        "or process per request and for anyio's threads; 1000 for gevent; of uvicorn_workers the "
        "threads of `def` endpoints (anyio's limiter), default: as many as the application "
        "wants", SERVER)] = ""
    processes: Annotated[str, option("processes", "processes that share the port: of prefork "
        "and uvicorn_workers (default: 4), fastapi_requests (2), threads, starlette_threads, other "
        "gunicorn servers, granian and Django (1)", SERVER)] = ""
    reuse_port: Annotated[str, option("reuse_port", "for threads and prefork: yes to give each "
        "process a socket of its own on the port (SO_REUSEPORT): connections are divided evenly; "
        "default: no", SERVER, YES_OR_NO)] = ""
    runtime_threads: Annotated[str, option("runtime_threads", "Rust threads in each process of "
        "granian; default: 1", SERVER)] = ""
    mode: Annotated[str, option("mode", "runtime mode of granian: mt (one runtime for all threads) "
        "or st (one for each)", SERVER)] = ""
    backlog: Annotated[str, option("backlog", "length of the listen queue; default: 5 for sync, "
        "1024 for the others", SERVER)] = ""
    start_method: Annotated[str, option("start_method", "start method of processes: forkserver "
        "(default), spawn or fork", SERVER, choice("forkserver", "spawn", "fork"))] = ""
    idempotent: Annotated[str, option("idempotent", "for processes, pipes, pebble and dask: "
        "whether to retry a task after its worker died, yes or no; default: yes for our tasks, no "
        "for your own", SERVER, YES_OR_NO)] = ""
    scheduler: Annotated[str, option("scheduler", "for dask: address of a running scheduler, "
        "tcp://HOST:8786; default: a cluster on this machine", SERVER)] = ""
    ssh: Annotated[str, option("ssh", "for dask: hosts on which workers are started, separated by "
        "+, each as in ssh HOST", SERVER)] = ""
    dask_isolate: Annotated[str, option("dask_isolate", "for dask: yes to run each task in a "
        "process of its worker, so that a crash costs one task and no worker; default: no; with "
        "protect=yes: yes", SERVER, YES_OR_NO)] = ""
    preload: Annotated[str, option("preload", "for gunicorn: yes to import your application before "
        "the processes are forked, so that they share its memory, freeze to call gc.freeze() then, "
        "too; default: no", SERVER, choice(*entries.PRELOADS))] = ""
    bind: Annotated[str, option("bind", "IPv4 address of this machine to listen on, such as "
        "10.0.0.5, or 0.0.0.0 for all: other machines can then run the task; default: "
        "127.0.0.1", SERVER, parse_bind)] = ""
    allowed_hosts: Annotated[str, option("allowed_hosts", "names that requests may have in their "
        "Host header, besides 127.0.0.1, localhost, [::1] and the address of bind=, separated by "
        "+; without it an application of your own gets every request", SERVER)] = ""
    protect: Annotated[str, option("protect", "for servers on Tornado: yes to refuse requests "
        "under overload, limit the time of tasks and drop requests of disconnected clients: "
        "docs/reliability.rst; default: no", SERVER, YES_OR_NO)] = ""
    max_wait: Annotated[float | str, option("max_wait", "with protect: refuse a request whose "
        "expected wait is longer, in s; default: 5", SERVER, SECONDS)] = ""
    task_timeout: Annotated[float | str, option("task_timeout", "with protect: respond 504 if a "
        "task takes longer, in s; default: 30", SERVER, SECONDS)] = ""
    max_connections: Annotated[str, option("max_connections", "with protect: maximum number of "
        "open connections; default: 2048", SERVER)] = ""
    health: Annotated[str, option("health", "for servers on Tornado: yes to serve /healthz, "
        "/readyz and /metrics; default: no", SERVER, YES_OR_NO)] = ""


# fmt: on
# The parts of a case: its application, its request and where its load is sent from


def parse_case(text: str, app: str, which: str = "case") -> Case:
    """Parse a case; with `app` its text is only the server: `gunicorn_gthreadx16@3.14`."""
    from offload.suites import _case

    if not app:
        return _case.parse_case(text, which)
    if not text:
        known = ", ".join(catalog.servers_of())
        raise UsageError("no server given for app=", f"use one of {known}")
    if "/" in text:
        what = f"{text!r} has a task, and app= replaces the task"
        raise UsageError(what, "write the server alone before app=")
    return _case.parse_case(f"{text}/{application_task(app)}", which)


def application_task(app: str) -> str:
    """Return the task name of a user's application; raise UsageError if it is invalid."""
    return catalog.find_task(f"{catalog.PREFIX}{app}").name


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of `from=a+user@b:2222`; raise UsageError."""
    return addresses.parse_ssh_hosts("from", text)


def parse_placement(hosts: str, pin: str, processes: int = 1) -> Placement:
    """Return where a load is sent from, and the CPUs of both sides; raise UsageError."""
    from offload import resource_limits
    from offload.suites import Placement
    from offload.suites._case import parse_pin

    names = parse_hosts(hosts)
    if names and pin:
        raise UsageError("from= and pin= exclude each other", "pin= is for one machine")
    return parse_pin(pin, resource_limits.cpu_numbers(), processes) if pin else Placement(names)


def place_case(one: Case, hosts: str, bind: str, pin: str = "") -> Case:
    """Return the case with a placement, and the address of its server; raise UsageError."""
    place = parse_placement(hosts, pin)
    if place.hosts and not bind:
        what = "from= needs the address at which the hosts reach the server"
        raise UsageError(what, "add bind=ADDRESS, an address of this machine")
    settings = dict(one.settings)
    if bind:
        settings["bind"] = addresses.parse_bind(bind)
        if place.hosts and settings["bind"] == addresses.ALL:
            raise UsageError(f"bind={bind} is not an address for from=", "name one address")
    return replace(one, settings=settings, placement=place)


def parse_request(
    request: str, method: str, body: str, header: str, beside: str = ""
) -> Request | None:
    """Return the request that users send; None for the default, `GET /`. Raise UsageError."""
    from offload import loads
    from offload.suites import Request

    if not (request or method or body or header or beside):
        return None
    request = _parse_path("request", request)
    beside = _parse_path("beside", f"/{beside.removeprefix('/')}" if beside else "")
    if beside and beside == (request or "/"):
        what = f"beside={loads.mask_query(beside)[:100]} is the route that is loaded"
        raise UsageError(what, "name another one, such as beside=/healthz")
    header = arguments.header_lines("header", header)
    content = arguments.body("body", body)
    verb = method.upper() or ("GET" if content is None else "POST")
    found = Request(
        request or "/",
        verb,
        content,
        header or None,
        private=content is not None,
        beside=beside or None,
    )
    load = loads.Load("http://127.0.0.1/", message=found.message, keep_alive=True)
    loads.check(load, "builtin")
    return found


def _parse_path(name: str, text: str) -> str:
    """Return a path and its query; raise UsageError unless it is one, or empty."""
    from offload import loads

    text = arguments.one_line(name, text)
    shown = loads.mask_query(text)[:100]
    if text and not text.startswith("/"):
        raise UsageError(f"{name}={shown!r} is not a path", f"start it with /, as {name}=/quote")
    if not text.isascii() or not text.isprintable() or " " in text:
        what = f"{name}={shown!r} has characters that are not allowed in a URL"
        raise UsageError(what, "encode them: a space is %20")
    return text
