"""The shell commands in README and docs/, and a project in which to run them."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docutils.nodes

from offload.registry import catalog
from tests import ROOT
from tests.installed import MISSING
from tests.project.test_readme import PAGES, documents

COMMAND = re.compile(
    r"(?:fab|offload|make|python3|docker|pytest|eval|sudo|git|ssh \S|\.|scripts/install/\w+|"
    r"\.venv/bin/\w+)(?: |$)"
)
NOT_RUN = "not run: "
SHORT = {  # what is added to a command, so that it ends sooner
    "advise": "budget=30",
    "compare": "quick=yes",
    "measure": "quick=yes",
    "run_load_test": "time=1",
}
ENDLESS = {  # until Ctrl-C: the words by which each shows that it is ready
    "run_server": "serves",
    "run_upstream": "serves",
    "watch": "PSS MiB",
}
SECONDS = ("list", "report", "completion", "run_load_test", *ENDLESS)
DISTURBED = {  # exit codes that mean: too much else runs on this machine
    "advise": 7,
    "compare": 7,
    "compare_runs": 7,
    "doctor": 3,
    "gil": 7,
    "scale": 7,
}


@dataclass(frozen=True)
class Block:
    """Commands that follow each other in a page, and the reason why a test does not run them."""

    page: Path
    number: int
    text: str
    reason: str | None

    @property
    def name(self) -> str:
        """The page, and the first command."""
        first = self.text.strip().splitlines()[0].partition("#")[0].strip()
        return f"{self.page.relative_to(ROOT)} {self.number}: {first[:40]}"

    @property
    def lines(self) -> list[str]:
        """The commands without comments."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        found = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
        return [line for line in found if line]

    @property
    def commands(self) -> list[str]:
        """The names of the commands of fab, and other programs."""
        return [command_of(line) for line in self.lines]

    @property
    def is_fast(self) -> bool:
        """Whether all of it takes seconds."""
        return all(command in SECONDS for command in self.commands)

    @property
    def missing(self) -> list[str]:
        """The servers in it that cannot run here."""
        names = set(re.findall(r"[a-z]\w+", self.text)) & catalog.servers().keys()
        if "app=" in self.text:  # one of those that serve it
            names.add("uvicorn_httptools")
        return sorted(name for name in names if MISSING[name])


def command_of(line: str) -> str:
    """Return the command of fab in a line, or its program."""
    program, *words = shlex.split(line)
    if program == "eval":
        return "completion"
    if Path(program).name in ("fab", "offload") and words:
        return words[0].partition(":")[0]
    return Path(program).name or program


