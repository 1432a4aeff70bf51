"""The address on which a server listens (bind=), and the names of other machines."""

from __future__ import annotations

import ipaddress
import os
import re

from offload.errors import UsageError

BIND_VARIABLE = "SERVER_BIND"
LOOPBACK, ALL = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only if the user names it


def parse_bind(text: str) -> str:
    """Return an IPv4 address; raise UsageError."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        fix = f"use an address of this machine, or {ALL} for all of them"
        raise UsageError(f"bind={text[:100]!r} is not an IPv4 address", fix) from None
    return str(address)


def configured_bind() -> str:
    """Return the address that was given to this server; the default is 127.0.0.1."""
    return parse_bind(os.environ.get(BIND_VARIABLE, LOOPBACK))


def is_loopback(address: str) -> bool:
    """Whether an IPv4 or IPv6 address is of the loopback interface, which each machine has."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def reachable(address: str) -> str:
    """Return the address by which this machine reaches a server that listens on `address`."""
    return LOOPBACK if address == ALL else address


def server_url(address: object, port: object) -> str:
    """Return the URL of a server; `address` is None in the facts of a server on 127.0.0.1."""
    return f"http://{reachable(str(address or LOOPBACK))}:{port}/"


def exposure_warning(address: str) -> str | None:
    """Return a warning if other machines can reach an address; else None."""
    if is_loopback(address):
        return None
    what = f"warning: with bind={address} every machine that can reach this one"
    return f"{what} can run the task: use it only in a network of your own"


LONGEST_NAME = 300  # characters of a name with its port; DNS allows 253 in a name
MOST_HOSTS = 64  # that are reached by SSH
NAME_PATTERN = r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+"

_NAME = re.compile(NAME_PATTERN, re.IGNORECASE)
_SSH_HOST = re.compile(
    rf"([a-z0-9_.-]+@)?({NAME_PATTERN})(:(?P<port>[0-9]{{1,5}}))?", re.IGNORECASE
)
LARGEST_PORT = 65_535


def parse_names(option: str, text: str, example: str) -> tuple[str, ...]:
    """Return the names in `a+b`, in lower case; raise UsageError, with an example of the option."""
    names = text.lower().split("+") if text else []
    for name in names:
        if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
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
        if (
            len(name) > LONGEST_NAME
            or is_option
            or found is None
            or not is_port(found["port"] or "22")
        ):
            fix = f"write hosts as for ssh, such as {option}=a+user@b:2222"
            raise UsageError(f"{option}={text[:100]!r} is not a list of hosts", fix)
    if len(set(names)) < len(names):
        raise UsageError(f"{option}={text[:100]!r} has a host twice", "name each host once")
    if len(names) > MOST_HOSTS:
        raise UsageError(f"{option}= has {len(names)} hosts", f"use at most {MOST_HOSTS}")
    return tuple(names)
