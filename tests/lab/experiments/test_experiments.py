"""The experiments print help, reject arguments and exit like the commands."""

from __future__ import annotations

import pytest

from lab.__main__ import experiments
from lab.experiments import live_effect, meter_effect
from offload import prctl
from offload.engine import decisions
from tests.lab.running import lab

MEASURING = ["meter_effect", "protection_effect", "watch_effect"]


@pytest.mark.server
@pytest.mark.parametrize("name", [*MEASURING, "live_effect"])
def test_help_is_the_docstring(name: str) -> None:
    said = lab(name, "--help")
    first = experiments()[name].read_text().partition("\n")[0]
    assert (said.returncode, said.stdout.partition("\n")[0]) == (0, first.removeprefix('"""'))


@pytest.mark.parametrize(
    ("ratio", "noise", "cores", "code"),
    [
        (1.0, 0.01, 0.004, 0),
        (1.0, 0.2, 0.004, 7),  # the interval contains 0.98
        (0.9, 0.01, 0.004, 1),
        (1.0, 0.01, 0.006, 1),
    ],
)
def test_a_noisy_effect_of_the_live_page_is_no_success(
    ratio: float, noise: float, cores: float, code: int
) -> None:
    pairs = [(100.0, 100.0 * ratio * (1 + sign * noise)) for sign in (1, -1) for _ in range(10)]
    assert live_effect.exit_code(decisions.compare_pairs(pairs, alpha=0.05), cores) == code


@pytest.mark.server
@pytest.mark.parametrize("name", MEASURING)
def test_a_wrong_word_is_one_line_with_exit_code_2(name: str) -> None:
    said = lab(name, "nosuch_task")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert said.stderr.startswith("error: no 'nosuch_task' in ")


@pytest.mark.parametrize(("done", "words"), [(0, "no ratio yet"), (3, "ratio 1.0000, 95 %")])
def test_an_interrupted_comparison_reports_the_ratio_so_far(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    done: int,
    words: str,
) -> None:
    pairs = iter([(1.0, 1.0)] * done)

    def pair(*_: object) -> tuple[float, float]:
        for each in pairs:
            return each
        raise KeyboardInterrupt

    monkeypatch.setattr(meter_effect, "_pair", pair)
    monkeypatch.setattr(prctl, "adopt_orphans", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        meter_effect.main([])
    assert f"{done} pairs: {words}" in capsys.readouterr().out
