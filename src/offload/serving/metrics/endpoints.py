"""The functions that an application names as routes and dependencies. Standard library only.

Starlette and FastAPI call `def` functions in threads, where the stack does not show what they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

ROUTE, DEPENDENCY = "route", "dependency"
DEEPEST = 20  # applications inside each other


def list_endpoints(application: Any, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the name and the kind of each function of an application."""
    if depth > DEEPEST:
        return
    routes = getattr(application, "routes", None)
    for route in routes if isinstance(routes, list) else ():
        yield from _places([getattr(route, "endpoint", None)], ROUTE)
        dependant = getattr(route, "dependant", None)
        yield from _places(_dependencies(dependant, depth), DEPENDENCY)
        yield from list_endpoints(route, depth + 1)
    inner = getattr(application, "app", None)
    if routes is None and inner is not None:  # a middleware around the application
        yield from list_endpoints(inner, depth + 1)


def _dependencies(dependant: Any, depth: int) -> Iterator[Any]:
    found = getattr(dependant, "dependencies", None)
    for each in found if isinstance(found, list) and depth <= DEEPEST else ():
        yield getattr(each, "call", None)
        yield from _dependencies(each, depth + 1)


def _places(functions: list[Any] | Iterator[Any], kind: str) -> Iterator[tuple[str, str, str]]:
    for each in functions:
        code = getattr(inspect.unwrap(each) if callable(each) else None, "__code__", None)
        if inspect.iscode(code):
            yield code.co_filename, code.co_name, kind
