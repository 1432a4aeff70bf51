"""The errors a user can mend: one line that says what, where and what to do, and the exit code."""

from __future__ import annotations

from offload.flags import UNAVAILABLE


class Mendable(Exception):
    """One line that says what is wrong, where, and what to do; `exit_code` is the command's.

    `remedy` is what to do, where programs read it apart from `what`; `kind` is that of the problem
    in the record of a case that could not be measured.
    """

    exit_code = 1
    kind = UNAVAILABLE

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[Mendable], tuple[str, str]]:
        """Pickle both parts: workers raise such errors in their parent."""
        return type(self), (self.what, self.remedy)


class GateError(Mendable):
    """A check of the method, or of the executors, that did not pass."""


class UsageError(Mendable):
    """A word of the command is wrong: an unknown name, a bad number, a surplus value."""

    exit_code = 2


class MachineError(Mendable):
    """Something this machine lacks: a tool, a library, a free port, descriptors."""

    exit_code = 3


class StartError(Mendable):
    """A server that did not start, or answered wrongly when it was asked for the first time.

    A run of which it was a part ends with RunError, for it has no figures.
    """

    exit_code = 4


class RunError(Mendable):
    """A run whose figures would not be valid, or that has none."""

    exit_code = 5


class StorageError(Mendable):
    """Records that could not be read, or not be made durable."""

    exit_code = 6
