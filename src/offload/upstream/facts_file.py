"""The facts of a running upstream: its addresses, its kind, and how to hold it."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

from offload import files
from offload.registry import places

OWNER = 0o600  # the facts contain a token, and the key is private
NOT_BY_PROXY = "127.0.0.1,localhost"


@dataclass(frozen=True)
class Upstream:
    """A running upstream: `kind` is nginx or embedded, `latency_s` the delay of each page."""

    http: str
    https: str
    ca: str
    kind: str
    latency_s: float
    pid: int

    def environment(self) -> dict[str, str]:
        """The environment variables by which tasks find this upstream without a proxy."""
        return {
            "UPSTREAM_HTTP": self.http,
            "UPSTREAM_HTTPS": self.https,
            "UPSTREAM_CA": self.ca,
            "NO_PROXY": NOT_BY_PROXY,
            "no_proxy": NOT_BY_PROXY,
        }


@dataclass(frozen=True)
class Facts:
    """The facts that the supervisor publishes: the upstream, its hold port, and its secret token.

    The token proves that the supervisor at the hold port is the one that published the facts.
    """

    upstream: Upstream
    hold_port: int
    token: str


def folder() -> Path:
    """The folder of an upstream's files: UPSTREAM_FOLDER, or upstream in the cache folder."""
    folder_name = os.environ.get("UPSTREAM_FOLDER")
    return Path(folder_name).resolve() if folder_name else places.cache() / "upstream"


def read(where: Path) -> Facts | None:
    """Read the facts in a folder; None if they are missing or invalid."""
    try:
        found = json.loads((where / "facts.json").read_bytes())
        return Facts(Upstream(**found["upstream"]), found["hold_port"], found["token"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(where: Path, facts: Facts) -> None:
    """Write the facts into a folder, atomically."""
    text = json.dumps(dataclasses.asdict(facts), indent=2) + "\n"
    files.replace(where / "facts.json", text.encode(), OWNER)


def remove(where: Path) -> None:
    """Remove the facts from a folder."""
    (where / "facts.json").unlink(missing_ok=True)
