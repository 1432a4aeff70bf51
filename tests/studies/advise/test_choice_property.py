"""Properties of the choice, whatever was measured."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offload.studies.advise.choice import RESERVE, Choice, choose, dominates
from offload.studies.advise.evidence import LOOPS, POOL, THREADS, Evidence, Latency, Question, Setup
from tests.properties import examples

SETUPS = [
    Setup("loop", LOOPS),
    Setup("prefork", LOOPS, 2),
    *(Setup("threads", THREADS, p, t) for p in (1, 2, 4) for t in (8, 32)),
    Setup("processes", POOL, 1, 8),
    Setup("pipes", POOL, 1, 8),
]
ROUNDS = (0.97, 1.0, 1.03)


@st.composite
def evidence(draw: st.DrawFn, setup: Setup) -> Evidence:
    rate = draw(st.floats(10, 1000))
    p99_s = draw(st.none() | st.floats(0.001, 1.0))
    latencies = () if p99_s is None else (Latency(5.0, 0.99, p99_s, p99_s, p99_s),)
    return Evidence(
        setup,
        {number: rate * factor for number, factor in enumerate(ROUNDS)},
        draw(st.none() | st.floats(10, 500)),
        latencies=latencies,
        problem=draw(st.sampled_from([None, None, None, "it fails"])),
    )


ROWS = st.lists(st.sampled_from(SETUPS), min_size=1, max_size=6, unique=True).flatmap(
    lambda setups: st.tuples(*map(evidence, setups))
)
QUESTIONS = st.builds(
    Question,
    rate=st.none() | st.floats(5, 800),
    p99_s=st.none() | st.floats(0.001, 1.0),
    memory_mib=st.none() | st.floats(20, 400),
    connections=st.none() | st.integers(1, 64),
)


def best(question: Question, rows: tuple[Evidence, ...], blocks_s: float = 0.0) -> Choice | None:
    return choose(question, rows, blocks_s)


@given(ROWS, QUESTIONS, st.sampled_from([0.0, 0.02]))
@examples(300)
def test_no_row_that_was_kept_dominates_the_choice(
    rows: tuple[Evidence, ...], question: Question, blocks_s: float
) -> None:
    found = best(question, rows, blocks_s)
    works = [row for row in rows if row.problem is None]
    assert (found is None) == (not works)
    if found is not None:
        assert found.best in works
        assert not any(dominates(row, found.best) for row in found.rows)
        kept = {row.setup.name for row in found.rows}
        assert kept | found.left_out.keys() == {row.setup.name for row in rows}
        assert not kept & found.left_out.keys()


@given(ROWS, QUESTIONS, st.randoms(use_true_random=False))
@examples(200)
def test_the_order_of_the_rows_does_not_matter(
    rows: tuple[Evidence, ...], question: Question, random: object
) -> None:
    shuffled = [*rows]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = best(question, rows), best(question, tuple(shuffled))
    assert (one and one.best) == (other and other.best)


@given(ROWS, st.floats(5, 800))
@examples(200)
def test_a_required_rate_is_carried_if_any_row_carries_it(
    rows: tuple[Evidence, ...], rate: float
) -> None:
    found = best(Question(rate=rate), rows)
    carrying = [
        row for row in rows if row.problem is None and RESERVE * (row.capacity or 0.0) >= rate
    ]
    if found is not None:
        assert (found.missed == "rate") == (not carrying)
        assert not carrying or found.best in carrying


@given(ROWS, st.floats(20, 400))
@examples(200)
def test_a_memory_limit_is_kept_if_any_row_keeps_it(
    rows: tuple[Evidence, ...], limit_mib: float
) -> None:
    found = best(Question(memory_mib=limit_mib), rows)
    fitting = [row for row in rows if row.problem is None and (row.memory_mib or 1e9) <= limit_mib]
    if found is not None and fitting:
        assert found.best in fitting
