"""The report in Chromium, without a network: pictures, sorting, small screens, accessibility.

It needs `make browser`: playwright, Debian's chromium, and npm, which fetches axe-core.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reports.html.pages import committed, example, rendered

sync_api = pytest.importorskip("playwright.sync_api", reason="needs make browser")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="needs make browser"),
]
RUNS = ("example-tornado", "example-free_threading", "example-advise")
WIDTHS, SCHEMES = (360, 1280), ("light", "dark")
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the reports; return their URLs by the name of the run."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: example(name) for name in RUNS}
    texts["both"] = rendered(committed("example"), committed("example-tornado"))
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: (folder / f"{name}.html").as_uri() for name in texts}


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the source of axe-core, from the registry of npm."""
    if shutil.which("npm") is None:
        pytest.skip("needs make browser")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", "--silent", "axe-core@4"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"axe-core cannot be fetched: {done.stderr[-200:]}")
    with tarfile.open(folder / done.stdout.strip()) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def opened(browser: Any, url: str, **settings: Any) -> tuple[Any, list[str]]:
    """Open a page offline; return it, and the list of its console messages."""
    context = browser.new_context(offline=True, **settings)
    context.set_default_timeout(60_000)
    page, messages = context.new_page(), list[str]()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("requestfailed", lambda request: messages.append(f"requested {request.url}"))
    page.goto(url)
    return page, messages


