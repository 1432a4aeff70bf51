"""Names of servers and sizes in the sentences of an answer for an application."""

from __future__ import annotations

from offload.bench.advice.application.answer import Option
from offload.bench.advice.application.sizes import Size
from offload.registry import catalog


def option_name(option: Option) -> str:
    """Return a server with its size: `granian_wsgi with 2 processes of 4 threads`."""
    return f"{option.case.server} with {size_name(option.case.server, option.size)}"


def size_name(server: str, size: Size) -> str:
    """Format a size of a server as words: `2 processes of 4 threads`."""
    processes = f"{size.processes} process{'' if size.processes == 1 else 'es'}"
    if size.threads is None:
        return processes
    noun = "greenlet" if catalog.find_server(server).workers_are == "greenlets" else "thread"
    return f"{processes} of {size.threads} {noun}{'' if size.threads == 1 else 's'}"
