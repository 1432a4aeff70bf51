"""The site builds without warnings, contains every page, and has no broken links."""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests import ROOT

DOCS = ROOT / "docs"
BUILT = DOCS / "_build"  # the site of make docs
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
LARGEST = 10_000  # bytes of a picture
WEIGHTS = (0.2126, 0.7152, 0.0722)  # of red, green and blue in luminance


def test_every_page_is_in_the_contents() -> None:
    contents = (DOCS / "index.rst").read_text()
    named = set(re.findall(r"^   ([a-z_/]+)$", contents, re.MULTILINE))
    pages = {
        str(page.relative_to(DOCS).with_suffix(""))
        for page in DOCS.rglob("*.rst")
        if BUILT not in page.parents
    }
    assert len(named) >= 20
    assert pages == named | {"index"}


def test_every_picture_is_shown_in_a_page_with_words_for_it() -> None:
    text = "".join(page.read_text() for page in DOCS.rglob("*.rst") if BUILT not in page.parents)
    shown = re.findall(r"\.\. image:: pictures/(\S+)\n   :alt: \S", text)
    assert sorted(shown) == [picture.name for picture in PICTURES]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_can_be_read_on_light_and_dark(picture: Path) -> None:
    text = picture.read_text()
    assert len(text) < LARGEST
    root = ElementTree.fromstring(text)
    assert root.get("viewBox")
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    colours = set(re.findall(r"#[0-9a-f]{3,6}\b", text))
    assert colours  # and each has a contrast of at least 3 with white and with black
    for colour in colours:
        light = luminance(colour)
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3, colour


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb by WCAG 2.1."""
    shares = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(share * weight for share, weight in zip(linear, WEIGHTS, strict=True))


class Links(html.parser.HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        for name in ("href", "src"):
            if value := found.get(name):
                self.links.append(value)


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", source, out]
    return subprocess.run(words, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("sphinx") is None or find_spec("furo") is None:
        pytest.skip("sphinx and furo are not installed: make docs")
    folder = tmp_path_factory.mktemp("site")
    built = build(DOCS, folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_link_in_the_site_leads_to_a_file_and_a_section(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) >= 25
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name.partition("?")[0])).resolve() if name else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if anchor and target in pages and path.stem not in ("genindex", "search"):
                assert unquote(anchor) in pages[target].anchors, f"{path.name}: {link}"
                checked += 1
    assert checked >= 200


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_readme_and_the_page_of_the_pool_are_in_the_site(site: Path) -> None:
    front, pool = ((site / f"{name}.html").read_text() for name in ("index", "pool"))
    assert "Executor strategies for Python HTTP servers" in front
    assert "_images/effects.svg" in front
    assert 'href="start.html"' in front
    assert "A process pool for event loops" in pool
    assert ".rst" not in " ".join(re.findall(r'href="([^"#]*)"', front))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_link_to_no_file_is_an_error(site: Path, a_copy: Path) -> None:
    page = a_copy / "docs" / "start.rst"
    page.write_text(page.read_text() + "\n`Nothing <no_such_page.rst>`_\n")
    built = build(a_copy / "docs", a_copy / "site")
    assert built.returncode != 0
    assert "no_such_page.rst is no file of the repository" in built.stderr
    shutil.rmtree(a_copy / "site")
