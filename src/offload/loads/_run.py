"""Check a load, and run it with a load tool in its own folder and process group.

A tool that hangs is killed after a deadline.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from urllib.parse import urlsplit

import psutil

from offload import resource_limits
from offload.errors import Flag, MachineError, UsageError
from offload.loads._load import (
    HERE,
    Command,
    Load,
    LoadResult,
    LoadRun,
    Message,
    Sender,
    check_figures,
    mask_query,
)
from offload.registry import catalog, places
from offload.registry.addresses import is_loopback

GRACE = 5.0  # s after the end of the load and one timeout, when a tool is regarded as hung
WARM_UP = 90.0  # maximum in s of a warm-up, which waits for every user
LONGEST = 3600.0  # maximum in s of a load with a fixed number of requests
TIMEOUTS = 2.0  # of such a request: a tool may apply its timeout to connecting and to reading
POLL = 0.01  # s
SHORT = 0.5  # s of load: in a shorter one, a tool uses most of its CPU time to start
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
VERSION = re.compile(r"\d+(\.\d+)+\S*")
CLOCK = 1.0  # s by which the time that a tool reports may exceed the time for which it ran
EARLY = 1.5  # s before the requested end, at which a tool ended early; siege may by 1 s
OUTPUT = 1_000_000  # characters of a tool's output that are kept; siege prints fewer


def run(load: Load, name: str, sender: Sender = HERE) -> LoadRun:
    """Run a load once; a tool that hangs is killed, and its output is kept."""
    driver = check(load, name, sender)
    command: Command = driver.command(load)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        for file, text in command.files.items():
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", "surrogateescape")  # keeps bytes that are not UTF-8
        argv = tuple(argument.replace("{folder}", folder) for argument in command.argv)
        added = {k: v.replace("{folder}", folder) for k, v in command.environment.items()}
        with Path(folder, "stdout").open("w+b") as out, Path(folder, "stderr").open("w+b") as err:
            exited = _wait_for_exit(argv, added, out, err, _deadline(load), sender.cpus)
            stdout, stderr = _text(out), _text(err)
    output = "\n".join(text for text in (_printable(stderr), _printable(stdout)) if text)
    output = load.message.mask(output, load.url)
    if exited is None:
        problem = f"{name} hung and was killed after {_deadline(load):.0f} s"
        result = LoadResult(problem=problem)
    else:
        parsed = check_figures(driver.parse(stdout, stderr, load), name)
        result = _with_ending(parsed, exited, load, name)
    masked = replace(load, url=mask_query(load.url), message=load.message.masked())
    if masked != load:  # without the secrets
        shown = driver.command(masked)
        argv = tuple(argument.replace("{folder}", folder) for argument in shown.argv)
    model = "open" if load.arrivals else "closed"
    cpu_s = None if exited is None else exited.cpu_s
    used_s = cpu_s if result.driver_cpu_s is None else result.driver_cpu_s
    return LoadRun(
        name,
        version(driver),
        argv,
        result,
        used_s,
        output,
        model,
        hung=exited is None,
        driver_busy=busy_share(command, load, result, used_s, len(sender.cpus)),
    )


def _with_ending(result: LoadResult, exited: _Exit, load: Load, name: str) -> LoadResult:
    """Add how a tool ended, by its signal and by this program's clock, to its result.

    The exit code is not used: siege returns 0 whatever happens. Tools that read the time of day
    report wrong times, or end early, if the clock is set while they run.
    """
    ended = None
    if exited.signal is not None:
        description = signal.strsignal(exited.signal)
        ended = f"{name} was ended by signal {exited.signal} ({description})"
    if result.problem is not None:  # after a signal its output is incomplete
        return replace(result, problem=load.message.mask(ended or result.problem, load.url))
    elapsed_s = result.figures.elapsed_s
    if elapsed_s is not None and elapsed_s > exited.lasted_s + CLOCK:
        what = f"{name} reports {elapsed_s:.0f} s, but ran for {exited.lasted_s:.0f} s"
        return LoadResult(problem=f"{what}: the machine's clock was set: measure again")
    notes = result.notes
    if ended is not None:
        notes += (Flag("died", f"{ended} after its result"),)
    if load.seconds and exited.lasted_s < load.seconds - EARLY:
        early = f"{name} ended after {exited.lasted_s:.3g} of {load.seconds:g} s"
        notes += (Flag("early", early, "if the machine's clock was set, measure again"),)
    return replace(result, notes=notes)


def busy_share(
    command: Command, load: Load, result: LoadResult, cpu_s: float | None, cpus: int = 0
) -> float | None:
    """Return a tool's CPU time as a share of the time that its threads can use, from 0 to 1.

    A tool with one thread is saturated when it uses one core, however many cores there are. If the
    tool reports its busiest process, and its share is larger than this average, return that share.
    For a load below SHORT return only what the tool reports. `cpus` is the number of CPUs that the
    tool was limited to; 0 is no limit.
    """
    elapsed_s = result.figures.elapsed_s or 0.0
    if result.driver_cpu_s is None:  # `cpu_s` includes the warm-up
        elapsed_s += load.window.warm
    if cpu_s is None or elapsed_s < SHORT:
        return result.driver_busy
    usable = min(cpus or resource_limits.cpu_count(), command.threads or load.users)
    return round(max(cpu_s / elapsed_s / usable, result.driver_busy or 0.0), 4)


@dataclass(frozen=True)
class _Exit:
    """The CPU time in s of a tool that has ended, and the signal that ended it, if any.

    `lasted_s` is the time for which it ran, by this program's monotonic clock.
    """

    cpu_s: float
    signal: int | None = None
    lasted_s: float = math.inf


def _wait_for_exit(
    argv: tuple[str, ...],
    added: Mapping[str, str],
    out: IO[bytes],
    err: IO[bytes],
    deadline: float,
    cpus: Sequence[int] = (),
) -> _Exit | None:
    """Run the tool to its end; return None if it had to be killed after its deadline."""
    try:
        with resource_limits.limited_to_cpus(cpus):
            process = subprocess.Popen(
                (*_die_with_parent(), *argv),
                env={**os.environ, **places.import_path(), **added},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
    except OSError as error:
        what = f"{argv[0]} does not start: {error.strerror}"
        raise MachineError(what, "install it again, or use driver=builtin") from error
    began = time.monotonic()
    try:
        while time.monotonic() < began + deadline:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                lasted_s = time.monotonic() - began
                return _Exit(usage.ru_utime + usage.ru_stime, number, lasted_s)
            time.sleep(POLL)  # wait4 has no timeout
        return None
    finally:
        if process.returncode is None:  # siege does not always end on SIGTERM
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _die_with_parent() -> tuple[str, ...]:
    """Return a prefix of argv, with which the kernel kills the tool when this process ends."""
    found = shutil.which("setpriv")
    return () if found is None else (found, "--pdeathsig", "KILL", "--")


def _deadline(load: Load) -> float:
    if load.each is not None:
        return WARM_UP + GRACE
    if load.seconds is None:
        each = math.ceil((load.requests or 0) / load.users)  # requests of each user
        return min(LONGEST, each * (TIMEOUTS * load.timeout + 2 * load.think) + GRACE)
    if load.has_window:
        window = load.window
        longest = window.longest if window.responses(load.users) else 0.0
        return max(window.warm, WARM_UP) + max(load.seconds, longest) + load.timeout + GRACE
    return load.seconds + load.timeout + GRACE


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _printable(text: str) -> str:
    """Return a tool's output without colours and control characters."""
    plain = "".join(c for c in COLOUR.sub("", text) if c.isprintable() or c in "\n\t")
    return (
        plain.strip("\n")
        if len(plain) <= OUTPUT
        else f"{plain[:OUTPUT]}\n... {len(plain)} characters"
    )


