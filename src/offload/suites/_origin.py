"""Where the server of a case starts from, if that is not this checkout and this environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Another checkout or environment; `label` names it as the user wrote it.

    `toolkit` is a checkout of this toolkit whose `src` the server imports. `folder` is the folder
    in which the server starts, and `search` are folders from which it imports first. `python` is
    the interpreter of an environment that has all packages. None: as without an origin.
    """

    label: str
    toolkit: str | None = None
    folder: str | None = None
    search: tuple[str, ...] = ()
    python: str | None = None
