"""Render the parts of a report as one HTML file without links to other files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from markupsafe import Markup

from offload import __version__
from offload.errors import RunError, printable
from offload.registry import places
from offload.reports.html import answer, document, figures, several_runs, single_run
from offload.reports.html.answer import Answer
from offload.reports.html.parts import Panel, Section
from offload.reports.html.run import MeasuredRun
from offload.reports.pictures import drawing

LIMIT = 400_000  # bytes of a report
BREAKS = re.compile(r"(?<=[,_/])(?=\w)")
FOLDER = Path(__file__).parent / "page"
NO_PICTURES = "The pictures are not inside this file, because it would be larger than 400 kB."


@dataclass(frozen=True)
class Content:
    """The content of a page; `notices` list what is left out."""

    answers: tuple[tuple[str, Answer], ...]
    sections: tuple[Section, ...]
    pictures: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def title(self) -> str:
        """The names of the runs."""
        return " and ".join(name for name, _ in self.answers)


def html(runs: Sequence[MeasuredRun]) -> str:
    """Return the report of one run, or of several side by side.

    A report above LIMIT is rendered without its pictures. Raise UserError if it is still too large.
    """
    with places.full_names():
        content = _content(runs)
    text = _render(content)
    if len(text.encode()) > LIMIT:
        notices = (*content.notices, NO_PICTURES)
        text = _render(replace(content, pictures=(), notices=notices))
    if (size := len(text.encode())) > LIMIT:
        names = " and ".join(run.name for run in runs)
        what = f"the report of {names} would have {size // 1000} kB, more than {LIMIT // 1000}"
        raise RunError(what, "use format=json")
    return text


def _content(runs: Sequence[MeasuredRun]) -> Content:
    if len(runs) == 1:
        shown = _sections(runs[0])
    else:
        shown = several_runs.sections(runs)
        shown += [figures.section(run, f"Every figure of {run.name}") for run in runs]
    sections = tuple(_with_unique_ids(shown))
    panels = [panel for section in sections for panel in section.panels]
    pictures = drawing.inline([panel.picture for panel in panels if panel.picture is not None])
    answers = tuple((run.name, answer.of_run(run)) for run in runs)
    return Content(answers, sections, tuple(pictures), ())


def _sections(run: MeasuredRun) -> list[Section]:
    """Return the sections of one run: its document first."""
    found = run.document
    own = [] if found is None else document.sections(found, run.command)
    if found is not None and not found.shows_cases:
        return [*own, *single_run.machine(run)]
    return [*own, *single_run.sections(run), figures.section(run)]


def _with_unique_ids(sections: Sequence[Section]) -> list[Section]:
    """Return sections with unique ids: a number is appended to a repeated name."""
    names: dict[str, int] = {}
    found = []
    for section in sections:
        names[section.name] = names.get(section.name, 0) + 1
        number = names[section.name]
        found.append(section if number == 1 else replace(section, name=f"{section.name}-{number}"))
    return found


def _render(content: Content) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (Markup((FOLDER / name).read_text()) for name in ("page.css", "page.js"))  # noqa: S704 - our own files
    panels = [panel for section in content.sections for panel in section.panels]
    pictured = [id(panel) for panel in panels if panel.picture is not None]
    drawn = dict(zip(pictured, map(Markup, content.pictures), strict=False))  # already escaped

    def picture_of(panel: Panel) -> Markup | None:
        return drawn.get(id(panel))

    text: str = environment.get_template("page.html").render(
        page=content,
        version=__version__,
        style=style,
        script=script,
        policy=_policy(style, script),
        picture_of=picture_of,
        breakable=_breakable,
    )
    return text


def _finalize(value: object) -> object:
    """Make a text of the page printable; values that are not plain text are HTML already."""
    return printable(value) if type(value) is str else value


def _breakable(text: str) -> Markup:
    """Allow line breaks in a name after each comma, underscore and slash."""
    return Markup("<wbr>").join(BREAKS.split(printable(text)))


def _policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows only our own style and script."""
    hashes = (
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, script)
    )
    own = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*hashes)
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"
