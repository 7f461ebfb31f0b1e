# SPDX-License-Identifier: Apache-2.0
"""netbuild: its nets are those of a search of all pairs, its objects those that the report counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import pytest
from mutator_runs import Random, logged, measure, run

KINDS = ("shape", "element", "net", "member", "cursor", "stop", "node", "endpoint", "probe", "hit")
BYTES = dict(zip(KINDS, (48, 32, 40, 24, 32, 32, 64, 32, 32, 16), strict=True))


@dataclass(frozen=True)
class Shape:
    x1: int
    y1: int
    x2: int
    y2: int
    layer: int

    def connects(self, other: Shape) -> bool:
        return (
            abs(self.layer - other.layer) <= 1
            and self.x1 < other.x2 and other.x1 < self.x2
            and self.y1 < other.y2 and other.y1 < self.y2
        )


def shapes_of(count: int, layers: int, spread: int, seed: int) -> list[Shape]:
    random = Random(seed, 0)
    side = isqrt(count * spread * spread) + 1
    found = []
    for i in range(count):
        x, y = random.between(0, side - 1), random.between(0, side - 1)
        width, height = random.between(1, 8), random.between(1, 8)
        found.append(Shape(x, y, x + width, y + height, i % layers))
    return found


def overlaps(shapes: list[Shape]) -> list[tuple[int, int]]:
    return [(i, j) for i, a in enumerate(shapes) for j in range(i) if a.connects(shapes[j])]


def net_sizes(shapes: list[Shape]) -> list[int]:
    beside = defaultdict(list)
    for i, j in overlaps(shapes):
        beside[i].append(j)
        beside[j].append(i)
    seen: set[int] = set()
    sizes = []
    for start in range(len(shapes)):
        if start in seen:
            continue
        front, size = [start], 0
        seen.add(start)
        while front:
            at = front.pop()
            size += 1
            front += (fresh := [n for n in dict.fromkeys(beside[at]) if n not in seen])
            seen.update(fresh)
        sizes.append(size)
    return sizes


@pytest.mark.parametrize("count, layers, spread, seed", [
    (1, 1, 1, 1), (40, 1, 1, 2), (700, 7, 4, 1), (700, 3, 1, 9), (900, 2, 2, 3), (500, 64, 1, 4), (600, 7, 20, 5),
])
def test_nets_are_those_of_all_pairs(count: int, layers: int, spread: int, seed: int) -> None:
    given = f"--shapes {count} --layers {layers} --spread {spread} --seed {seed} --tasks 3 -n 2".split()
    counts = measure("netbuild", *given)["counts"]
    sizes = net_sizes(shapes_of(count, layers, spread, seed))
    assert counts["nets"] == 3 * len(sizes)
    assert counts["net_size_squares"] == 3 * sum(size * size for size in sizes)


def test_every_rectangle_has_one_object_of_each_kind_and_a_hit_per_overlap(tmp_path: Path) -> None:
    log = logged(tmp_path, "netbuild", *"--shapes 600 --tasks 2 -n 2".split())
    expected = Counter({(index, kind): 1 for index in range(600) for kind in KINDS if kind != "hit"})
    shapes = shapes_of(600, 7, 4, 1)
    hits = len(overlaps(shapes))
    assert set(log) == {0, 1} and log[0] == log[1]  # tasks are alike
    made: Counter[tuple[int, str]] = Counter()
    released: Counter[tuple[int, str]] = Counter()
    for operation in log[0]:
        index, kind = divmod(operation.object, len(KINDS))
        if operation.call == "malloc":
            assert operation.size == BYTES[KINDS[kind]]
            made[index, KINDS[kind]] += 1
        else:
            assert operation.call == "free"
            released[index, KINDS[kind]] += 1
    assert made == released
    assert Counter({key: n for key, n in made.items() if key[1] != "hit"}) == expected
    assert sum(n for (_, kind), n in made.items() if kind == "hit") == hits


def test_about_ten_pairs_per_rectangle_in_16_to_64_bytes() -> None:
    counts = measure("netbuild", "--shapes", "50000")["counts"]
    assert 9 <= counts["allocations"] / 50000 <= 11
    assert min(BYTES.values()) == 16 and max(BYTES.values()) == 64


def test_the_input_lives_to_the_end_and_goes_last(tmp_path: Path) -> None:
    operations = logged(tmp_path, "netbuild", "--shapes", "300")[0]
    assert [divmod(o.object, len(KINDS)) for o in operations[:300]] == [(i, 0) for i in range(300)]
    assert all(o.call == "free" and o.object % len(KINDS) == 0 for o in operations[-300:])


def test_more_threads_than_tasks_do_no_more_work() -> None:
    few = measure("netbuild", *"--shapes 200 --tasks 3 -n 1".split())["counts"]
    many = measure("netbuild", *"--shapes 200 --tasks 3 -n 8".split())["counts"]
    assert few["operations"] == many["operations"]


def test_layers_are_bounded() -> None:
    done = run("netbuild", "--layers", "65")
    assert done.returncode == 2 and "option --layers (-l) must be a whole number from 1 to 64, not '65'" in done.stderr
