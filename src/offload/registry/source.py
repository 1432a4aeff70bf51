"""Read docstrings, constants and parameters from a source file without importing it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from offload.errors import UsageError
from offload.registry import protection
from offload.registry.places import display_path


def parse(path: Path) -> ast.Module:
    """Parse a file; raise UsageError with the line number of a syntax error."""
    try:
        return _syntax(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        where = f"{display_path(path)}:{getattr(error, 'lineno', None) or 1}"
        raise UsageError(f"{where} cannot be read ({error})", "fix or remove the file") from None


@functools.lru_cache(maxsize=256)
def _syntax(content: bytes, name: str) -> ast.Module:
    """Parse a file's content; the result is cached for the same content."""
    return ast.parse(content, filename=name)


def summary(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the first line of a docstring, or an empty string."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def constants(tree: ast.Module) -> dict[str, object]:
    """Return the literal constants of a file; their names are upper case."""
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper():
                try:
                    found[name] = ast.literal_eval(node.value)
                except (ValueError, TypeError):  # a computed constant is known only at run time
                    continue
    return found


def readable_constants(path: Path) -> dict[str, object]:
    """Return the literal constants of a user's file; none if this Python cannot parse it.

    The server, which may be run by another Python, reports a syntax error.
    """
    try:
        return constants(parse(path))
    except UsageError:
        return {}


def module_file(name: str, folders: Sequence[str]) -> Path | None:
    """Find the file of a dotted module in folders, without importing it or its packages.

    Return None if it is missing or not a Python file.
    """
    found = None
    for part in name.split("."):
        found = PathFinder.find_spec(part, folders) if part.isidentifier() else None
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    origin = None if found is None or not found.has_location else found.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def keywords(path: Path, node: ast.FunctionDef) -> dict[str, object]:
    """Return a function's keyword-only parameters and their literal defaults; raise UsageError.

    `**protection` represents the settings of the protection.
    """
    rest = node.args.kwarg
    shared = protection.DEFAULTS if rest and rest.arg == protection.PARAMETER else {}
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    try:
        own = {arg.arg: None if value is None else ast.literal_eval(value) for arg, value in pairs}
    except (ValueError, TypeError):
        where = f"{display_path(path)}:{node.lineno}"
        raise UsageError(f"{where}: the default of a setting must be a literal") from None
    return {**own, **shared}
