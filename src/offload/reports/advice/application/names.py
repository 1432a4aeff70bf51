"""Names of servers and sizes in the sentences of an answer for an application."""

from __future__ import annotations

from offload.bench.advice.application.answer import Option
from offload.bench.advice.application.sizes import Size


def option_name(option: Option) -> str:
    """Return a server with its size: `granian_wsgi with 2 processes of 4 threads`."""
    return f"{option.case.server} with {size_name(option.size)}"


def size_name(size: Size) -> str:
    """Format a size as words: `2 processes of 4 threads`."""
    processes = f"{size.processes} process{'' if size.processes == 1 else 'es'}"
    if size.threads is None:
        return processes
    return f"{processes} of {size.threads} thread{'' if size.threads == 1 else 's'}"
