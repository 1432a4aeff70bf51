"""Parts that the programs of several frameworks share."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from offload.studies.advise.handlers._function import Function

POOL_IMPORTS = (
    "import signal",
    "from concurrent.futures import ProcessPoolExecutor",
    "from concurrent.futures.process import BrokenProcessPool",
    "from multiprocessing import get_context",
)
START_POOL = """\
def start_pool():
    # forkserver: a fork of this process would copy its locks. The workers ignore Ctrl-C.
    context, ignore = get_context("forkserver"), (signal.SIGINT, signal.SIG_IGN)
    return ProcessPoolExecutor({workers}, context, signal.signal, ignore)"""
IN_POOL = """\
used = {pool}
try:
    body = await asyncio.get_running_loop().run_in_executor(used, {sent})
except BrokenProcessPool:  # a worker died: later requests need a new pool
    if {pool} is used:
        {pool} = start_pool()
    raise"""


@dataclass(frozen=True)
class Plan:
    """The contents of a program: a function, its strategy, its sizes, and its users.

    Each of `processes` has `workers` threads, or a pool of `workers` processes behind it.
    """

    function: Function
    strategy: str
    workers: int
    users: int
    processes: int = 1

    @property
    def app(self) -> str:
        """The name of the program's module: app, or server if the function's package is app."""
        return "server" if self.function.module.split(".")[0] == "app" else "app"

    @property
    def is_wrapped(self) -> bool:
        """Whether the program needs a function `call()`, which runs the function to completion.

        Executors get a function without arguments, and cannot await a coroutine. Pickle finds a
        function only by its name in its module. A result becomes JSON where the function runs.
        """
        sends = self.strategy in ("processes", "pipes") and not self.function.is_picklable
        own = self.function
        is_other = own.is_coroutine or own.is_json or bool(own.arguments)
        return self.is_executed and (is_other or sends)

    @property
    def is_executed(self) -> bool:
        """Whether an executor, not the event loop, calls the function."""
        return self.strategy in ("threads", "processes", "pipes")

    @property
    def executor_function(self) -> str:
        """The name of the function that is passed to an executor."""
        return "call" if self.is_wrapped else self.function.local

    @property
    def call(self) -> str:
        """The expression that calls the function with its arguments."""
        if not self.function.arguments:
            return f"{self.function.local}()"
        stars = "**" if self.function.arguments.startswith("{") else "*"
        return f"{self.function.local}({stars}ARGUMENTS)"

    def result(self, call: str) -> str:
        """Return the expression of the response's body; `call` is that of the function's result."""
        return f"json.dumps({call})" if self.function.is_json else call

    @property
    def media_type(self) -> str:
        """The type of the response's body."""
        return "application/json" if self.function.is_json else "text/plain; charset=utf-8"

    @property
    def constants(self) -> list[str]:
        """The block with the arguments, if the function has any."""
        if not self.function.arguments:
            return []
        remark = "# The arguments of the measurement: take them from the request instead."
        return [f"{remark}\nARGUMENTS = {self.function.arguments}"]

    @property
    def on_loop(self) -> str:
        """The line that runs the function on the event loop."""
        if self.function.is_coroutine:
            return f"body = {self.result(f'await {self.call}')}"
        return f"body = {self.result(self.call)}  # on the event loop, which it blocks meanwhile"

    @property
    def wrapper(self) -> list[str]:
        """The block that defines `call()`, if the program needs it."""
        if not self.is_wrapped:
            return []
        body = f"asyncio.run({self.call})" if self.function.is_coroutine else self.call
        return [f"def call():\n    return {self.result(body)}"]

    def summary(self, framework: str) -> str:
        """Return the first line of the program."""
        sizes = {
            "loop": "",
            "prefork": f" x{self.processes}",
            "threads": f" {self.processes}x{self.workers}",
        }
        size = sizes.get(self.strategy, f" x{self.workers}")
        return f"Serve {self.function.name} with {framework} ({self.strategy}{size})."


def program(plan: Plan, framework: str, imports: Iterable[str], *blocks: str) -> str:
    """Return the text of a program; its imports are sorted as ruff and isort do.

    `asyncio` and `importlib` are imported if a block uses them.
    """
    own = plan.function.import_line
    text = "\n\n\n".join([*plan.constants, *blocks])
    needed = {*imports}
    if "asyncio." in text:
        needed.add("import asyncio")
    if plan.function.is_json:
        needed.add("import json")
    if not own.startswith("from "):
        needed.add("import importlib")
    elif plan.function.folder is None:
        needed.add(own)
    standard = {line for line in needed if line.split()[1].split(".")[0] in sys.stdlib_module_names}
    sections = [sorted(standard, key=_order), sorted(needed - standard, key=_order)]
    sections += [[own]] * (own not in needed)
    head = "\n\n".join("\n".join(section) for section in sections if section)
    gap = "\n\n\n" if text.startswith(("def ", "async def ", "class ", "@")) else "\n\n"
    return f'"""{plan.summary(framework)}"""\n\n{head}{gap}{text}\n'


def indent(text: str, columns: int) -> str:
    """Return lines indented by a number of columns, apart from the first one."""
    return text.replace("\n", "\n" + " " * columns)


def names(code: str) -> set[str]:
    """Return all names that a program uses, except attributes."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
    return found


def imports(code: str, package: str) -> bool:
    """Whether a program imports from a package."""
    return f"\nfrom {package} import " in code


def _order(line: str) -> tuple[bool, str]:
    return not line.startswith("import "), line
