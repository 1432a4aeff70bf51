"""The origin of a case: another checkout or environment from which its server starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Another checkout or environment; `label` names it as the user wrote it.

    `toolkit` is a checkout of this toolkit: the server imports its `src`. `folder` is the working
    folder of the server, and `search` lists the folders from which it imports first. `python` is
    the interpreter of an environment that has all packages. None means: as without an origin.
    """

    label: str
    toolkit: str | None = None
    folder: str | None = None
    search: tuple[str, ...] = ()
    python: str | None = None
