"""The spelling of a user's own application, which replaces a task's name: `app=shop.web:app`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from offload.errors import UsageError
from offload.registry.inputs import NAME

PREFIX = "app="
FORM = re.compile(
    rf"(?P<where>[^:\x00-\x1f]+)(?::(?P<attribute>{NAME}(?:\.{NAME})*)(?P<call>\(\))?)?"
)
REMEDY = "write app=package.module:name, or app=package.module:create_app() for a factory"


@dataclass(frozen=True)
class Spelling:
    """A module or a file, the `attribute` in it (None: a usual name), and whether to call it."""

    where: str
    attribute: str | None
    is_factory: bool

    @property
    def is_file(self) -> bool:
        """Whether the application is in a file instead of an importable module."""
        return self.where.endswith(".py")

    def in_file(self, path: object) -> str:
        """Return the spelling of the same application in the file `path`, as a task name."""
        attribute = f":{self.attribute}" if self.attribute else ""
        return f"{PREFIX}{path}{attribute}{'()' if self.is_factory else ''}"


def is_application(work: str) -> bool:
    """Whether the work of a case is a user's application instead of a task."""
    return work.startswith(PREFIX)


def parse(work: str) -> Spelling:
    """Parse `app=shop.web:app`; raise UsageError."""
    text = work.removeprefix(PREFIX)
    found = FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{text[:100]!r} does not name an application", REMEDY)
    return Spelling(found["where"], found["attribute"], found["call"] is not None)