@pytest.mark.parametrize("name", [*RUNS, "both"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_picture_is_drawn_and_nothing_scrolls_sideways_but_tables(
    browser: Any, pages: dict[str, str], name: str, width: int, scheme: str
) -> None:
    view = {"width": width, "height": 900}
    page, messages = opened(browser, pages[name], viewport=view, color_scheme=scheme)
    boxes = page.eval_on_selector_all(
        "svg",
        "all => all.map(e => e.getBoundingClientRect()).map(b => [b.left, b.right, b.height])",
    )
    assert len(boxes) >= 3
    assert all(left >= 0 and right <= width and height > 40 for left, right, height in boxes)
    texts = page.eval_on_selector_all(
        "svg text", "all => all.map(e => e.getBoundingClientRect().width)"
    )
    assert len(texts) >= 10
    assert min(texts) > 0
    wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide == 0
    assert messages == []
    page.context.close()


def test_text_in_pictures_does_not_leave_them(browser: Any, pages: dict[str, str]) -> None:
    page, _ = opened(browser, pages["example-tornado"], viewport={"width": 1280, "height": 900})
    outside = page.evaluate(
        """() => [...document.querySelectorAll("svg text")].filter(text => {
            const own = text.getBoundingClientRect();
            const all = text.ownerSVGElement.getBoundingClientRect();
            return own.left < all.left - 3 || own.right > all.right + 3;
        }).map(text => text.textContent)"""
    )
    assert outside == []
    page.context.close()


def column(page: Any, caption: str, head: str) -> list[str]:
    """Return the texts of a column of the table with this caption, as it is shown."""
    found = page.evaluate(
        """([caption, head]) => {
            const table = [...document.querySelectorAll("table")].find(
                each => each.caption.textContent === caption);
            const names = [...table.tHead.rows[0].cells].map(each => each.textContent);
            return [...table.tBodies[0].rows].filter(row => !row.hidden).map(
                row => row.cells[names.indexOf(head)].textContent);
        }""",
        [caption, head],
    )
    return [str(text) for text in found]


def test_a_table_can_be_sorted_by_keyboard_and_reports_its_order(
    browser: Any, pages: dict[str, str]
) -> None:
    page, messages = opened(browser, pages["example-tornado"])
    caption, head = "Peak memory", "Memory"
    before = column(page, caption, head)
    region = page.get_by_role("region", name=caption, exact=True)
    button = region.get_by_role("button", name=head, exact=True)
    orders = []
    for order, key in (("ascending", "Enter"), ("descending", "Space")):
        button.focus()
        page.keyboard.press(key)
        header = region.locator("th[aria-sort]")
        assert (header.count(), header.get_attribute("aria-sort")) == (1, order)
        orders.append([float(text.split()[0]) for text in column(page, caption, head)])
    assert orders[0] == sorted(orders[0])
    assert orders[1] == sorted(orders[0], reverse=True)
    assert sorted(before) == sorted(column(page, caption, head))
    assert messages == []
    page.context.close()


def test_rows_without_the_number_are_last_in_both_orders(
    browser: Any, pages: dict[str, str]
) -> None:
    page, _ = opened(browser, pages["example-tornado"])
    caption, head = "Requests per second", "From"
    region = page.get_by_role("region", name=caption, exact=True)
    for _ in range(2):
        region.get_by_role("button", name=head, exact=True).click()
        assert column(page, caption, head)[-2:] == ["-", "-"]
    page.context.close()


def test_rows_are_filtered_by_words(browser: Any, pages: dict[str, str]) -> None:
    page, _ = opened(browser, pages["example-tornado"])
    caption = "Peak memory"
    everything = column(page, caption, "Server/task")
    page.get_by_label(f"Filter rows: {caption}").fill("Threads https")
    shown = column(page, caption, "Server/task")
    assert shown == [name for name in everything if "threads" in name and "https" in name]
    assert 0 < len(shown) < len(everything)
    assert page.get_by_text(f"{len(shown)} of {len(everything)} rows").is_visible()
    page.context.close()


def test_the_values_of_a_picture_are_read_by_keyboard_and_pointer(
    browser: Any, pages: dict[str, str]
) -> None:
    page, messages = opened(browser, pages["example-tornado"])
    titles = page.eval_on_selector_all(
        "figure:first-of-type svg >> nth=0 >> title", "all => all.map(each => each.textContent)"
    )
    picture, values = titles[0], titles[1:]
    slider = page.get_by_role("slider", name=f"Read values: {picture}", exact=True)
    line, marked = page.locator("p.reading span").first, page.locator("svg").first.locator(".read")
    slider.focus()
    read = []
    for key in ("ArrowRight", "ArrowRight", "Home", "End"):
        read.append(slider.get_attribute("aria-valuetext"))
        assert line.inner_text() == read[-1]
        assert marked.locator("title").all_text_contents() == [read[-1]]
        page.keyboard.press(key)
    assert len(values) > 3
    assert read == [values[0], values[1], values[2], values[0]]
    assert slider.get_attribute("aria-valuetext") == values[-1]
    page.evaluate(
        """() => document.querySelector("svg title:not(svg > title)").parentNode
            .dispatchEvent(new PointerEvent("pointerenter"))"""
    )
    assert (line.inner_text(), slider.input_value()) == (values[0], "0")
    assert messages == []
    page.context.close()


def test_without_javascript_the_page_shows_the_same_figures(
    browser: Any, pages: dict[str, str]
) -> None:
    texts = []
    for is_enabled in (True, False):
        page, messages = opened(browser, pages["example-tornado"], java_script_enabled=is_enabled)
        shown = page.locator("section").all_inner_texts()
        texts.append(
            [
                line
                for text in shown
                for line in text.replace("Filter rows", "").replace("Read values", "").splitlines()
                if line.strip()
            ]
        )
        assert messages == []
        page.context.close()
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", [*RUNS, "both"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_serious_violation(
    browser: Any, pages: dict[str, str], axe: str, name: str, scheme: str
) -> None:
    page, _ = opened(browser, pages[name], color_scheme=scheme, bypass_csp=True)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    assert found["passes"]
    serious = [
        (violation["id"], violation["nodes"][0]["html"][:200])
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
    ]
    assert serious == []
    page.context.close()


def test_on_paper_every_column_is_printed(
    browser: Any, pages: dict[str, str], tmp_path: Path
) -> None:
    page, _ = opened(browser, pages["example-tornado"])
    page.emulate_media(media="print")
    overflow = page.eval_on_selector_all(
        ".table", "all => all.map(e => getComputedStyle(e).overflowX)"
    )
    assert {*overflow} == {"visible"}
    assert not page.get_by_role("navigation").is_visible()
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.context.close()
