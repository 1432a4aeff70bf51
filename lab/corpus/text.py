"""Text: templates, markup, regular expressions, highlighting and fuzzy search."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter

import jinja2
import markdown
import nh3
import regex
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from rapidfuzz import fuzz, process

STABLE = True
PACKAGES = ("jinja2", "markdown", "regex", "pygments", "nh3", "rapidfuzz")
ROWS = 500
SECTIONS = 12
LOG_LINES = 1_500
COMMENTS = 400
NAMES = 20_000
FUNCTIONS = 25
LETTERS = 100
TABLE = """
<table>{% for order in orders %}
<tr class="{{ loop.cycle('odd', 'even') }}"><td>{{ order.id }}</td>
<td>{{ order.customer|title }}</td><td>{{ '%.2f'|format(order.cents / 100) }}</td></tr>
{%- endfor %}</table>
"""
LETTER = """
<p>Dear {{ name|title }},</p>
{% if cents > 1000 %}<p>Your invoice of {{ '%.2f'|format(cents / 100) }} is open.</p>
{%- else %}<p>Thank you, {{ name|upper }}.</p>{% endif %}
"""
SECTION = """
## Section {n}

Text with *emphasis*, `code` and a [link](https://example.org/{n}).

* one item of a list
* another item of it, **in bold**

| product | price |
|---------|-------|
| bread   | {n}.50 |
| cheese  | {n}.75 |
"""
SECRETS = r"(?i)(?P<key>token|password)=(?P<value>\p{L}[\p{L}\p{N}]+)|\b\d{4}(?: \d{4}){3}\b"
FUNCTION = '''
def price_{n}(amount: int, discount: float = 0.{n}) -> float:
    """Return the price of an amount."""
    return round(amount * {n} * (1 - discount), 2) if amount > {n} else 0.0
'''


def jinja2_table() -> str:
    """Render a table of 500 rows by Jinja."""
    return _template().render(orders=_orders())


def jinja2_letters() -> str:
    """Compile a letter template by Jinja, and render it for 100 customers."""
    template = jinja2.Environment(autoescape=True).from_string(LETTER)
    letters = (template.render(name=f"customer {n}", cents=n * 37) for n in range(LETTERS))
    return hashlib.sha256("".join(letters).encode()).hexdigest()


def markdown_page() -> str:
    """Convert a page of 12 sections with tables from Markdown to HTML."""
    source = "".join(SECTION.format(n=n) for n in range(SECTIONS))
    return markdown.markdown(source, extensions=["tables"])


def regex_redacted_log() -> str:
    """Redact the passwords and card numbers in 1,500 lines of a log."""
    redacted = regex.compile(SECRETS).sub(r"\g<key>=***", _log())
    return hashlib.sha256(redacted.encode()).hexdigest()


def pygments_listing() -> str:
    """Highlight a listing of 25 Python functions."""
    source = "".join(FUNCTION.format(n=n) for n in range(FUNCTIONS))
    return highlight(source, PythonLexer(), HtmlFormatter())


def nh3_comments() -> str:
    """Remove scripts from 400 user comments in HTML with a parser written in Rust."""
    comment = "<p onclick='x()'>comment <b>{}</b><script>alert({})</script><a href='/{}'>l</a></p>"
    return nh3.clean("".join(comment.format(n, n, n) for n in range(COMMENTS)))


def rapidfuzz_search() -> str:
    """Find the five names most similar to a query among 20,000."""
    found = process.extract("markus hofmann 77", _names(), scorer=fuzz.WRatio, limit=5)
    return "\n".join(f"{name} {score:.1f}" for name, score, _ in found)


def word_counts() -> str:
    """Count the words in 1,500 lines of a log, and list the 20 most frequent ones."""
    words = Counter(re.findall(r"\w+", _log()))
    return "\n".join(f"{word} {count}" for word, count in words.most_common(20))


@functools.cache
def _template() -> jinja2.Template:
    return jinja2.Environment(autoescape=True).from_string(TABLE)


@functools.cache
def _orders() -> list[dict[str, object]]:
    return [{"id": n, "customer": f"customer <{n}>", "cents": n * 37} for n in range(ROWS)]


@functools.cache
def _log() -> str:
    return "\n".join(
        f"line {n} of user {n % 7} password=geheim{n} card 1234 5678 9012 {n:04} path=/orders/{n}"
        for n in range(LOG_LINES)
    )


@functools.cache
def _names() -> list[str]:
    first, last = ("anna", "bruno", "marcus", "olga"), ("hoffmann", "keller", "rossi", "schmidt")
    return [f"{first[n % 4]} {last[n // 4 % 4]} {n}" for n in range(NAMES)]
