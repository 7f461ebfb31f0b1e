# SPDX-License-Identifier: Apache-2.0
"""Functions of a script in a profile: alone, as one where they read alike, and on the page without their interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heapyard.model.shared import SCRIPT_PLACES
from heapyard.profile.chains import Naming, as_read, owners
from heapyard.profile.page_data import page_data
from heapyard.profile.symbols import frames_of
from heapyard.profile.trace import Module, Snapshot, Trace

# node -> parent, module, offset; 1 stands for the program, whose frames have the symbols below.
TREE = [
    (0, 0, 0),
    (0, 1, 0x10),  # 1 start
    (1, 1, 0x20),  # 2 evaluate
    (2, 0, SCRIPT_PLACES + 1),  # 3 <module>
    (3, 1, 0x20),  # 4 evaluate
    (4, 0, SCRIPT_PLACES + 2),  # 5 build
    (5, 1, 0x30),  # 6 list
    (5, 1, 0x40),  # 7 dict
    (1, 1, 0x50),  # 8 initialise: no script
    (3, 0, SCRIPT_PLACES + 9),  # 9 a place that was not told
]
SIZES = {6: 1000, 7: 3000, 8: 500, 9: 40}  # bytes of the chains that end there
NAMES = {0x10: "start", 0x20: "evaluate", 0x30: "list", 0x40: "dict", 0x50: "initialise"}


@pytest.fixture
def trace() -> Trace:
    tree = np.array(TREE)
    parents = tree[:, 0].tolist()
    whole = dict.fromkeys(range(len(TREE)), 0)
    for node, size in SIZES.items():
        while True:
            whole[node] += size
            if node == 0:
                break
            node = parents[node]
    nodes = np.array(sorted(whole))
    values = np.array([whole[node] for node in sorted(whole)])
    peak = Snapshot("peak", "", 1.0, sum(SIZES.values()), np.array(list(SIZES)), np.array(list(SIZES.values())),
                    np.ones(len(SIZES), int), np.array([3, 4, 0, 0]))
    return Trace(
        Path("x"), {"interval": 1, "rate": 0.05, "page_record": 1, "program": "/bin/x"}, {"interval": 1, "microseconds": 2_000_000},
        True, [Module(0, 0, 0, "", ""), Module(0, 1, 0, "", "/bin/x")], tree[:, 0], tree[:, 1], tree[:, 2],
        np.ones(len(nodes)), nodes, values, values, values, np.zeros((0, 8)), [peak], np.zeros((0, 6), int), [],
        np.zeros((0, 3), int), {"1": {str(at): [(name, "x.c", 1)] for at, name in NAMES.items()}},
        scripts={1: ("<module>", "s.py", 1), 2: ("build", "s.py", 7)},
    )


def test_chains_that_read_alike_are_one(trace: Trace):
    naming = Naming(trace, frames_of(trace))
    [peak] = trace.snapshots
    found = [(chain.bytes, chain.blocks, chain.deviation, [f.function for f in naming.telling(chain.node)])
             for chain in as_read(naming, owners(trace, peak))]
    assert found == [
        (4000, 2, 5.0, ["build", "<module>"]), (500, 1, 0.0, ["initialise", "start"]), (40, 1, 0.0, ["<module>"]),
    ]
    native = Naming(trace, frames_of(trace), native=True)
    assert [chain.bytes for chain in as_read(native, owners(trace, peak))] == [3000, 1000, 500, 40]
    assert naming.frames(9)[0].function == "[function of a script, beyond the collector's limit]"


def shown(trace: Trace, native: bool) -> dict[str, float]:
    """Path of a function on the page, outermost first -> its bytes in the end."""
    import base64

    data = page_data(trace, Naming(trace, frames_of(trace), native))
    unpacked = {name: np.frombuffer(base64.b64decode(data[name]), kind)
                for name, kind in (("parent", "<i4"), ("frame", "<i4"), ("starts", "<u4"), ("values", "<f4"))}
    found = {}
    for node, parent in enumerate(unpacked["parent"].tolist()):
        begin, end = unpacked["starts"][node : node + 2].tolist()
        names, at = [data["names"][unpacked["frame"][node]]], parent
        while at > 0:
            names.append(data["names"][unpacked["frame"][at]])
            at = unpacked["parent"][at]
        if end > begin:
            found[" ".join(names[::-1])] = float(unpacked["values"][end - 1])
    return found


def test_the_page_has_a_script_at_its_root_and_counts_nothing_twice(trace: Trace):
    unnamed = "[function of a script, beyond the collector's limit]"
    assert shown(trace, native=False) == {
        "all": 4540, "start": 500, "start evaluate": 0, "start initialise": 500, "<module>": 4040, "<module> build": 4000,
    }
    whole = shown(trace, native=True)
    assert whole["start"] == 4540 and whole["start evaluate <module> evaluate build dict"] == 3000
    assert whole[f"start evaluate <module> {unnamed}"] == 40
