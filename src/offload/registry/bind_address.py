"""The address on which a server listens: bind=ADDRESS of the command line, and of the servers."""

from __future__ import annotations

import ipaddress
import os

from offload.errors import UsageError

VARIABLE = "SERVER_BIND"
LOOPBACK, ALL = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only if the user names it


def parse(text: str) -> str:
    """Return an IPv4 address; raise UsageError."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        fix = f"use an address of this machine, or {ALL} for all of them"
        raise UsageError(f"bind={text[:100]!r} is not an IPv4 address", fix) from None
    return str(address)


def configured() -> str:
    """Return the address that was given to this server; the default is 127.0.0.1."""
    return parse(os.environ.get(VARIABLE, LOOPBACK))


def is_loopback(address: str) -> bool:
    """Whether an IPv4 or IPv6 address is of the loopback interface, which each machine has."""
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def reachable(address: str) -> str:
    """Return the address by which this machine reaches a server that listens on `address`."""
    return LOOPBACK if address == ALL else address


def url(address: object, port: object) -> str:
    """Return the URL of a server; `address` is None in the facts of a server on 127.0.0.1."""
    return f"http://{reachable(str(address or LOOPBACK))}:{port}/"


def warning(address: str) -> str | None:
    """Return a warning if other machines can reach an address; else None."""
    if is_loopback(address):
        return None
    what = f"warning: with bind={address} every machine that can reach this one"
    return f"{what} can run the task: use it only in a network of your own"
