"""The live page in Chromium: text, small screens, accessibility, and the report at the end.

It needs `make browser`, Debian's chromium, and npm, which fetches axe-core.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offload.documents.live.view import RunView
from offload.engine import journal
from offload.engine.progress import own_progress, remove_progress, write_progress
from tests.reports.html.test_browser import SCHEMES, SERIOUS, WIDTHS, axe, browser, pytestmark
from tests.reports.live.serving import SCRIPT, finish, new_run, served, window

__all__ = ["axe", "browser", "pytestmark"]  # the fixtures and marks of the report's tests

POLICY = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
REPORT = f"<!doctype html>{POLICY}<title>the report</title>"  # with the policy of a report


def opened(browser: Any, url: str, **settings: Any) -> tuple[Any, list[str]]:
    """Open a page; return it, and the list of its console messages."""
    context = browser.new_context(**settings)
    context.set_default_timeout(60_000)
    page, messages = context.new_page(), list[str]()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(f"dialog {dialog.message}"))
    page.goto(url)
    return page, messages


def measure(folder: Path) -> None:
    """Let a run go on in this process: its first block is measured."""
    now = own_progress("round 2: 2 servers", "load", time.time() + 50, time.time() + 600)
    write_progress(folder, replace(now, case_indexes=(0, 1), loaded=0))
    journal.append(
        folder, *(window(case_index, 100.0, n) for n in (1, 2) for case_index in (0, 1, 2))
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_shows_what_is_measured_and_a_hostile_name_as_text(
    browser: Any, axe: str, tmp_path: Path, width: int, scheme: str
) -> None:
    folder = new_run(tmp_path / "<img src=x onerror=alert(1)>")
    measure(folder)
    view = {"width": width, "height": 900}
    with served(RunView(folder)) as url:
        page, messages = opened(browser, url, viewport=view, color_scheme=scheme, bypass_csp=True)
        page.get_by_text("round 2: 2 servers").wait_for()
        names = page.locator("tbody th").all_text_contents()
        assert names == ["3/noop_sync", "4/noop_sync", f"2/{SCRIPT}"]
        assert page.locator("h1").text_content() == folder.name
        assert page.locator("tr.active").count() == 2
        assert page.get_by_text("load, ").is_visible()
        assert "about 10 min left" in page.locator("#left").text_content()
        assert page.locator("img").count() == 0
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        head = page.locator("thead").bounding_box()
        assert (head["width"] > 2) == (width > 640)  # small screens have the names in each cell
        page.evaluate(axe)
        found = page.evaluate("axe.run(document)")
        serious = [each["id"] for each in found["violations"] if each["impact"] in SERIOUS]
        assert (serious, messages) == ([], [])
        page.context.close()


def test_it_counts_down_and_shows_the_report_at_the_end(browser: Any, tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run")
    measure(folder)
    with served(RunView(folder)) as url:
        page, messages = opened(browser, url)
        page.get_by_text("round 2: 2 servers").wait_for()
        first = page.locator("#left").text_content()
        page.wait_for_function(
            "old => document.getElementById('left').textContent !== old", arg=first
        )
        remove_progress(folder)
        finish(folder)
        (folder / "report.html").write_text(REPORT)
        page.wait_for_url("**/report")
        assert page.title() == "the report"
        assert messages == []
        page.context.close()


def test_it_reports_when_its_server_has_ended(browser: Any, tmp_path: Path) -> None:
    with served(RunView(new_run(tmp_path / "run"))) as url:
        page, _ = opened(browser, url)
        page.get_by_text("Not measured completely").wait_for()
    page.get_by_text("The server of this page has ended").wait_for()
    page.context.close()
