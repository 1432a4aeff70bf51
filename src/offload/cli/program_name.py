"""The name of this program in its texts, which are written for `fab`.

A wheel has no fabfile: its commands are those of `offload`, and so are those that it recommends.
"""

from __future__ import annotations

import re

FAB = "fab"
COMMAND = re.compile(rf"\b{FAB} (?=[a-z]|--)")  # before the name of a command, --list or --help

_name = FAB


def use(name: str) -> None:
    """Use a name instead of `fab` in all texts from now on."""
    global _name
    _name = name


def with_name(text: str) -> str:
    """Return a text whose commands have the name of this program.

    >>> with_name("Measure it: fab advise:shop:quote")
    'Measure it: fab advise:shop:quote'
    """
    return text if _name == FAB else COMMAND.sub(f"{_name} ", text)
