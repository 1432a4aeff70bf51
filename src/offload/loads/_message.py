"""The message that every request of a load sends: method, body and headers, which may be secret."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from offload.errors import UsageError
from offload.loads.engine.connections import body as bodies

NEXT_HEADER = re.compile(r";\s*(?=[!#$%&'*+.^_`|~0-9A-Za-z-]+:)")
MASK = "***"
BODY_MARK = "sha256:"  # of a body that records do not show
SHORTEST = 4  # characters of a secret that is masked in other texts
LONG = 12  # characters with which a longer secret is recognized if its end was cut
# Headers whose values records may show; the value of any other header may be a secret.
HARMLESS = {
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "user-agent",
}
# Parameters of a query whose values are secrets, as a part of their names.
_SECRET_NAME = re.compile(
    r"token|key(?!word|board)|secret|passw|passphrase|pwd|credential|auth(?!ors?$)|session|jwt|bearer|cookie"
    r"|signature|private|otp|nonce|(?<![a-z])(?:pass|sig|sid|hmac|mac|pin|code|hash)(?![a-z])",
    re.IGNORECASE,
)
_INNER_NAME = re.compile(r"([^=&;#?/]+)=")
_JSON_FIELD = re.compile(r'"([^"\\]*)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_PARAMETER = re.compile(r"([?&;])([^=&;#?/\s]*)=([^&;#\s\"'<>]*)")


def mask_query(text: str) -> str:
    """Return a text with the values of those parameters in its URLs masked that may be secrets.

    >>> mask_query("/quote?size=2&api_key=abc")
    '/quote?size=2&api_key=***'
    """
    return _PARAMETER.sub(_masked_parameter, text)


def has_secret(url: str) -> bool:
    """Whether a parameter of a URL may be a secret."""
    return mask_query(url) != url


def _masked_parameter(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    is_secret = _SECRET_NAME.search(unquote(name)) is not None
    if not is_secret and ("=" in value or "%" in value):  # it may be a URL or a query, too
        inner = unquote(unquote(value))
        is_secret = any(_SECRET_NAME.search(each[1]) for each in _INNER_NAME.finditer(inner))
    return f"{mark}{name}={MASK}" if is_secret and value else found[0]


def body_facts(body: str) -> str:
    """Return what records show of a body: its SHA-256 and its length."""
    content = body.encode("utf-8", "surrogateescape")
    return f"{BODY_MARK}{hashlib.sha256(content).hexdigest()}, {len(content)} bytes"


@dataclass(frozen=True)
class Message:
    """The content of every request of a load, in addition to its URL.

    The content type of a body is JSON if it looks like JSON, else that of a form, unless `headers`
    has a Content-Type. Headers are added to those of the tool, or replace them.
    """

    method: str = "GET"
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        """Return the value of a header, whose name is case-insensitive; None if it is not set."""
        known = {each.lower(): value for each, value in self.headers.items()}
        return known.get(name.lower())

    @property
    def content_type(self) -> str | None:
        """The content type; a message without a body may have none."""
        given = self.header("content-type")
        return given if self.body is None else given or bodies.content_type(self.body)

    @property
    def lines(self) -> list[str]:
        """All headers without the Content-Type, as `Name: value`."""
        return [f"{k}: {v}" for k, v in self.headers.items() if k.lower() != "content-type"]

    def masked(self) -> Message:
        """Return the message without secrets, for records."""
        shown = {k: v if k.lower() in HARMLESS else MASK for k, v in self.headers.items()}
        return replace(self, headers=shown)

    def mask(self, text: str, url: str = "") -> str:
        """Return a text without the secrets of the headers, of the body and of queries.

        `url` is the one that was requested: its secrets are masked wherever they stand.
        """
        if self.body is not None and len(self.body) >= SHORTEST and self.body in text:
            text = text.replace(self.body, body_facts(self.body))
        for secret in sorted({*self._secrets(url)}, key=len, reverse=True):
            text = text.replace(secret, MASK)
            if len(secret) > LONG:  # the text may have its beginning only
                text = re.sub(re.escape(secret[:LONG]) + r"[^\s'\"]*", lambda _: MASK, text)
        return mask_query(text)

    def _secrets(self, url: str) -> Iterator[str]:
        """Yield the secrets of the headers, of the body and of a URL, with their parts."""
        found: list[str] = []
        for name, value in self.headers.items():
            if name.lower() in HARMLESS:
                continue
            scheme, _, secret = value.partition(" ")
            is_scheme = name.lower().endswith("authorization") and secret
            found.append(secret if is_scheme else value)
            if is_scheme and scheme.lower() == "basic":
                found.append(_decoded(secret).partition(":")[2])
            if name.lower() == "cookie":
                found += [each.partition("=")[2] for each in value.split("; ")]
        for text in (url, f"?{self.body or ''}"):
            for each in _PARAMETER.finditer(text):
                if _masked_parameter(each) != each[0]:
                    found += [each[3], unquote_plus(each[3])]
        for name, value in _JSON_FIELD.findall(self.body or ""):
            if _SECRET_NAME.search(name):
                found += [value, _unescaped(value)]
        yield from (each for each in found if len(each) >= SHORTEST)


def _decoded(text: str) -> str:
    """Decode Base64; return an empty text if it is none."""
    try:
        return base64.b64decode(text).decode()
    except ValueError:
        return ""


def _unescaped(text: str) -> str:
    """Return the value of a string in JSON."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def parse_headers(text: str, name: str = "header") -> dict[str, str]:
    """Parse headers `Name: value`; a `;` separates them if the name of another header follows.

    Raise UsageError; `name` is the name of the option in its message.
    """
    found: dict[str, str] = {}
    for part in NEXT_HEADER.split(text) if text else []:
        header, colon, value = part.partition(":")
        if not colon:  # do not show the text: it may be a secret
            raise UsageError(f"a header in {name}= has no name", f"write {name}='Name: value'")
        if header.strip() in found:
            raise UsageError(f"{name}= has {header.strip()[:40]!r} twice", "use one of them")
        found[header.strip()] = value.strip()
    return found


def request_target(parts: SplitResult) -> str:
    """Return the path and the query of a URL as in the first line of a request."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def split_credentials(url: str) -> tuple[str, str | None]:
    """Return a URL without its `user:password@`, and the value of their header Authorization.

    The value is None for a URL without credentials.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # the checks before a load report it
        return url, None
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    token = base64.b64encode(unquote(credentials).encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {token}"