def version(driver: ModuleType) -> str | None:
    """Return a tool's version: the first number with a dot in its output."""
    if driver.TOOL is None:
        return str(driver.version())
    try:
        # siege writes to HOME even for its version.
        with tempfile.TemporaryDirectory() as home:
            completed = subprocess.run(
                [driver.TOOL, getattr(driver, "VERSION_OPTION", "--version")],
                env={**os.environ, "HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=10,
            )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(completed.stdout + completed.stderr)
    return found and found[0]


# Checks before a load: its numbers, its driver and its target
ARRIVALS = ("uniform", "poisson")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # those with a response body
NOT_NEGATIVE = ("seconds", "warm", "cycles", "completions", "think", "longest")
POSITIVE = ("rate", "users", "requests", "each", "timeout", "processes")
WINDOW_FIELDS = ("warm", "cycles", "completions")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110
SET_BY_TOOL = {"connection", "content-length", "host", "transfer-encoding"}


def check(load: Load, name: str, sender: Sender = HERE) -> ModuleType:
    """Return the driver's module; raise UsageError or MachineError, each with a remedy."""
    driver = importlib.import_module(f"offload.loads.{catalog.find_driver(name).name}")
    _check_numbers(load)
    _check_ability(load, driver, name)
    if sender.hosts and name != "builtin":
        raise UsageError(f"{name} cannot load from several hosts", "use driver=builtin")
    if driver.MAX_USERS is not None and load.users > driver.MAX_USERS:
        fix = "use fewer" if name == "builtin" else "use fewer, or driver=builtin"
        limit = f"{name} supports at most {driver.MAX_USERS} users"
        raise UsageError(f"users={load.users}: {limit}", fix)
    if not is_installed(driver):
        fix = f"{driver.INSTALL}, or use driver=builtin"
        raise MachineError(f"{name} is not installed", fix)
    if not sender.hosts:
        resource_limits.raise_open_files_limit(load.users)
    _check_target(load.url, sender.allow)
    return driver


def is_installed(driver: ModuleType) -> bool:
    """Whether a driver's TOOL is on PATH and its PACKAGE can be imported, if it has them."""
    package = getattr(driver, "PACKAGE", None)
    has_tool = driver.TOOL is None or shutil.which(driver.TOOL) is not None
    return has_tool and (package is None or importlib.util.find_spec(package) is not None)


def _check_numbers(load: Load) -> None:
    """Raise UsageError for a load that no driver can run."""
    settings = _settings(load)
    for name in (*NOT_NEGATIVE, *POSITIVE):
        value = settings.get(name)
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{name}={value}: must be a number of at least 0")
        if value == 0 and name in POSITIVE:
            rule = "must be at least 1" if name == "users" else "must be more than 0"
            raise UsageError(f"{name}={value}: {rule}")
    if load.seconds is None and load.requests is None and load.each is None:
        raise UsageError("the load has no end", "set seconds= or requests=")
    if (load.requests or load.each) and any(settings[name] for name in WINDOW_FIELDS):
        raise UsageError("a window with a warm-up needs seconds=, not requests=")
    if load.arrivals is not None:
        if load.requests or load.each or load.window.cycles or load.think:
            fix = "use time= instead of requests=, and omit think="
            raise UsageError("rate= is an open loop", fix)
        if load.arrivals.process not in ARRIVALS:
            known = ", ".join(ARRIVALS)
            raise UsageError(f"arrivals={load.arrivals.process!r}", f"choose from {known}")
    if load.processes > load.users:
        what = f"load_processes={load.processes}: more than {load.users} users"
        raise UsageError(what, "use more users, or fewer processes")
    if load.message.method not in METHODS:
        raise UsageError(f"method={load.message.method!r}", f"choose from {', '.join(METHODS)}")
    _check_headers(load.message)


def _check_headers(message: Message) -> None:
    """Raise UsageError for headers that no tool can send; its message does not contain values."""
    names: set[str] = set()
    for name, value in message.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise UsageError(f"header {name!r}: invalid name", "write header='Name: value'")
        if name.lower() in SET_BY_TOOL:
            raise UsageError(f"header {name}: the load tool sets it", "omit it")
        if name.lower() in names:
            raise UsageError(f"header {name}: set twice", "set it once")
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"header {name}: its value is not printable ASCII", "encode its value")
        names.add(name.lower())