@functools.cache
def blocks() -> list[Block]:
    """Return every block of shell commands in its order.

    Each process of a test run needs them to collect its tests, and to parse the pages takes 0.6 s
    of CPU: a file keeps the blocks until a page, this module or docutils changes.
    """
    known = hashlib.sha256(docutils.__version__.encode())
    for path in (Path(__file__), *PAGES):
        known.update(f"{path} {path.stat().st_size}\n".encode() + path.read_bytes())
    kept = ROOT / ".pytest_cache" / "shell_blocks.json"
    try:
        content = json.loads(kept.read_text())
        if content["of"] == known.hexdigest():
            return [Block(ROOT / page, *others) for page, *others in content["blocks"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = [block for page, document in documents().items() for block in _blocks(page, document)]
    values = [(str(b.page.relative_to(ROOT)), b.number, b.text, b.reason) for b in found]
    kept.parent.mkdir(exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}")  # other processes may write it, too
    part.write_text(json.dumps({"of": known.hexdigest(), "blocks": values}))
    part.replace(kept)
    return found


def unclear() -> list[str]:
    """Return the blocks that have commands and other text: it is not known how to run them."""
    found = []
    for page, document in documents().items():
        for node in document.findall(docutils.nodes.literal_block):
            are = [bool(COMMAND.match(line)) for line in node.astext().splitlines()]
            if any(are) and not _is_shell(node):
                found.append(f"{page.name}: {node.astext()[:60]!r}")
    return found


def _blocks(page: Path, document: docutils.nodes.document) -> Iterator[Block]:
    number = 0
    for node in document.findall(docutils.nodes.literal_block):
        if _is_shell(node):
            number += 1
            yield Block(page, number, node.astext(), _reason(node))


def _is_shell(node: docutils.nodes.literal_block) -> bool:
    """Whether a block is marked as shell, or each line in it is a command."""
    if "code" in node["classes"]:
        return "shell" in node["classes"]
    return all(COMMAND.match(line) for line in node.astext().splitlines() if line)


def _reason(node: docutils.nodes.literal_block) -> str | None:
    before = node.previous_sibling()
    if isinstance(before, docutils.nodes.comment) and before.astext().startswith(NOT_RUN):
        return " ".join(before.astext().removeprefix(NOT_RUN).split())
    return None


# What a reader of the pages has beside the project: functions, an application and their input.
SHOP = {
    "shop/__init__.py": "",
    "shop/pricing.py": """
import time

def total(*basket):
    time.sleep(0.005)
    return str(sum(basket))

def quote():
    return total(1, 2, 3)
""",
    "shop/samples.py": """
def baskets():
    while True:
        yield [1, 2, 3]
""",
    "shop/web.py": """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"7 for 5"})
""",
    "basket.json": "[3, 4, 5]",
}


def prepare(copy: Path, block: Block) -> None:
    """Add to a copy of the project what the commands of a block need."""
    for name, text in SHOP.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text)
    (copy / "path" / "to").mkdir(parents=True)
    shutil.copy(copy / "docs" / "shop.py", copy / "path" / "to")
    code = re.search(r"\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)", block.page.read_text())
    if "orders.py" in block.text and code:
        text = "\n".join(line[4:] for line in code[1].splitlines())
        (copy / "orders.py").write_text(text + "\n")
    for run in set(re.findall(r"\bexample[-\w]*", block.text)):
        shutil.copytree(ROOT / "results" / run, copy / "results" / run)
    if "python3" in block.commands:  # which would change this environment
        subprocess.run([sys.executable, "-m", "venv", copy / ".venv"], check=True, timeout=400)
    elif "make" not in block.commands:
        (copy / ".venv").symlink_to(sys.prefix)


def script(block: Block, port: int, pid: int) -> str:
    """Return the block as a program of bash that ends with an error at the first failure."""
    parts = [HEAD]
    for line in block.lines:
        command = command_of(line)
        short = _with(line, command, port).replace("PID", str(pid))
        short = short.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        short = short.replace("workers=1..16", "workers=1..6")
        if command in ENDLESS:
            parts.append(f"until_ready '{ENDLESS[command]}' {shlex.quote(short)}")
        else:
            allowed = f"0 {DISTURBED[command]}" if command in DISTURBED else "0"
            parts.append(f"{short}\ncheck '{allowed}' {shlex.quote(short)}")
    return "\n".join([*parts, "end_all"]) + "\n"


def _with(line: str, command: str, port: int) -> str:
    """Add arguments to a command that make it shorter, or let it run beside others."""
    added = [SHORT[command]] if command in SHORT and "requests=" not in line else []
    if command == "run_server":
        added = [f"port={port}"]
    if not added or added[0].partition("=")[0] + "=" in line:
        return line
    words = line.split(" ")
    place = next(n for n, word in enumerate(words) if command in word)
    quote = words[place][-1] if words[place][-1] == "'" else ""
    glue = "," if ":" in words[place] else ":"
    words[place] = words[place].removesuffix(quote) + glue + added[0] + quote
    return " ".join(words)


HEAD = """\
check() {
    local code=$?
    case " $1 " in *" $code "*) ;; *) echo "exit code $code of: $2" >&2; end_all; exit 1 ;; esac
}
running=()
until_ready() {  # start what ends with Ctrl-C, and wait until its output has the words $1
    local output
    output=$(mktemp -p .)
    set -m
    eval "$2" >"$output" 2>&1 &
    running+=($!)
    for _ in {1..600}; do
        grep -q "$1" "$output" && return
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    echo "not ready: $2: $(cat "$output")" >&2
    end_all
    exit 1
}
end_all() {
    local each code
    for each in "${running[@]}"; do
        kill -INT -- "-$each" 2>/dev/null
        wait "$each"
        code=$?
        case $code in 0|130) ;; *) echo "exit code $code after Ctrl-C" >&2; exit 1 ;; esac
    done
    running=()
}
"""
