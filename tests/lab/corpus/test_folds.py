"""The folds follow from the seeded hash of the frozen list, and contain every function once."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from lab import corpus

FROZEN = {
    corpus.FUNCTIONS: "3659e7886ba78f726b230d1374e65b544995dbf8c2512d19f83b3dde27a5395e",
    corpus.SECOND_LIST: "c67c233c4483c160b224e079e23e805d409b2c2125ee827c26e627b087af5aec",
    corpus.THIRD_LIST: "33da8d46866d6c8d1333c45e501e3fdcb790ca5e6dc5885869e0accdb9d62c81",
}


def test_the_lists_are_those_from_which_the_folds_were_drawn() -> None:
    assert FROZEN.keys() == corpus.FOLDS_PER_LIST.keys()
    for functions, digest in FROZEN.items():
        assert hashlib.sha256("\n".join(functions).encode()).hexdigest() == digest


def test_the_folds_are_the_smallest_hashes() -> None:
    drawn = [corpus.draw_folds(*each) for each in corpus.FOLDS_PER_LIST.items()]
    assert tuple(fold for folds in drawn for fold in folds) == corpus.FOLDS
    assert [len(set(fold)) for fold in corpus.FOLDS] == [10, 10, 10, 10, 10]


def test_every_listed_function_exists_and_every_function_is_listed() -> None:
    listed = [name for functions in corpus.FOLDS_PER_LIST for name in functions]
    assert sorted(map(corpus.task_name, listed)) == sorted(corpus.entries())


def test_functions_that_are_in_no_fold_are_the_tuning_set() -> None:
    held_out = {name for fold in corpus.FOLDS for name in fold}
    assert not held_out & set(corpus.tuning_set())
    assert len(corpus.tuning_set()) == sum(map(len, corpus.FOLDS_PER_LIST)) - 50


def test_at_least_28_functions_use_packages_and_66_exist() -> None:
    needy = [name for name, entry in corpus.entries().items() if entry.packages]
    assert len(needy) >= 28
    assert len(corpus.FUNCTIONS) >= 66


def test_the_list_imports_no_function() -> None:
    code = "import sys, lab.corpus; print([m for m in sys.modules if 'corpus.' in m])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert ran.stdout == "[]\n", ran.stderr


def test_the_short_functions_belong_to_the_tuning_set() -> None:
    assert {*corpus.SHORT_CALLS} <= {*corpus.tuning_set()}
