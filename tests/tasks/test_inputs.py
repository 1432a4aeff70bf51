"""A user's function is called with the arguments of a file, or with different ones in each call."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from offload import tasks
from offload.errors import UsageError
from offload.registry import catalog
from tests.commands import fab_here

SHOP = """
import asyncio
def quote(item, count=1): return f"{item} x{count}"
async def later(item):
    await asyncio.sleep(0)
    return str(item)
def baskets():
    yield "apple"
    yield ("pear", 2)
    yield {"item": "fig", "count": 3}
def numbers(): return [1, 2]
def none(): return []
def exits(): raise SystemExit(3)
def interrupts(): raise KeyboardInterrupt
class Proxy:
    def __call__(self): return "called"
    def __getattr__(self, name): raise RuntimeError("nothing is bound")
proxy = Proxy()
def fails(): raise ValueError("no\\nbasket")
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Work in a folder with shop.py and files of arguments; return the path of shop.py."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "list.json").write_text('["apple", 2]')
    (tmp_path / "named.json").write_text('{"item": "pear", "count": 3}')
    (tmp_path / "number.json").write_text("5")
    (tmp_path / "torn.json").write_text('{"item": ')
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(1 << 40)  # without blocks
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "shop.py")


def results(task: str, count: int = 1) -> list[bytes]:
    return [tasks.call(task) for _ in range(count)]


def test_a_file_has_positional_or_named_arguments(shop: str) -> None:
    assert results(f"{shop}:quote(@list.json)", 2) == [b"apple x2", b"apple x2"]
    assert results(f"{shop}:quote(@named.json)") == [b"pear x3"]


def test_a_generator_yields_the_arguments_of_each_call_again_and_again(shop: str) -> None:
    found = results(f"{shop}:quote({shop}:baskets)", 4)
    assert found == [b"apple x1", b"pear x2", b"fig x3", b"apple x1"]


def test_a_coroutine_function_stays_one(shop: str) -> None:
    task = f"{shop}:later({shop}:numbers)"
    assert inspect.iscoroutinefunction(tasks.resolve(task))
    assert asyncio.run(tasks.acall(task)) == b"1"
    assert results(task) == [b"2"]


def test_results_may_differ_where_inputs_do(shop: str) -> None:
    assert catalog.has_constant_bodies(f"{shop}:quote(@list.json)")
    assert not catalog.has_constant_bodies(f"{shop}:quote({shop}:baskets)")


def test_a_proxy_whose_attributes_raise_is_called(shop: str) -> None:
    assert results(f"{shop}:proxy") == [b"called"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("@away.json", "no file"),
        ("@number.json", "neither a list nor an object"),
        ("@torn.json", "not JSON"),
        ("@huge.json", "Larger than 256 MiB"),
        ("{shop}:away", "no function 'away'"),
        ("{shop}:none", "yields no input"),
        ("{shop}:fails", "raised ValueError: no basket"),
        ("{shop}:exits", "raised SystemExit: 3"),
        ("{shop}:interrupts", "raised KeyboardInterrupt"),
        ("{shop}:numbers", "does not take these arguments"),
    ],
)
def test_wrong_inputs_are_one_line(shop: str, inputs: str, said: str) -> None:
    function = "quote" if "numbers" not in inputs else "none"
    with pytest.raises(UsageError, match=said) as raised:
        tasks.resolve(f"{shop}:{function}({inputs.format(shop=shop)})")
    assert "\n" not in str(raised.value)


def test_a_function_that_needs_arguments_reports_how_to_pass_them(shop: str) -> None:
    call = r"'shop.py:quote\(@file.json\)', a file"  # quoted for a shell
    with pytest.raises(UsageError, match=f"needs item: give it arguments as {call}"):
        tasks.resolve(f"{shop}:quote")
    with pytest.raises(UsageError, match="takes no arguments"):
        catalog.find_task("noop_sync(@list.json)")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("args=list.json", "is not @file.json"),
        ("args=@away.json", "no file"),
        ("args=@" + "a" * 300, "no file"),
        ("args=@~no-such-user/list.json", "no file"),
        ("args=@{folder}/a(b).json", "without parentheses"),
        ("args=@list.json,inputs=shop:baskets", "both given"),
        ("inputs=baskets", "names no inputs"),
        ("inputs=shop:baskets,code=flask", "the same arguments in each call"),
    ],
)
def test_advice_refuses_them_in_one_line(shop: str, words: str, said: str) -> None:
    folder = Path(shop).parent
    (folder / "a(b).json").write_text("[1]")
    refused = fab_here(f"advise:{shop}:quote,{words.format(folder=folder)}")
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert len(refused.stderr.splitlines()) == 1
