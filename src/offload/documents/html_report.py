"""The report of runs as one HTML file without links to other files.

It has the answer, pictures beside their tables, every figure, and the machine.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from markupsafe import Markup

from offload import __version__
from offload.documents import (
    BAD,
    GOOD,
    PLAIN,
    UNCLEAR,
    Chart,
    Document,
    Finding,
    claim_tables,
    comparisons,
)
from offload.documents.html_charts import TONES
from offload.documents.html_sections import (
    DIGITS,
    Cell,
    MeasuredRun,
    Panel,
    Section,
    Table,
    compared_effects,
    machine_sections,
    number,
    read_run,
    run_columns,
    run_sections,
    table,
    text,
)
from offload.documents.pictures import (
    Picture,
    Plane,
    inline_pictures,
    linear_axis,
    plain_label,
    plane_svg,
)
from offload.documents.rows import case_name, conditions, rate_text
from offload.engine import decisions, journal
from offload.engine.figures import Comparison
from offload.errors import RunError, printable
from offload.registry import catalog, places

REPORT_FILE = "report.html"
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


def write_report(folders: Sequence[Path], documents: Mapping[Path, Document]) -> Path:
    """Write the report of runs and return its path; raise UserError. `documents` are by folder.

    It is in the folder of one run, or beside the folders of several runs.
    """
    text = html([read_run(folder, documents.get(folder)) for folder in folders])
    names = "+".join(folder.name for folder in folders)
    path = folders[0] / REPORT_FILE if len(folders) == 1 else journal.RESULTS / f"{names}.html"
    journal.replace(path, text)
    return path


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
        shown = run_columns(runs)
        shown += [figures_section(run, f"Every figure of {run.name}") for run in runs]
    sections = tuple(_with_unique_ids(shown))
    panels = [panel for section in sections for panel in section.panels]
    pictures = inline_pictures([panel.picture for panel in panels if panel.picture is not None])
    answers = tuple((run.name, answer_of_run(run)) for run in runs)
    return Content(answers, sections, tuple(pictures), ())


def _sections(run: MeasuredRun) -> list[Section]:
    """Return the sections of one run: its document first."""
    found = run.document
    own = [] if found is None else chart_sections(found, run.command)
    if found is not None and not found.shows_cases:
        return [*own, *machine_sections(run)]
    return [*own, *run_sections(run), figures_section(run)]


def _with_unique_ids(sections: Sequence[Section]) -> list[Section]:
    """Return sections with unique ids: a number is appended to a repeated name."""
    names: dict[str, int] = {}
    found = []
    for section in sections:
        names[section.name] = names.get(section.name, 0) + 1
        number = names[section.name]
        found.append(section if number == 1 else replace(section, name=f"{section.name}-{number}"))
    return found


# The answer of a run in words; the sentences are those of the text reports.
CLAIM_TONES = {decisions.HOLDS: GOOD, decisions.DOES_NOT: BAD}


@dataclass(frozen=True)
class Answer:
    """The `scope` of a run, its answer, the command to repeat it, and `where` it was measured."""

    scope: tuple[str, ...]
    command: str | None
    verdicts: tuple[Finding, ...]
    tables: tuple[Table, ...]
    where: tuple[str, ...]
    notes: tuple[str, ...]


def answer_of_run(run: MeasuredRun) -> Answer:
    """Return the answer of a run."""
    found, tables = _verdicts(run)
    return Answer(
        tuple(_scope(run)),
        run.command,
        tuple(found),
        tuple(tables),
        tuple(dict.fromkeys(conditions(group) for group in run.groups)),
        tuple(dict.fromkeys(_notes(run))),
    )


def _scope(run: MeasuredRun) -> Iterator[str]:
    """Yield what the run measured, in sentences."""
    for suite in run.suites:
        yield catalog.suites()[suite].summary
    cases = list(dict.fromkeys(case_name(row.first) for row in run.rows))
    if not run.suites and len(cases) <= 2:
        yield f"{' and '.join(cases)}."
    rounds = max((row.estimate.n for row in run.rows if row.estimate is not None), default=0)
    measured = f"{len(run.rows)} row{'s' if len(run.rows) > 1 else ''}"
    several = f"{rounds} round{'s' if rounds > 1 else ''} of fresh servers at most"
    yield f"{measured}, {several}." if rounds else f"{measured}."


def _verdicts(run: MeasuredRun) -> tuple[list[Finding], list[Table]]:
    if run.document is not None:
        return _document(run.document, f"Figures of {run.name}")
    found = [*_effects(run), *_on_and_off(run)]
    found += _claims(run, with_each=not found)
    return found or [*_rates(run)], []


def _document(found: Document, title: str) -> tuple[list[Finding], list[Table]]:
    tone = UNCLEAR if not found.has_verdict else GOOD if found.is_good else BAD
    verdicts = [Finding(found.headline, tone=tone), *found.findings]
    verdicts += [Finding(" ".join(each.sentences), name=each.title) for each in found.paragraphs]
    verdicts += [Finding(found.command.line, name=found.command.title)] if found.command else []
    cells = [tuple(text(cell) for cell in row) for row in found.rows]
    return verdicts, [table(title, found.head, cells)] if cells else []


def _effects(run: MeasuredRun) -> Iterator[Finding]:
    for name, what, effect in compared_effects(run):
        words = f"{what}. " if what else ""
        yield Finding(
            _sentence(f"{words}{effect.reading}"),
            name,
            comparisons.ratio_text(effect),
            _tone(effect.comparison),
        )


def _on_and_off(run: MeasuredRun) -> Iterator[Finding]:
    for pair in comparisons.on_and_off_pairs(run.rows):
        case = pair.on.first.case
        ratio = comparisons.on_and_off_ratio_text(pair)
        yield Finding(
            _sentence(pair.sentence), f"{case.server}/{case.task}", ratio, _tone(pair.comparison)
        )


def _claims(run: MeasuredRun, with_each: bool) -> Iterator[Finding]:
    """Yield how many claims hold and, if `with_each` is true, the verdict on each claim."""
    for suite, found in run.claims.items():
        yield Finding(claim_tables.counted(found), f"Claims about {suite}")
        for verdict in found if with_each else ():
            here = claim_tables.figures(verdict)[1].removeprefix("-")
            words = _sentence(f"{verdict.statement}: {verdict.verdict}; {verdict.reason}")
            yield Finding(words, verdict.claim, here, CLAIM_TONES.get(verdict.verdict, UNCLEAR))


def _rates(run: MeasuredRun) -> Iterator[Finding]:
    """Yield the rates of the first rows, for a run without comparisons."""
    for row in run.rows[:6]:
        name = case_name(row.first)
        if row.problem is not None:
            yield Finding(_sentence(str(row.problem)), name, tone=BAD)
        else:
            yield Finding("", name, f"{rate_text(row)} requests/s")


def _notes(run: MeasuredRun) -> Iterator[str]:
    if run.document is not None and not run.document.shows_cases:
        return  # it has its own
    flags = run.results["flags"]
    yield from (str(flag) for flag in flags) if isinstance(flags, list) else ()
    for group in run.groups:
        yield from comparisons.effect_remedies(comparisons.effects(group))


def _tone(compared: Comparison) -> str:
    return TONES.get(compared.verdict.outcome, PLAIN)


def _sentence(words: str) -> str:
    """Return a text as a sentence: add a full stop if it has no final punctuation."""
    return words if words.endswith((".", "!", "?")) else f"{words}."


def chart_sections(found: Document, command: str | None) -> list[Section]:
    """Return a section for the charts of a document, each beside its values."""
    panels = tuple(_chart_panel(each, command) for each in found.charts)
    return [Section("pictures", "Pictures", panels)] if panels else []


def _chart_panel(chart: Chart, command: str | None) -> Panel:
    names = [each.name or each.words for each in chart.spots]
    rows = [
        (text(name), number(f"{each.x:.4g}", each.x), number(f"{each.y:.4g}", each.y))
        for name, each in zip(names, chart.spots, strict=True)
    ]
    head = ("Point", chart.x_title, chart.y_title)
    return Panel(table(chart.title, head, rows), _picture(chart), command)


def _picture(chart: Chart) -> Picture:
    plane = Plane(
        linear_axis([each.x for each in chart.spots], plain_label),
        linear_axis([*_ends(chart)], plain_label),
        chart.x_title,
        chart.y_title,
    )
    drawn = plane_svg(plane, chart.spots, chart.curves, chart.rule)
    return Picture(drawn, chart.title, chart.about)


def _ends(chart: Chart) -> Sequence[float]:
    return [end for spot in chart.spots for end in (spot.y, spot.high or 0.0)]


ABOUT = (
    "Rates are in requests/s, times in s unless the name contains ms, memory in MiB, shares from 0 "
    "to 1. A dash is unknown.",
)
LISTS = ("flags", "causes")  # texts and nested objects, which other sections show


def figures_section(run: MeasuredRun, title: str = "Every figure") -> Section:
    """Return the section with the figures of the JSON report."""
    found = run.results
    names = [case_name(row.first) for row in run.rows]
    panels = [_figures_panel(f"Every figure of {run.name}", "Case", names, _objects(found["rows"]))]
    if ratios := _objects(found["effects"]):
        tasks = [f"{ratio['other']} over {ratio['one']}: {ratio['task']}" for ratio in ratios]
        panels.append(_figures_panel(f"Every ratio of {run.name}", "Ratio", tasks, ratios))
    machine = dict(_flatten(_object(found["machine"])))
    rows = [(text(name), _cell(value)) for name, value in machine.items() if value is not None]
    panels.append(Panel(table(f"Machine of {run.name}", ("Fact", "Value"), rows)))
    return Section("figures", title, tuple(panels))


def _figures_panel(
    caption: str, first: str, names: Sequence[str], found: Sequence[Mapping[str, object]]
) -> Panel:
    """Return a table of objects, with a column for each key that has a value in any of them."""
    flat = [dict(_flatten(each)) for each in found]
    keys = list(dict.fromkeys(key for each in flat for key in each))
    rows = [
        (text(name), *(_cell(each.get(key)) for key in keys))
        for name, each in zip(names, flat, strict=True)
    ]
    return Panel(table(caption, (first, *keys), rows, ABOUT))


def _flatten(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the names and values of an object, including those of nested objects."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        elif name not in LISTS:
            yield f"{prefix}{name}", value


def _cell(value: object) -> Cell:
    if isinstance(value, bool):
        return text("yes" if value else "no")
    if isinstance(value, int | float):
        return number(str(value) if isinstance(value, int) else f"{value:.{DIGITS}g}", value)
    if isinstance(value, list | tuple):
        return text(", ".join(map(str, value)))
    return text(value)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, object]]:
    return [_object(each) for each in value] if isinstance(value, list) else []


def _render(content: Content) -> str:
    panels = [panel for section in content.sections for panel in section.panels]
    pictured = [id(panel) for panel in panels if panel.picture is not None]
    drawn = dict(zip(pictured, map(Markup, content.pictures), strict=False))  # already escaped

    def picture_of(panel: Panel) -> Markup | None:
        return drawn.get(id(panel))

    text, _ = fill_template(
        "page", page=content, version=__version__, picture_of=picture_of, breakable=_breakable
    )
    return text


def fill_template(name: str, *more: str, **values: object) -> tuple[str, str]:
    """Fill a template with values, its style and its script; return it and its policy.

    The Content-Security-Policy allows only its own style and script, and `more`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    parts = [(FOLDER / f"{name}.{kind}").read_text() for kind in ("css", "js")]
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"
        for part in parts
    )
    own = f"style-src {style}; script-src {script}"
    policy = "; ".join(["default-src 'none'", own, *more, "base-uri 'none'", "form-action 'none'"])
    own_files = dict(zip(("style", "script"), map(Markup, parts), strict=True))
    text = environment.get_template(f"{name}.html").render(policy=policy, **own_files, **values)
    return text, policy


def _finalize(value: object) -> object:
    """Make a text of the page printable; values that are not plain text are HTML already."""
    return printable(value) if type(value) is str else value


def _breakable(text: str) -> Markup:
    """Allow line breaks in a name after each comma, underscore and slash."""
    return Markup("<wbr>").join(BREAKS.split(printable(text)))
