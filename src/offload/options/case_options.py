"""The options that complete a case: a user's application, and the request that users send."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offload.errors import UsageError
from offload.options import arguments
from offload.registry import addresses, catalog

if TYPE_CHECKING:
    from offload.suites import Case, Placement, Request


def case(text: str, app: str, which: str = "case") -> Case:
    """Parse a case; with `app` its text is only the server: `gunicorn_gthreadx16@3.14`."""
    from offload.suites import _case_syntax

    if not app:
        return _case_syntax.case(text, which)
    if not text:
        known = ", ".join(catalog.servers_of())
        raise UsageError("no server given for app=", f"use one of {known}")
    if "/" in text:
        what = f"{text!r} has a task, and app= replaces the task"
        raise UsageError(what, "write the server alone before app=")
    return _case_syntax.case(f"{text}/{work(app)}", which)


def work(app: str) -> str:
    """Return the task name of a user's application; raise UsageError if it is invalid."""
    return catalog.find_task(f"{catalog.PREFIX}{app}").name


def hosts_of(text: str) -> tuple[str, ...]:
    """Return the hosts of `from=a+user@b:2222`; raise UsageError."""
    return addresses.parse_ssh_hosts("from", text)


def placement(hosts: str, pin: str, processes: int = 1) -> Placement:
    """Return where a load is sent from, and the CPUs of both sides; raise UsageError."""
    from offload import resource_limits
    from offload.suites import Placement
    from offload.suites._load import parse_pin

    names = hosts_of(hosts)
    if names and pin:
        raise UsageError("from= and pin= exclude each other", "pin= is for one machine")
    return parse_pin(pin, resource_limits.cpu_numbers(), processes) if pin else Placement(names)


def with_placement(one: Case, hosts: str, bind: str, pin: str = "") -> Case:
    """Return the case with a placement, and the address of its server; raise UsageError."""
    place = placement(hosts, pin)
    if place.hosts and not bind:
        what = "from= needs the address at which the hosts reach the server"
        raise UsageError(what, "add bind=ADDRESS, an address of this machine")
    settings = dict(one.settings)
    if bind:
        settings["bind"] = addresses.parse_bind(bind)
        if place.hosts and settings["bind"] == addresses.ALL:
            raise UsageError(f"bind={bind} is not an address for from=", "name one address")
    return replace(one, settings=settings, placement=place)


def request_of(request: str, method: str, body: str, header: str) -> Request | None:
    """Return the request that users send; None for the default, `GET /`. Raise UsageError."""
    from offload import loads
    from offload.suites import Request

    if not (request or method or body or header):
        return None
    request = arguments.one_line("request", request)
    header = arguments.header_lines("header", header)
    shown = loads.mask_query(request)[:100]
    if request and not request.startswith("/"):
        raise UsageError(
            f"request={shown!r} is not a path", "start it with /, such as request=/quote"
        )
    if not request.isascii() or not request.isprintable() or " " in request:
        what = f"request={shown!r} has characters that are not allowed in a URL"
        raise UsageError(what, "encode them: a space is %20")
    content = arguments.body("body", body)
    verb = method.upper() or ("GET" if content is None else "POST")
    found = Request(request or "/", verb, content, header or None, private=content is not None)
    load = loads.Load("http://127.0.0.1/", message=found.message, keep_alive=True)
    loads.check(load, "builtin")
    return found
