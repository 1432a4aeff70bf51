"""What a user's module may do to the server that imports it: use sys.argv, change signals, hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import FAB, free_port
from tests.http_clients import get
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.server
SERVERS = ("sync", "loop", "threads", "processes", "pipes", "prefork")
IGNORE = """import signal
def work():
    try:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    except ValueError:  # not in the main thread
        pass
    return "x"
"""
ARGUMENTS = """import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--price", default="7")
PRICE = parser.parse_args().price
def work():
    return repr((sys.argv, PRICE))
"""


def _start(server: str, path: Path, port: int) -> subprocess.Popen[str]:
    words = [FAB, f"run_server:{server},{path}:work,port={port}"]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("when", ["import", "call"])
def test_a_module_that_ignores_stop_signals_does_not_keep_a_server(
    server: str, when: str, tmp_path: Path
) -> None:
    path, port = tmp_path / "ignoring.py", free_port()
    path.write_text(IGNORE + ("work()\n" if when == "import" else ""))
    process = _start(server, path, port)
    try:
        assert "serves" in read_line(process.stderr)
        assert get(f"http://127.0.0.1:{port}/")[0] == 200
        time.sleep(1.5)  # a call can change the handlers until RESTORE_INTERVAL later
        process.terminate()
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("server", SERVERS)
def test_a_module_finds_the_arguments_of_its_own_program(server: str, tmp_path: Path) -> None:
    path, port = tmp_path / "shop.py", free_port()
    path.write_text(ARGUMENTS)
    process = _start(server, path, port)
    try:
        assert "serves" in read_line(process.stderr)
        assert get(f"http://127.0.0.1:{port}/")[1] == repr(([str(path)], "7")).encode()
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_an_import_that_hangs_ends_the_server_with_4(server: str, tmp_path: Path) -> None:
    path = tmp_path / "hanging.py"
    path.write_text("import time\ntime.sleep(50)\ndef work(): pass\n")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "offload.servers", server, f"{path}:work", "0"],
        env=os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, [line] = wait_for_end(process)
    assert (code, "not ready within 10 s: check what the" in line) == (4, True)


THREADS = """import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,)).start()
def work():
    return "x"
"""
EXIT_HANDLER = """import atexit, time
atexit.register(time.sleep, 1000)
def work():
    return "x"
"""
NO_SLEEP = """import time
time.sleep = lambda seconds: None
def work():
    return "x"
"""
CONSTANT_CLOCK = f"{NO_SLEEP}time.monotonic = lambda: 1000.0\n"  # asyncio itself needs a clock


def _stop(server: str, module: str, folder: Path) -> tuple[int, list[str]]:
    """Serve a module whose drain is limited to 2 s, request it once, and stop it."""
    (folder / "shop.py").write_text(module)
    words = (server, f"{folder}/shop.py:work", "0")
    timeout = "tests.servers.lifecycle.short_timeout"
    process = begin(*words, module=timeout, SHORT_TIMEOUT="DRAIN")
    try:
        while (url := re.search(r"http://\S+", read_line(process.stderr))) is None:
            continue
        assert get(url[0])[0] == 200
        process.terminate()
    except BaseException:
        process.kill()
        raise
    return wait_for_end(process)


@pytest.mark.parametrize("server", ["sync", "loop", "threads", "prefork"])
@pytest.mark.parametrize("module", [THREADS, EXIT_HANDLER], ids=["threads", "exit handler"])
def test_what_a_module_leaves_behind_is_named_and_no_unfinished_request(
    server: str, module: str, tmp_path: Path
) -> None:
    code, lines = _stop(server, module, tmp_path)
    assert code == 0
    assert not any("unfinished" in line for line in lines)
    if server != "prefork":  # its children end without the interpreter's shutdown
        assert any("threads or exit handlers" in line for line in lines)


@pytest.mark.parametrize(
    ("server", "module"), [("sync", CONSTANT_CLOCK), ("loop", NO_SLEEP), ("threads", NO_SLEEP)]
)
def test_a_module_that_replaces_the_clock_does_not_shorten_the_drain(
    server: str, module: str, tmp_path: Path
) -> None:
    assert _stop(server, module, tmp_path) == (0, [])


TIMER = """import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def work():
    return "x"
"""


@pytest.mark.parametrize("server", ["sync", "loop", "threads", "prefork"])
def test_a_timer_of_a_module_does_not_kill_the_server_while_it_ends(
    server: str, tmp_path: Path
) -> None:
    assert _stop(server, TIMER, tmp_path) == (0, [])


FORKS = """import os, sys
os.fork()
print(f"imported in {os.getpid()}", file=sys.stderr)
def work():
    return str(os.getpid())
"""


@pytest.mark.parametrize("server", SERVERS)
def test_a_process_that_an_import_forks_does_not_serve(server: str, tmp_path: Path) -> None:
    """It listened on the same port, and was left behind when the server stopped."""
    code, lines = _stop(server, FORKS, tmp_path)
    imported = [int(line.removeprefix("imported in ")) for line in lines if line[0] == "i"]
    assert code == 0
    assert [line for line in lines if line[0] != "i"] == []
    assert wait_until(lambda: not any(map(is_running, imported)))


@pytest.mark.parametrize("server", SERVERS)
def test_a_module_that_replaces_json_and_print_does_not_end_a_server(
    server: str, tmp_path: Path
) -> None:
    path, port = tmp_path / "replacing.py", free_port()
    path.write_text(
        "import builtins, json\n"
        "json.dumps, json.loads = lambda *_: b'', lambda _: None\n"
        "builtins.print = lambda *_: None\n"
        "def work(): return 'x'\n"
    )
    process = _start(server, path, port)
    try:
        assert "serves" in read_line(process.stderr)
        assert get(f"http://127.0.0.1:{port}/")[0] == 200
        assert b"worker" in get(f"http://127.0.0.1:{port}/resources/")[1] or server == "sync"
        process.terminate()
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
