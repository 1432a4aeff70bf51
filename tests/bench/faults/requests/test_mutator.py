"""Mutants: repeatable, different from each other, and of all kinds."""

from __future__ import annotations

import hashlib
from collections import Counter

from offload.bench.faults.requests import framing, mutator, valid

COUNT = 400


def test_a_seed_and_a_number_give_the_same_bytes() -> None:
    first = [*mutator.mutants(8, 50)]
    assert first == [*mutator.mutants(8, 50)]
    assert first[7] == mutator.mutant(8, 7)
    assert [each.data for each in first] != [each.data for each in mutator.mutants(9, 50)]


def test_the_bytes_are_the_same_in_every_python() -> None:
    digest = hashlib.sha256()
    for each in mutator.mutants(8, 50):
        digest.update(each.data)
    assert digest.hexdigest()[:16] == "2bb25f5a3733bc2c"


def test_each_operation_is_used_and_most_mutants_differ_from_valid_requests() -> None:
    found = [*mutator.mutants(8, COUNT)]
    used = Counter(name for each in found for name in each.operations)
    assert used.keys() == mutator.OPERATIONS.keys()
    assert sum(each.data in valid.REQUESTS for each in found) < COUNT / 10
    assert len({each.data for each in found}) > COUNT * 0.8


def test_mutants_are_valid_tolerable_and_malformed_ones() -> None:
    kinds: Counter[tuple[bool, bool]] = Counter()
    for each in mutator.mutants(8, COUNT):
        for request in framing.read(each.data)[:1]:
            kinds[request.must_refuse, request.is_valid] += 1
    assert all(count > COUNT / 10 for count in kinds.values())
    assert len(kinds) == 3
