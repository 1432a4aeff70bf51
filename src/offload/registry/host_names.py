"""Names of machines: a host name, an IPv4 address, or an IPv6 address in brackets."""

from __future__ import annotations

import re

from offload.errors import UsageError

LONGEST = 300  # characters of a name with its port; DNS allows 253 in a name
MOST_HOSTS = 64  # that are reached by SSH
PATTERN = r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+"

_NAME = re.compile(PATTERN, re.IGNORECASE)
_SSH_HOST = re.compile(rf"([a-z0-9_.-]+@)?({PATTERN})(:(?P<port>[0-9]{{1,5}}))?", re.IGNORECASE)
LARGEST_PORT = 65_535


def parse(option: str, text: str, example: str) -> tuple[str, ...]:
    """Return the names in `a+b`, in lower case; raise UsageError, with an example of the option."""
    names = text.lower().split("+") if text else []
    for name in names:
        if len(name) > LONGEST or _NAME.fullmatch(name) is None:
            fix = f"write names without ports, such as {option}={example}"
            raise UsageError(f"{option}={text[:100]!r} is not a list of host names", fix)
    return tuple(names)


def is_port(text: str) -> bool:
    """Whether digits are the number of a port: resolvers would take a larger one modulo 65536."""
    return 1 <= int(text) <= LARGEST_PORT


def parse_ssh_hosts(option: str, text: str) -> tuple[str, ...]:
    """Return the hosts in `a+user@b:2222`, each once and at most MOST_HOSTS; raise UsageError."""
    names = text.split("+") if text else []
    for name in names:
        is_option = name.startswith("-")  # it would be one of the program in ProxyCommand
        found = _SSH_HOST.fullmatch(name)
        if len(name) > LONGEST or is_option or found is None or not is_port(found["port"] or "22"):
            fix = f"write hosts as for ssh, such as {option}=a+user@b:2222"
            raise UsageError(f"{option}={text[:100]!r} is not a list of hosts", fix)
    if len(set(names)) < len(names):
        raise UsageError(f"{option}={text[:100]!r} has a host twice", "name each host once")
    if len(names) > MOST_HOSTS:
        raise UsageError(f"{option}= has {len(names)} hosts", f"use at most {MOST_HOSTS}")
    return tuple(names)
