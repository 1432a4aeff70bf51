"""Shell completion: the scripts that shells load, and the words for a command line.

The scripts of Invoke complete only names of commands: they do not pass the colon of `run_server:3`
as it was typed, or whether a space follows a word. Our scripts pass the whole line up to the
cursor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from offload import studies
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
FLAGS = ("--help", "--list", "--version")
Parameters = Mapping[str, type]  # bool or str by the name of an option
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(line: str, commands: Mapping[str, Parameters]) -> list[str]:
    """Return the completions of the last word of a line, whose first word is the program.

    >>> candidates("fab run_server:3,sleep_short_", {"run_server": {"server": str, "task": str}})
    ['run_server:3,sleep_short_sync']
    """
    *before, word = line.split(" ")
    words = [each for each in before[1:] if each]
    named = [each.partition(":")[0].replace("-", "_") for each in words if not each.startswith("-")]
    command = next((name for name in reversed(named) if name in commands), None)
    option = words[-1].lstrip("-").replace("-", "_") if words and words[-1][:2] == "--" else ""
    with contextlib.suppress(UserError):  # a file cannot be read
        if word.startswith("-"):
            return _matching(FLAGS if command is None else map(_flag, commands[command]), word)
        if command and commands[command].get(option) is str:
            return _matching(_values(command, commands[command], option, word), word)
        name, colon, values = word.partition(":")
        if (parameters := commands.get(name.replace("-", "_"))) is not None and colon:
            found = _arguments(name.replace("-", "_"), values, parameters)
            return _matching((f"{name}:{each}" for each in found), word)
        found = _after(command, words, word, commands[command]) if command else []
        return _matching([*found, *sorted(commands)], word)
    return []


def _after(command: str, words: Sequence[str], word: str, parameters: Parameters) -> list[str]:
    """Return the completions of a word after `command` and others, such as `run_server 3 sl`."""
    own = [each for each in words if not each.startswith("-")]
    names = [each.partition(":")[0].replace("-", "_") for each in own]
    last = max(number for number, name in enumerate(names) if name == command)
    given = [*filter(None, own[last].partition(":")[2].split(",")), *own[last + 1 :], word]
    found = _arguments(command, ",".join(given), parameters)
    return [each.rpartition(",")[2] for each in found]


def _flag(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def _matching(words: Iterable[str], start: str) -> list[str]:
    return [word for word in words if word.startswith(start)]


def _arguments(command: str, text: str, parameters: Parameters) -> list[str]:
    """Return the completions of the last argument in `text`, each after the others."""
    *given, part = text.split(",")
    start = "".join(f"{each}," for each in given)
    name, equals, _ = part.partition("=")
    if equals:
        return [f"{start}{name}={each}" for each in _values(command, parameters, name, part)]
    used = {each.partition("=")[0] for each in given if "=" in each}
    names = list(parameters)[len(given) - len(used) :]  # the others are given by their position
    positional = names[0] if names and not used else ""  # none may follow a name
    return [
        *(start + each for each in _values(command, parameters, positional, part)),
        *(f"{start}{each}=" for each in names if each not in used),
    ]


def _values(command: str, parameters: Parameters, name: str, text: str) -> Sequence[str]:
    """Return the possible values of a command's parameter; `text` is its start, as typed."""
    if parameters.get(name) is bool:
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
    from offload.studies.advise import handlers

    return handlers.names()


def _formats(command: str) -> Sequence[str]:
    if command == "report":
        from offload.options import REPORT_FORMATS

        return REPORT_FORMATS
    if command == "resume":
        return studies.formats()
    known = studies.commands()
    return known[command].formats if command in known else ("text", "json")


def _runs() -> list[str]:
    from offload.engine import journal

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
