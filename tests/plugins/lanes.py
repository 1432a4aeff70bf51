"""Lanes: which tests run where, and what was skipped and why.

A test without a marker is a `unit` test. `slow` tests run with `--all` only, as in
`make test-all`. Tests that are skipped for one reason, such as a package that is not installed,
count as one skip, which has the number of its tests.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

LANES = ("unit", "server", "timing", "suites")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes")
    group.addoption("--all", action="store_true", help="run the slow tests, too")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # only in the main process of several
        config.pluginmanager.register(_Summary())


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
    """Print why tests were retried or skipped, and count the skips of one reason as one."""

    def __init__(self) -> None:
        self._retries: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "rerun":
            self._retries.append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest counts the skips
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        skips: dict[str, list[pytest.TestReport]] = {}
        for report in terminalreporter.stats.get("skipped", []):
            _, _, reason = report.longrepr  # file, line and reason
            skips.setdefault(reason.removeprefix("Skipped: "), []).append(report)
        if skips:
            terminalreporter.stats["skipped"] = [reports[0] for reports in skips.values()]
        for reason, reports in sorted(skips.items(), key=lambda each: -len(each[1])):
            tests = "1 test" if len(reports) == 1 else f"{len(reports)} tests"
            terminalreporter.write_line(f"skipped: {reason}: {tests}")
        for report in self._retries:
            order = [text for title, text in report.sections if not title.startswith("Captured")]
            failure = "\n".join([report.longreprtext, *order])
            terminalreporter.write_line(
                f"retried: {report.nodeid}; its first run failed:\n{failure}", yellow=True
            )
        return (yield)
