"""Chaos: tasks of every kind while workers and the fork server are killed, stopped and continued.

Every task must end with an outcome of its kind and have its effects, and nothing may be left.
`CHAOS=300` sets how many seconds it takes in all surroundings together, `SEED=1` repeats its
decisions.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from pool_tests.chaos import ENDING
from pool_tests.helpers import ENVIRONMENT, SOURCE, TESTS
from pool_tests.surroundings import SMALL, served_manager, write_shadows

pytestmark = pytest.mark.server  # starts worker processes

SECONDS = float(os.environ.get("CHAOS", "60"))
GROWTH = 48 << 20  # bytes that the memory of the application may vary by

# How a shell starts the program; "0<&-" closes its stdin.
SURROUNDINGS = {
    "usual": 'exec "$@"',
    "closed streams": 'exec "$@" 0<&- >&- 2>&-',
    "few files": 'ulimit -n 64; exec "$@"',
    "small files": 'ulimit -f 2048; exec "$@"',  # blocks of 512 bytes
    "little memory": 'ulimit -v 1000000; exec "$@"',  # KiB
    "shadowed modules": 'exec "$@"',
}
LIMITED = ("small files", "little memory")
SCRIPT = """
import os, sys
others = [each for each in sys.path if not os.path.exists(each + "/pipepool/__init__.py")]
sys.path[:] = [*others, {site!r}]
if __name__ == "__main__":
    from pool_tests.chaos import main
    main()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_every_task_ends_in_chaos(surroundings: str, tmp_path: Path) -> None:
    site = SOURCE
    if surroundings == "shadowed modules":
        site = tmp_path / "site-packages"
        shutil.copytree(SOURCE / "pipepool", site / "pipepool")
        write_shadows(site)
    script, output = tmp_path / "script.py", tmp_path / "output"
    script.write_text(SCRIPT.format(site=str(site)))
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1, 2**32)
    seconds = SECONDS / len(SURROUNDINGS)
    arguments = [sys.executable, str(script), f"{seconds:g}", str(seed), str(tmp_path)]
    if surroundings in LIMITED:
        arguments.append(str(SMALL))
    command = ["sh", "-c", SURROUNDINGS[surroundings], "sh", *arguments]
    with served_manager(), output.open("wb") as file:
        environment = {**ENVIRONMENT, "MANAGER": os.environ["MANAGER"], "PYTHONPATH": str(TESTS)}
        environment.pop("PYTHONUNBUFFERED", None)
        try:
            done = subprocess.run(
                command, stdout=file, stderr=file, env=environment, timeout=seconds + ENDING
            )
        finally:
            print(f"SEED={seed} CHAOS={SECONDS:g}")
            print(output.read_bytes()[-3000:].decode(errors="replace"))
    assert done.returncode == 0
    report = json.loads((tmp_path / "report").read_text())
    print(*report["outcomes"].items(), sep="\n")
    printed = {int(each) for each in re.findall(rb"<(\d+)>", output.read_bytes())}
    lost = {*report["printed"]} - printed
    if lost and surroundings != "closed streams":
        report["wrong"].append(
            f"what {len(lost)} of {len(report['printed'])} tasks printed is lost"
        )
    assert not report["wrong"], "\n".join(report["wrong"])
    assert report["outcomes"]["echo: right"] > 0
    assert report["outcomes"]["results before a C call"] > 0
    half = len(report["memory"]) // 2
    if half > 20:
        early, late = map(statistics.median, (report["memory"][:half], report["memory"][half:]))
        assert late < early + GROWTH  # single readings depend on what is sent at that moment
