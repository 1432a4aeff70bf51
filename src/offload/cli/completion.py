"""Shell completion: the scripts that shells load, and the words for a command line.

The scripts of Invoke complete only names of commands: they do not pass the colon of `run_server:3`
as it was typed, or whether a space follows a word. Our scripts pass the whole line up to the
cursor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from offload.cli.syntax import Defaults
from offload.errors import UserError
from offload.registry import catalog

BASH = """\
_offload_complete() {
    local line=${COMP_LINE:0:COMP_POINT} IFS=$'\\n'
    local word=${line##* }
    local kept=${word%"${word##*[$COMP_WORDBREAKS]}"}  # bash replaces only what follows a : or =
    COMPREPLY=($("$1" --complete -- "$line" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}
complete -o default -o nospace -F _offload_complete fab offload
"""
ZSH = """\
_offload_complete() {
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    local found=(${(f)"$($words[1] --complete -- $line 2>/dev/null)"})
    if (( $#found )); then compadd -Q -S '' -- $found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _offload_complete fab offload
"""
FISH = """\
function __offload_complete
    set -l words (commandline -opc)
    set -l found ($words[1] --complete -- (commandline -cp) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command fab --no-files --arguments '(__offload_complete)'
complete --command offload --no-files --arguments '(__offload_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(line: str, commands: Mapping[str, Defaults], core: Iterable[str]) -> list[str]:
    """Return the completions of the last word of a line, whose first word is the program.

    >>> candidates("fab run_server:3,sleep_short_", {"run_server": {"server": "", "task": ""}}, [])
    ['run_server:3,sleep_short_sync']
    """
    *before, word = line.split(" ")
    words = [each for each in before[1:] if each]
    named = [each.partition(":")[0].replace("-", "_") for each in words if not each.startswith("-")]
    command = next((name for name in reversed(named) if name in commands), None)
    option = words[-1].lstrip("-").replace("-", "_") if words and words[-1][:2] == "--" else ""
    with contextlib.suppress(UserError):  # a file cannot be read
        if word.startswith("-"):
            flags = core if command is None else map(_flag, commands[command])
            return _matching(flags, word)
        if command and isinstance(commands[command].get(option), str):
            return _matching(_values(command, commands[command], option, word), word)
        name, colon, values = word.partition(":")
        if not colon:
            return _matching(sorted(commands), word)
        if (parameters := commands.get(name.replace("-", "_"))) is not None:
            return _matching(_arguments(name, values, parameters), word)
    return []


def _flag(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def _matching(words: Iterable[str], start: str) -> list[str]:
    return [word for word in words if word.startswith(start)]


def _arguments(command: str, text: str, parameters: Defaults) -> list[str]:
    """Return the completions of the last argument in `command:text`, each as the whole word."""
    *given, part = text.split(",")
    start = ",".join([f"{command}:{given[0]}", *given[1:]]) + "," if given else f"{command}:"
    name, equals, value = part.partition("=")
    own = command.replace("-", "_")
    if equals:
        return [f"{start}{name}={each}" for each in _values(own, parameters, name, value)]
    used = {each.partition("=")[0] for each in given if "=" in each}
    names = list(parameters)[len(given) - len(used) :]  # the others are given by their position
    positional = names[0] if names and not used else ""  # none may follow a name
    return [
        *(start + each for each in _values(own, parameters, positional, part)),
        *(f"{start}{each}=" for each in names if each not in used),
    ]


def _values(command: str, parameters: Defaults, name: str, text: str) -> Sequence[str]:
    """Return the possible values of a command's parameter; `text` is its start, as typed."""
    if isinstance(parameters.get(name), bool):
        return ("yes", "no")
    if name in ("case", "one", "other"):
        server, slash, _ = text.partition("/")
        tasks = [f"{server}/{task}" for task in catalog.tasks()]
        return tasks if slash else [f"{each}/" for each in _servers()]
    if name == "format":
        return _formats(command)
    return KNOWN[name]() if name in KNOWN else ()


def _servers() -> list[str]:
    entries = catalog.servers().values()
    numbers = [str(entry.number) for entry in entries if entry.number is not None]
    return [*numbers, *(word for entry in entries for word in (entry.name, *entry.also))]


def _frameworks() -> list[str]:
    from offload.reports.advice import handlers

    return handlers.names()


def _formats(command: str) -> Sequence[str]:
    if command == "report":
        from offload.cli import run_reports

        return run_reports.FORMATS
    if command in ("compare_runs", "resume"):
        from offload.reports.gate import formats

        return [*formats.FORMATS]
    return ("text", "json")


def _runs() -> list[str]:
    from offload.bench.records import journal

    return sorted(folder.name for folder in journal.folders())


KNOWN: Mapping[str, Callable[[], Sequence[str]]] = {
    "server": _servers,
    "task": lambda: list(catalog.tasks()),
    "driver": lambda: list(catalog.drivers()),
    "suite": lambda: [*catalog.suites(), "all"],
    "run": _runs,
    "code": _frameworks,
    "shell": lambda: list(SCRIPTS),
}