def _check_ability(load: Load, driver: ModuleType, name: str) -> None:
    """Raise UsageError for a load that this driver cannot run.

    LACKS of a driver maps fields of a load or of its window, which must have their defaults, to the
    name of the missing feature. METHODS are the methods that it can send. With ALWAYS_KEEP_ALIVE it
    cannot open a new connection for every request.
    """
    lacks: dict[str, str] = getattr(driver, "LACKS", {})
    settings, defaults = _settings(load), _settings(Load(load.url))
    for field, feature in lacks.items():
        if settings[field] != defaults[field]:
            raise UsageError(f"{name} has no {feature}", "use driver=builtin")
    if load.message.method not in getattr(driver, "METHODS", METHODS):
        raise UsageError(f"{name} cannot send {load.message.method}", "use driver=builtin")
    if (check := getattr(driver, "check_load", None)) is not None:
        check(load)
    if getattr(driver, "ALWAYS_KEEP_ALIVE", False) and not load.keep_alive:
        raise UsageError(
            f"{name} always keeps connections alive", "use keep_alive=yes, or driver=builtin"
        )


def _settings(load: Load) -> dict[str, Any]:
    """Return the fields of a load, its message, its window and its arrivals by name."""
    rate = {} if load.arrivals is None else {"rate": load.arrivals.rate}
    return {**vars(load), **vars(load.message), **vars(load.window), **rate}


def _check_target(url: str, allow: Sequence[str]) -> None:
    """Raise UsageError unless a URL's host is this machine, or one of the names in `allow`.

    This machine is loopback, or one of its addresses.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as error:
        raise UsageError(f"url={mask_query(url)!r} is invalid: {error}") from None
    if parts.scheme not in ("http", "https") or not host or any(c <= " " for c in url):
        shown = mask_query(url).rpartition("@")[2]  # without user:password@, which has no // here
        raise UsageError(f"url={shown!r} is not an http URL", "write http://127.0.0.1:8000/")
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, port)}
    except (OSError, UnicodeError):  # the latter for a name that IDNA cannot encode
        raise UsageError(
            f"url={mask_query(url)!r}: unknown host {host!r}", "check its name"
        ) from None
    own = {a.address for each in psutil.net_if_addrs().values() for a in each}
    name = f"[{host}]" if ":" in host else host  # as in a URL
    if name in allow or all(is_loopback(a) or a in own for a in addresses):
        return
    what = f"url={mask_query(url)!r} is not on this machine"
    raise UsageError(what, f"if the machine is yours, add allow={name}")
