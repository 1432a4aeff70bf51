"""Tasks are found by name; users' own functions by module or by file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offload import tasks
from offload.errors import MachineError, UsageError
from offload.registry import catalog
from tests import ROOT


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's own, named by TASK_PATH."""
    monkeypatch.setenv("TASK_PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return tmp_path


def _error_of(name: str) -> str:
    with pytest.raises(UsageError) as caught:
        tasks.resolve(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_resolved_once() -> None:
    assert tasks.resolve("noop_sync") is tasks.resolve("noop_sync")


def test_near_name_is_suggested() -> None:
    assert _error_of("slep_sync") == "no 'slep_sync' in tasks/: did you mean sleep_sync?"


def test_function_of_a_package_is_found_in_the_task_path(own: Path) -> None:
    (own / "shop_a").mkdir()
    (own / "shop_a" / "pricing.py").write_text("def quote(): return 'dear'")
    assert tasks.call("shop_a.pricing:quote") == b"dear"


def test_file_imports_its_neighbours(own: Path) -> None:
    (own / "sub").mkdir()
    (own / "sub" / "neighbour.py").write_text("PRICE = 'cheap'")
    (own / "sub" / "pricing.py").write_text("import neighbour\ndef quote(): return neighbour.PRICE")
    assert tasks.call(f"{own}/sub/pricing.py:quote") == b"cheap"


def test_a_function_may_have_letters_beyond_ascii(own: Path) -> None:
    (own / "preis.py").write_text("def größe(): return 'groß'", encoding="utf-8")
    assert tasks.call(f"{own / 'preis.py'}:größe") == "groß".encode()


@pytest.mark.parametrize(
    ("name", "module"),
    [("tasks", "tasks"), ("types", "_own_types_"), ("offload", "_own_offload_")],
)
def test_a_file_has_its_own_name_unless_another_module_has_it(
    own: Path, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tasks", raising=False)
    (own / f"{name}.py").write_text("def quote(): return __name__")
    assert tasks.call(f"{own}/{name}.py:quote").decode().startswith(module)


def test_a_file_beside_a_package_of_its_name_does_not_hide_it(own: Path) -> None:
    (own / "depot").mkdir()
    (own / "depot" / "__init__.py").write_text("")
    (own / "depot" / "models.py").write_text("PRICE = 'cheap'")
    (own / "depot.py").write_text("from depot.models import PRICE\ndef quote(): return PRICE")
    assert tasks.call(f"{own}/depot.py:quote") == b"cheap"


def test_processes_that_a_file_starts_can_import_it(own: Path) -> None:
    (own / "spawning.py").write_text(
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "def price(n): return str(n)\n"
        "def quote():\n"
        "    with ProcessPoolExecutor(1, get_context('spawn')) as pool:\n"
        "        return pool.submit(price, 7).result()\n"
    )
    assert tasks.call(f"{own}/spawning.py:quote") == b"7"


def test_a_module_may_be_called_tasks(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tasks", raising=False)
    (own / "tasks.py").write_text("def quote(): return __name__")
    assert tasks.call("tasks:quote") == b"tasks"


def test_module_called_offload_is_pointed_to_the_file_form(own: Path) -> None:
    assert "use the file instead, path/to/offload.py:function" in _error_of("offload:quote")


def test_file_is_executed_once_by_many_threads(own: Path) -> None:
    counter = own / "count"
    code = f"with open({str(counter)!r}, 'a') as f: f.write('x')\ndef quote(): pass"
    (own / "once.py").write_text(code)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(tasks.call, [f"{own}/once.py:quote"] * 8))
    assert counter.read_text() == "x"


def test_own_task_files_can_be_named_by_path() -> None:
    path = ROOT / "tasks" / "xml.py"
    assert tasks.resolve(f"{path}:xml_feedparser_sync") is tasks.resolve("xml_feedparser_sync")


def test_missing_module_is_named(own: Path) -> None:
    assert _error_of("no_such.module:quote").startswith("no module 'no_such.module': ")


def test_missing_function_is_named_with_the_nearest(own: Path) -> None:
    (own / "near.py").write_text("def quote(): pass")
    assert _error_of("near:qoute").endswith("in near: did you mean quote?")


def test_the_functions_of_a_users_file_are_not_in_fab_list(own: Path) -> None:
    (own / "many.py").write_text("\n".join(f"def own_{n}(): pass" for n in range(20)))
    assert _error_of("many:quote") == "no 'quote' in many: the file lists them all"


def test_a_file_of_a_package_is_named_as_its_part(own: Path) -> None:
    (own / "part_a.py").write_text("from . import values\ndef quote(): pass")
    said = _error_of(f"{own}/part_a.py:quote")
    assert said.endswith(": name it as a part of its package, package.part_a:function")


def test_a_colon_in_a_path_is_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "co:lon").mkdir()
    (own / "co:lon" / "shop.py").write_text("def quote(): pass")
    assert "has several colons" in _error_of(f"{own}/co:lon/shop.py:quote")
    monkeypatch.chdir(own / "co:lon")
    assert "has a colon: rename" in _error_of("shop.py:quote")


def test_what_is_no_function_is_reported(own: Path) -> None:
    (own / "plain.py").write_text("PRICE = 7")
    assert _error_of("plain:PRICE") == "'PRICE' in plain is not a function: name one"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("\n1/0", "raised ZeroDivisionError: division by zero ({}:2): fix it"),
        ("import sys\nsys.exit(7)", "raised SystemExit: 7 ({}:2): exit only below `if __name__ =="),
        ("import os\nos._exit(7)", "called os._exit(7) ({}:2): exit only below"),
        ("from os import _exit\n_exit(0)", "called os._exit(0) ({}:2): exit only below"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt ({}:1): exit only below"),
        ("\nraise GeneratorExit", "raised GeneratorExit ({}:2): fix it"),
        ("PRICE = 1\n\n\0", "cannot contain null bytes ({}:3): fix it"),
        (
            "import json\njson.loads('x')",
            "Expecting value: line 1 column 1 (char 0) ({}:2): fix it",
        ),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args()",
            "raised SystemExit: 2 ({}:4): exit only below",
        ),
        ("def quote(:", "raised SyntaxError: "),
        ("import no_such_thing", "raised ModuleNotFoundError: No module named 'no_such_thing' "),
    ],
)
def test_failing_import_is_reported_with_its_line(own: Path, code: str, expected: str) -> None:
    path = own / "failing.py"
    path.write_text(code)
    assert expected.format(path) in _error_of(f"{path}:quote")
    sys.modules.pop("failing", None)
    assert expected.format(path) in _error_of("failing:quote")


