"""The words of the command that runs, as they are stored in the run.json of its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SECRET = ("header", "body", "request", "url")  # options whose value may be a secret
MASK = "***"

argv: tuple[str, ...] = ()  # of the command that runs now, without the program


@contextmanager
def used(words: Sequence[str]) -> Iterator[None]:
    """Keep the words of the command that runs within this context, without secrets."""
    global argv
    argv = tuple(_masked(word, before) for before, word in zip(("", *words), words, strict=False))
    try:
        yield
    finally:
        argv = ()


def shown(value: str, words: Sequence[str]) -> str:
    """Return a value in `words` as an error shows it, if it may belong to a secret.

    >>> shown("secret", ["measure", "--header=Authorization:", "secret"]), shown("X-Key: a", [])
    ('***', 'X-Key')
    """
    has_secret = any(
        _masked(word, before) != word for before, word in zip(("", *words), words, strict=False)
    )
    return MASK if has_secret else value.partition(": ")[0]


def _masked(word: str, before: str) -> str:
    """Return a word without the value of an option in SECRET; a file as @FILE is no secret.

    >>> [_masked("--header=A: secret", ""), _masked("body=@file", ""), _masked("x", "--body")]
    ['--header=***', 'body=@file', '***']
    """
    name, equals, value = word.partition("=")
    if before.startswith("--") and before[2:] in SECRET and not _is_harmless(word):
        return MASK
    is_secret = equals and name.removeprefix("--") in SECRET and not _is_harmless(value)
    return f"{name}={MASK}" if is_secret else word


def _is_harmless(value: str) -> bool:
    """Whether a value is no secret: a file as @FILE, or a path without a query."""
    return value.startswith("@") or (value.startswith("/") and "?" not in value)
