"""What is wrong: errors that end a command, and the problems and flags of a measurement.

An error is one line that a user can act on, with what, where and what to do, and an exit code. A
problem is the reason why there is no measurement, a flag a warning about one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Kinds of a problem:
UNAVAILABLE = "unavailable"  # the case could not be started
CANNOT_LOAD = "cannot load"  # its Python lacks a package, or the import of its task failed
FAILED_REQUEST = "failed request"  # one of the first requests failed, or had no response in time
LOAD = "load"  # the load tool failed
STALLED = "stalled"  # under load, hardly any request succeeded any more
TOO_SLOW = "too slow"  # its users would wait for longer than the timeout of a request


@dataclass(frozen=True)
class Flag:
    """A warning about a figure: its kind (one word), the observation, and what to do."""

    kind: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return one line for a report."""
        return f"{self.kind}: {self.message}" + (f": {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Problem:
    """The reason why a case has no figures."""

    kind: str
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The message and the remedy in one line."""
        return self.message + (f": {self.remedy}" if self.remedy else "")

    def __str__(self) -> str:
        """Return one line for a report."""
        return self.text if self.kind in (LOAD, STALLED) else f"not available: {self.text}"


# Errors


class UserError(Exception):
    """An error that a user can fix; its message is one line: what is wrong, where, and a remedy.

    `what` and `remedy` are the two parts of the message, for programs that show them separately.
    Control characters in them are escaped and long words are cut, because names in files of others
    may have any; credentials in URLs are masked.
    `exit_code` is the exit code of the command. `kind` is the kind of the problem in a case's
    record.
    """

    exit_code = 1
    kind = UNAVAILABLE

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = shortened(escaped(without_credentials(what)))
        self.remedy = shortened(escaped(without_credentials(remedy)))
        super().__init__(f"{self.what}: {self.remedy}" if remedy else self.what)

    def __reduce__(self) -> tuple[type[UserError], tuple[str, str]]:
        """Pickle both parts, because workers send such errors to their parent."""
        return type(self), (self.what, self.remedy)


class GateError(UserError):
    """A gate is red, or a check failed."""


class UsageError(UserError):
    """The command line is wrong: an unknown name, a bad number, an unexpected value."""

    exit_code = 2


class MachineError(UserError):
    """The machine lacks something: a tool, a library, a free port, file descriptors."""

    exit_code = 3


class StartError(UserError):
    """A server did not start, or its first response was wrong.

    A run that contains such a server ends with RunError, because it has no figures.
    """

    exit_code = 4


class RunError(UserError):
    """A run has no figures, or its figures would not be valid."""

    exit_code = 5


class TooSlowError(RunError):
    """The users of a case would wait for longer than the timeout of a request."""

    kind = TOO_SLOW


class StorageError(UserError):
    """Records could not be read or saved."""

    exit_code = 6


class DisturbedError(UserError):
    """Other processes disturbed a measurement so much that it has no verdict."""

    exit_code = 7


class UndecidedError(DisturbedError):
    """Rates or trends vary too much for a verdict."""


def kind_of(exit_code: int) -> type[UserError]:
    """Return the class of the error with an exit code; StartError for an unknown exit code."""
    kinds = {kind.exit_code: kind for kind in UserError.__subclasses__()}
    return kinds.get(exit_code, StartError)


@contextmanager
def records_of_others(which: str) -> Iterator[None]:
    """Raise StorageError for an error that is caused by the values in damaged or edited records.

    `which` names the runs that have these records.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        what = f"{which} cannot be reported: {type(error).__name__}: {str(error)[:100]!r}"
        fix = "if nobody has edited its records, report this as a bug of offload"
        raise StorageError(what, fix) from error


# Text in errors and documents
# Characters that change the order of a text, are invisible, end a line or control a terminal.
HIDDEN = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Control characters, single surrogates, and characters that are invalid in XML.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


def escape_hidden(text: str) -> str:
    r"""Escape characters that a reader cannot see, but not line ends and other ASCII.

    >>> escape_hidden("a\u202eb")
    'a\\u202eb'
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable(text: str) -> str:
    """Replace characters that are invalid in documents; escape those that a reader cannot see."""
    return UNPRINTABLE.sub("\ufffd", escape_hidden(text))


LONGEST = 2000  # characters of a part of a message
LONGEST_WORD = 300  # characters without a space, such as a name or a path, in a message
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def escaped(text: str) -> str:
    r"""Escape control characters, so that a text is one line and does not control a terminal.

    >>> escaped("two\nlines")
    'two\\nlines'
    """
    plain = escape_hidden(text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)


_CREDENTIALS = re.compile(r"(?<=//)[^\s/@]*:[^\s/@]*(?=@)")


def without_credentials(text: str) -> str:
    """Mask `user:password` in each URL of a text.

    >>> without_credentials("no postgresql://shop:secret@db/quotes")
    'no postgresql://***@db/quotes'
    """
    return _CREDENTIALS.sub("***", text)


def shortened(text: str) -> str:
    """Cut the middle of each long word, and of a long text: a user's name may have any length.

    >>> len(shortened("a" * 100_000)), len(shortened("a " * 100_000))
    (300, 2000)
    """
    text = _LONG_WORD.sub(lambda found: _without_middle(found[0], LONGEST_WORD), text)
    return _without_middle(text, LONGEST)


def _without_middle(text: str, length: int) -> str:
    half = (length - 3) // 2
    return text if len(text) <= length else f"{text[: length - 3 - half]}...{text[-half:]}"