def test_the_file_with_null_bytes_is_named_also_if_another_one_imports_it(own: Path) -> None:
    (own / "with_nul.py").write_text("A = 1\n\0")
    (own / "importing.py").write_text("import with_nul\n")
    for name in (f"{own}/importing.py:quote", "importing:quote"):
        assert _error_of(name).endswith(f"null bytes ({own}/with_nul.py:2): fix it")


def test_a_failed_import_fails_again(own: Path) -> None:
    """A module that raised KeyboardInterrupt stayed in sys.modules without its functions."""
    path = own / "failing.py"
    path.write_text("raise KeyboardInterrupt\n")
    assert _error_of(f"{path}:quote") == _error_of(f"{path}:quote")


def test_a_child_that_an_import_forks_can_end_itself(own: Path) -> None:
    (own / "forking.py").write_text(
        "import os\n"
        "if (pid := os.fork()) == 0:\n    os._exit(5)\n"
        "CODE = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "end = os._exit\n"
        "def code():\n    return str(CODE)\n"
    )
    assert tasks.call(f"{own}/forking.py:code") == b"5"
    assert os._exit.__name__ == "_exit"


def test_an_import_changes_no_handler_of_a_stop_signal(own: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    (own / "ignoring.py").write_text(
        "import signal\nfor each in (2, 15):\n    signal.signal(each, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {2, 15})\ndef quote(): pass\n"
    )
    tasks.resolve(f"{own}/ignoring.py:quote")
    assert [signal.getsignal(number) for number in numbers] == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {*numbers}


@pytest.mark.parametrize("name", ["../x:f", ".x:f", "a b:f", "a;b:f", "os.path::f", "-c:f", " :f"])
def test_hostile_name_is_refused(name: str) -> None:
    assert _error_of(name)


def _said_of_a_task_file(folder: Path, code: str) -> str:
    """Resolve a task of a file in a tasks/ of its own; return the last line of the traceback."""
    offload = folder / "offload"
    offload.mkdir()
    for path in catalog.FOLDER.iterdir():
        if path.name not in ("tasks", "registry"):
            (offload / path.name).symlink_to(path)
    shutil.copytree(catalog.FOLDER / "registry", offload / "registry")  # which finds the others
    (offload / "tasks").mkdir()
    for path in (catalog.FOLDER / "tasks").glob("_*.py"):
        (offload / "tasks" / path.name).write_bytes(path.read_bytes())
    (offload / "tasks" / "shop.py").write_text(f"{code}\ndef quote(): pass")
    command = [sys.executable, "-c", "from offload import tasks; tasks.resolve('quote')"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=20, check=False
    )
    return done.stderr.splitlines()[-1]


def test_missing_packages_of_a_users_file_are_named_before_its_import(own: Path) -> None:
    (own / "needy.py").write_text("PACKAGES = ('no_such_thing', 'os')\n1/0\ndef quote(): pass")
    for name in (f"{own}/needy.py:quote", "needy:quote"):
        with pytest.raises(MachineError) as missing:
            tasks.resolve(name)
        hint = f"{sys.executable} -m pip install no_such_thing"
        assert str(missing.value) == f"{name} needs no_such_thing: {hint}"


def test_missing_library_of_a_task_file_is_an_environment_error(tmp_path: Path) -> None:
    said = _said_of_a_task_file(tmp_path, "import no_such_thing.part")
    hint = f"install it with {sys.executable} -m pip install no_such_thing"
    assert (
        said == f"offload.errors.{MachineError.__name__}: tasks/shop.py needs no_such_thing: {hint}"
    )


@pytest.mark.parametrize("module", ["offload.tasks._fetsh", "os.no_such_part"])
def test_missing_part_of_what_is_there_is_no_library(tmp_path: Path, module: str) -> None:
    said = _said_of_a_task_file(tmp_path, f"import {module}")
    assert said.startswith(
        "offload.errors.UsageError: importing tasks/shop.py raised ModuleNotFoundError"
    )
    assert said.endswith(f"({tmp_path}/offload/tasks/shop.py:1): fix it")


def test_a_user_may_have_files_of_any_name(own: Path) -> None:
    """errors.py is a name of ours inside offload, queue.py one of the standard library."""
    (own / "errors.py").write_text("class ShopError(Exception): pass")
    (own / "values.py").write_text("PRICE = 7")
    (own / "queue.py").write_text("WAITING = 3")
    (own / "tasks").mkdir()
    (own / "tasks" / "inner.py").write_text("NAME = 'inner'")
    (own / "shop_of_any_name.py").write_text(
        "from errors import ShopError\nfrom values import PRICE\nfrom queue import WAITING\n"
        "def quote(): return f'{PRICE} {WAITING} {ShopError.__name__}'"
    )
    import queue

    name = "shop_of_any_name:quote"
    tasks.resolve.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(tasks.call, [name] * 8)) == {b"7 3 ShopError"}
    assert sys.modules["queue"] is queue
    for module in ("errors", "values", "shop_of_any_name"):
        del sys.modules[module]


