# SPDX-License-Identifier: Apache-2.0
"""Changes of level in a history: found where they are, seldom where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_gate_and_diff import measured

from heapyard.stats.change_points import change_points


def test_a_step_is_found_where_it_is() -> None:
    draw = np.random.default_rng(2)
    y = np.concatenate([draw.normal(0, 0.01, 12), draw.normal(0.05, 0.01, 9)])
    (found,) = change_points(y)
    assert found.at == 12 and found.p <= 0.01
    assert found.before == pytest.approx(0, abs=0.01) and found.after == pytest.approx(0.05, abs=0.01)


def test_several_steps_are_told_apart() -> None:
    draw = np.random.default_rng(3)
    y = np.concatenate([draw.normal(level, 0.01, 15) for level in (0.0, 0.1, 0.05)])
    assert [c.at for c in change_points(y)] == [15, 30]


@pytest.mark.parametrize("law", ["normal", "lognormal", "bimodal"])
def test_false_alarms_are_rare(law: str) -> None:
    """At 1 % two hundred quiet histories give two; nine is beyond 99.98 %."""
    draw = np.random.default_rng(4)
    laws = {
        "normal": lambda n: draw.normal(size=n),
        "lognormal": lambda n: draw.lognormal(sigma=1, size=n),
        "bimodal": lambda n: draw.choice([0.0, 1.0], n) + draw.normal(0, 0.1, n),
    }
    alarms = sum(bool(change_points(laws[law](int(draw.integers(6, 30))), seed=i)) for i in range(200))
    assert alarms <= 8


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 5, [1.0] * 20])
def test_too_little_or_nothing_that_varies_is_no_change(values: list[float]) -> None:
    assert change_points(values) == []


def test_the_verb_names_the_experiment_from_which_on_it_is_another(heapyard, tmp_path: Path) -> None:
    for seed in range(12):
        ratio = 1.0 if seed < 6 else 1.08
        last = measured(tmp_path / "results", blocks=4, noise=0.004, ratios={"swift": 0.9, "slim": ratio}, seed=seed)
    said = heapyard("history", "--metric", "wall")
    assert said.code == 0, said.err
    assert "12 experiments, 1 of 2 ratios changed" in said.out and "changed by +8" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    tracks = {t["treatment"]: t for t in json.loads(heapyard("history", last.id, "--json", "--metric", "wall").out)}
    assert [c["at"] for c in tracks["slim"]["changes"]] == [6] and tracks["swift"]["changes"] == []
    assert tracks["slim"]["points"][-1]["experiment"] == last.id
    assert heapyard("history", "--treatment", "moon").code == 2
