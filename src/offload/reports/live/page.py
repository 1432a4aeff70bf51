"""The page in HTML: without content, which the script requests and puts into it as text."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jinja2
from markupsafe import Markup

from offload.errors import printable

FOLDER = Path(__file__).parent / "page"


def html(title: str) -> tuple[str, str]:
    """Return the page, and its Content-Security-Policy: its own style, script and events only."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((FOLDER / name).read_text() for name in ("live.css", "live.js"))
    text = environment.get_template("live.html").render(
        title=printable(title),
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
    )
    hashes = (
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (style, script)
    )
    own = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*hashes)
    more = "img-src data:; connect-src 'self'"
    none = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return text, f"default-src 'none'; {own}; {more}; {none}"
