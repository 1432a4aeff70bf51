"""The reported memory is what a process tree occupies: shared pages count once."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from offload.engine import server
from offload.engine.processes import MIB, ProcessTree
from offload.suites import Case

pytestmark = pytest.mark.server
PAGE = os.sysconf("SC_PAGE_SIZE")
PRESENT, FRAME = 1 << 63, (1 << 55) - 1
FORKED = Case("processes", "noop_sync", settings={"workers": 6, "start_method": "fork"})


def frames(pid: int) -> Iterator[int]:
    """Return the physical pages of a process; only root may read them (proc(5), pagemap)."""
    folder = Path(f"/proc/{pid}")
    with (folder / "maps").open() as maps, (folder / "pagemap").open("rb", 0) as pagemap:
        for line in maps:
            low, high = (int(word, 16) for word in line.split()[0].split("-"))
            pagemap.seek(low // PAGE * 8)
            data = pagemap.read((high - low) // PAGE * 8)
            for (entry,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
                if entry & PRESENT and entry & FRAME:
                    yield entry & FRAME


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the pagemap")
def test_pss_of_a_fork_pool_is_its_distinct_physical_pages() -> None:
    running = server.start(FORKED, {})
    try:
        tree = ProcessTree(running.process.pid)
        reported = tree.memory()
        pages = {frame for process in tree.members for frame in frames(process.pid)}
    finally:
        server.stop(running)
    distinct_mib = len(pages) * PAGE / MIB
    assert reported["memory_pss_mib"] == pytest.approx(distinct_mib, rel=0.25)
    assert reported["memory_rss_mib"] > 2 * distinct_mib
