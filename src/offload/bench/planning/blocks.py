"""Blocks: groups of cases that are compared, and whose servers run at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from offload.registry import catalog
from offload.suites import Case

MOST = 8  # in a block: more servers at once fill the memory of a small machine
MOST_WORKERS = 64  # of all servers in a block; a block of only two cases may have more
WORKERS = 4  # the default number of workers of a server
Pair = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """The `cases` of a block and the `pairs` that are compared, as indexes of the plan's cases.

    The ratio of a pair is its second case over its first. A block without pairs measures rates.
    With `apart` its servers run one after the other, to measure their memory: servers that run at
    the same time share pages, so the memory of each is unknown.
    """

    cases: tuple[int, ...]
    pairs: tuple[Pair, ...] = ()
    apart: bool = False


def form(
    cases: Sequence[Case],
    pairs: Iterable[tuple[Case, Case]] = (),
    apart: Iterable[tuple[Case, Case]] = (),
) -> tuple[Block, ...]:
    """Divide cases into blocks, in the order of their first cases.

    Cases with the same task and request form a group, and so do both cases of each of `pairs`.
    Pairs with a case that is not in `cases` are ignored. A group of more than MOST cases or
    MOST_WORKERS workers is divided into blocks that all contain its first case; if that separates a
    pair, the pair has an additional block.
    Each pair of `apart`, whose memory is compared, also has an additional block.
    """
    places = {_identity(case): place for place, case in enumerate(cases)}
    given = _places_of_pairs(places, pairs)
    wanted = list(dict.fromkeys([*given, *_executor_pairs(cases), *_python_pairs(cases)]))
    groups = _groups(cases, wanted)
    sizes = [workers(case) for case in cases]
    blocks = [block for group in groups for block in _blocks(group, wanted, sizes)]
    by_memory = dict.fromkeys(_places_of_pairs(places, apart))
    return (*blocks, *(Block(pair, (pair,), apart=True) for pair in by_memory))


def workers(case: Case) -> int:
    """Return the number of workers of a case's server, in all its processes."""
    size = catalog.find_server(case.server).size
    processes = case.settings.get("processes", 1) if size == "workers" else 1
    return int(str(processes)) * int(str(case.settings.get(size or "", WORKERS)))


def _places_of_pairs(
    places: Mapping[tuple[object, ...], int], pairs: Iterable[tuple[Case, Case]]
) -> list[Pair]:
    """Return the places of both cases of each pair; omit pairs with an unknown case."""
    found = [(places.get(_identity(one)), places.get(_identity(other))) for one, other in pairs]
    return [(a, b) for a, b in found if a is not None and b is not None and a != b]


def _executor_pairs(cases: Sequence[Case]) -> list[Pair]:
    """Return the pairs of threads and processes with the same task, load and settings."""
    threads = {_load(case): n for n, case in enumerate(cases) if case.server == "threads"}
    return [
        (threads[_load(case)], n)
        for n, case in enumerate(cases)
        if case.server == "processes" and _load(case) in threads
    ]


def _python_pairs(cases: Sequence[Case]) -> list[Pair]:
    """Return the pairs of the same case in its first Python and in each other one."""
    first: dict[tuple[object, ...], int] = {}
    pairs = [
        (first.setdefault(_identity(replace(case, python=None)), n), n)
        for n, case in enumerate(cases)
    ]
    return [(one, other) for one, other in pairs if cases[one].python != cases[other].python]


def _groups(cases: Sequence[Case], pairs: Sequence[Pair]) -> list[list[int]]:
    """Return the groups of cases, as places: cases connected by a pair or by the same work."""
    first: dict[tuple[object, ...], int] = {}
    same_work = [(first.setdefault(_work(case), n), n) for n, case in enumerate(cases)]
    group_of = [*range(len(cases))]
    for one, other in (*same_work, *pairs):
        low, high = sorted((group_of[one], group_of[other]))
        if low != high:
            group_of = [low if group == high else group for group in group_of]
    groups: dict[int, list[int]] = {}
    for place, group in enumerate(group_of):
        groups.setdefault(group, []).append(place)
    return [*groups.values()]


def _blocks(group: Sequence[int], wanted: Sequence[Pair], sizes: Sequence[int]) -> list[Block]:
    """Return the blocks of a group; `sizes` are the numbers of workers of all cases."""
    own = [pair for pair in wanted if pair[0] in group]
    parts = [list(group)] if _fits(group, sizes) else _divide(group, own, sizes)
    together = [pair for pair in own if any({*pair} <= {*part} for part in parts)]
    blocks = [
        Block(tuple(part), tuple(pair for pair in together if {*pair} <= {*part})) for part in parts
    ]
    return blocks + [Block(pair, (pair,)) for pair in own if pair not in together]


def _fits(part: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the servers of these cases may run at the same time."""
    all_workers = sum(sizes[place] for place in part)
    return len(part) <= MOST and (all_workers <= MOST_WORKERS or len(part) <= 2)


def _divide(group: Sequence[int], pairs: Sequence[Pair], sizes: Sequence[int]) -> list[list[int]]:
    """Divide a group into parts that all have its first case; pairs stay together if they fit."""
    first = group[0]
    parts = [[first]]
    for place in group[1:]:
        if any(place in part for part in parts):
            continue
        partners = [other for pair in pairs if place in pair for other in pair]
        new = [n for n in dict.fromkeys([place, *partners]) if not any(n in p for p in parts)]
        if not _fits([*parts[-1], *new], sizes):
            parts.append([first])
        for each in new:
            if not _fits([*parts[-1], each], sizes):
                parts.append([first])
            parts[-1].append(each)
    return parts


def _work(case: Case) -> tuple[object, ...]:
    return (case.task, case.path, str(case.request))


def _load(case: Case) -> tuple[object, ...]:
    settings = tuple(sorted((key, str(value)) for key, value in case.settings.items()))
    return (_work(case), case.users, case.keep_alive, case.python, settings)


def _identity(case: Case) -> tuple[object, ...]:
    return (*case.key, case.clients)
