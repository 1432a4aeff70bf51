"""A random order of the tests, which a failure prints: `--order-seed=N`, or `random` to draw N.

Files are shuffled, and the tests within each file; tests that share a server stay together. Without
the option the order is that of the files. Each process lists its tests in the folder `ORDER`, so
that those before a failure can be run again in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ORDER = Path(".data", "order")  # in the root folder
SHOWN = 20  # tests before a failed one in its report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("order")
    group.addoption("--order-seed", metavar="N", help="shuffle the tests: a whole number or random")


def pytest_configure(config: pytest.Config) -> None:
    if (worker := getattr(config, "workerinput", None)) is not None:
        config.option.order_seed = worker["order_seed"]
    elif config.option.order_seed == "random":
        config.option.order_seed = str(random.randrange(1_000_000))
    elif (seed := config.option.order_seed) and not seed.isdigit():
        raise pytest.UsageError(f"--order-seed={seed} is neither a whole number nor random")
    if worker is not None or config.getoption("dist", "no") == "no":
        name = "main" if worker is None else worker["workerid"]
        config.pluginmanager.register(_Recorder(config.rootpath / ORDER / f"{name}.txt"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a process of xdist the seed that this one has drawn."""
    node.workerinput["order_seed"] = node.config.option.order_seed


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    _print_seed(session.config)


def pytest_terminal_summary(config: pytest.Config) -> None:
    _print_seed(config)


def _print_seed(config: pytest.Config) -> None:
    """Print the seed; the header of pytest is not printed with -q."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if (seed := config.getoption("--order-seed")) and not hasattr(config, "workerinput"):
        terminal.write_line(f"order of the tests: SEED={seed}")


@pytest.hookimpl(tryfirst=True)  # before pytest brings tests of a shared fixture together
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (seed := config.getoption("--order-seed")):
        return
    draw = random.Random(int(seed))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffled = [*files.values()]
    draw.shuffle(shuffled)
    for each in shuffled:
        draw.shuffle(each)
    items[:] = [item for each in shuffled for item in each]


class _Recorder:
    """List the tests of a process in a file, and those before a failure in its report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
            self._can_write = True
        except OSError:  # a folder of someone else
            self._can_write = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._names.append(nodeid)
        if self._can_write:
            with self._path.open("a") as file:
                file.write(f"{nodeid}\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            report.sections.append(("order of the tests", self._before()))
        return report

    def _before(self) -> str:
        """Return the last tests that this process ran, and how to run all of them again."""
        number = len(self._names)
        lines = [f"this was test {number} of its process; the last ones before it:"]
        lines += self._names[-SHOWN - 1 : -1]
        if self._can_write:
            lines.append(
                f"repeat: head -n {number} {self._path} > again.txt; pytest --all @again.txt"
            )
        return "\n".join(lines)
