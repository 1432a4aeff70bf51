"""Lanes: which tests run where, and how many may be skipped.

A test without a marker is a `unit` test. `slow` tests run with `--all` only, as in
`make test-all`. `--most-skips=N` fails a run that skips more than N
tests, so that a machine on which something is missing does not pass unnoticed.
"""

from __future__ import annotations

from collections import Counter

import pytest

LANES = ("unit", "server", "timing", "suites")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes")
    group.addoption("--all", action="store_true", help="run the slow tests, too")
    group.addoption("--most-skips", type=int, metavar="N", help="fail when more are skipped")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # only in the main process of several
        config.pluginmanager.register(_Summary(config.getoption("--most-skips")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not any(map(item.get_closest_marker, LANES)):
            item.add_marker("unit")
    if not config.getoption("--all"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    # Long tests first, in the share of the first process: others then run the rest of its share.
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


class _Summary:
    """Print why tests were skipped or retried, and fail the run when too many were skipped."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._reasons: Counter[str] = Counter()
        self._retries: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "rerun":
            self._retries.append((report.nodeid, report.longreprtext))
        if report.skipped and not hasattr(report, "wasxfail"):
            _, _, reason = report.longrepr  # file, line and reason
            self._reasons[reason.removeprefix("Skipped: ")] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._are_too_many and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, count in self._reasons.most_common():
            terminalreporter.write_line(f"{count:4} skipped: {reason}")
        for name, trace in self._retries:
            terminalreporter.write_line(
                f"retried: {name}; its first run failed:\n{trace}", yellow=True
            )
        if self._are_too_many:
            line = f"{self._reasons.total()} tests were skipped, {self._most} may be"
            terminalreporter.write_line(line, red=True)

    @property
    def _are_too_many(self) -> bool:
        return self._most is not None and self._reasons.total() > self._most
