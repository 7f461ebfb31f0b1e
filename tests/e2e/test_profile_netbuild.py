# SPDX-License-Identifier: Apache-2.0
"""BFM's report, Figure 14, from our own trace of netbuild: the input stays to the end, the nets grow linearly and go before it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from profiled import only, program, traced

from heapyard.catalog.allocators import find_allocators
from heapyard.profile.chains import Naming
from heapyard.profile.exports import csv as table
from heapyard.profile.instants import at_instant
from heapyard.profile.symbols import frames_of


def test_the_two_main_contributors_of_netbuild(tmp_path: Path):
    [bfm] = find_allocators(["bfm"])
    run = traced(tmp_path, program("netbuild"), "--shapes", 400_000, mode="pages", library=bfm.library)
    trace = only(run)
    text = table.render(trace, Naming(trace, frames_of(trace)), at_instant(trace, "peak")).decode()
    rows = np.array(list(csv.reader(text.splitlines()[1:])), float)
    seconds, given, rest = rows[:, 0], rows[:, 3], rows[:, 4:].sum(axis=1)
    peak = at_instant(trace, "peak").time
    # The input: made before the first net, there after the last one. Told by order: a process may wait at any place.
    there = given > 0.99 * given.max()
    first, last = np.flatnonzero(there)[[0, -1]]
    assert there[first : last + 1].all() and seconds[first] < peak < seconds[last]
    # Forming of nets: nothing until the scanline begins, then all the way up to the peak, and gone before the input.
    grows = (rest > 0.05 * rest.max()) & (seconds <= peak)
    assert seconds[np.flatnonzero(grows)[0]] > seconds[first]
    assert (np.diff(rest[grows]) >= -0.05 * rest.max()).all() and np.count_nonzero(np.diff(rest[grows])) > 10
    assert rest[first] < 0.05 * rest.max() and rest[last] < 0.05 * rest.max() and rest.max() > 0.5 * given.max()
    # The report's netbuild: just under 100 million events in 16 kB, 20 call chains.
    assert trace.path.stat().st_size < 64 << 10
    assert trace.end["events"] < 0.02 * 2 * 400_000 * 10
