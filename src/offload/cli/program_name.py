"""The name of this program in its texts, which are written for `fab`.

A wheel has no fabfile: its commands are those of `offload`, and so are those that it recommends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FAB = "fab"

_name = FAB
_command: re.Pattern[str] | None = None


def use(name: str, commands: Iterable[str]) -> None:
    """Use a name instead of `fab` before each of these commands in all texts from now on."""
    global _name, _command
    _name = name
    _command = re.compile(rf"\b{FAB} (?=(?:{'|'.join(commands)})\b|--(?:help|list)\b)")


def with_name(text: str) -> str:
    """Return a text, written for `fab`, whose commands have the name of this program."""
    return text if _command is None else _command.sub(f"{_name} ", text)