@pytest.mark.parametrize(
    ("name", "needs"), [("os:system", "command"), ("shop_args:quote", "item, count")]
)
def test_a_function_that_needs_arguments_is_refused(own: Path, name: str, needs: str) -> None:
    (own / "shop_args.py").write_text("def quote(item, count, colour='red', *, size=1): pass")
    assert _error_of(name).startswith(f"{name!r} needs {needs}: ")


def test_arguments_with_defaults_are_fine(own: Path) -> None:
    (own / "shop_defaults.py").write_text("def quote(item='tea', *rest, **more): return item")
    assert tasks.call("shop_defaults:quote") == b"tea"


CALLABLES = """
import functools, time

def plain(): return b"x"

class Kind:
    __slots__ = ()
    def __call__(self): return b"x"
    def method(self): return b"x"
    @staticmethod
    def static(): return b"x"
    @classmethod
    def own(cls): return b"x"

class Evil:
    def __call__(self): return b"x"
    def __getattr__(self, name): raise RuntimeError(name)

def decorate(function):
    return lambda *given: function(*given)

class Made(bytes):
    def __new__(cls): return super().__new__(cls, b"x")

class Waits:
    async def __call__(self): return b"x"

partial, cached = functools.partial(plain), functools.lru_cache(plain)
instance, bound, static, own = Kind(), Kind().method, Kind.static, Kind.own
raw = staticmethod(plain)
evil, decorated, waits, builtin = Evil(), decorate(plain), Waits(), "x".encode
def __getattr__(name): raise OSError("lazy") if name == "lazy" else AttributeError(name)
"""


KINDS = [
    *("plain", "partial", "cached", "instance", "bound", "static", "own", "raw", "evil"),
    *("decorated", "Made", "waits", "builtin"),
]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_callable_is_a_task(name: str, own: Path) -> None:
    file = own / f"kinds_{name}.py"
    file.write_text(CALLABLES)
    assert not tasks.is_coroutine(f"{file}:{name}")
    assert tasks.call(f"{file}:{name}") == b"x"


@pytest.mark.parametrize("name", ["time:ctime", "builtins:bytes"])
def test_a_function_of_a_builtin_module_is_a_task(name: str) -> None:
    assert isinstance(tasks.call(name), bytes)


def test_an_evil_callable_takes_arguments(own: Path) -> None:
    (own / "kinds_given.py").write_text(CALLABLES.replace("(self)", "(self, *given)"))
    (own / "none.json").write_text("[1]")
    assert tasks.call(f"{own}/kinds_given.py:evil(@{own}/none.json)") == b"x"


def test_an_attribute_whose_import_fails_is_one_line(own: Path) -> None:
    (own / "kinds_lazy.py").write_text(CALLABLES)
    assert "lazy raised OSError: lazy" in _error_of(f"{own}/kinds_lazy.py:lazy")
