# SPDX-License-Identifier: Apache-2.0
"""Gates and differences: what may pass, what must fail, and how often chance alone is called a change."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.stats.analyse import analyse
from heapyard.stats.difference import changes
from heapyard.stats.gate import gate


def measured(folder: Path, blocks: int = 8, **launch: object):  # type: ignore[no-untyped-def]
    what = experiment(programs=("one",), blocks=blocks)
    with store.create(what, folder) as journal:
        carry_out(what, journal, FakeLaunch(**launch))  # type: ignore[arg-type]
    return store.load_record(journal.folder)


def answers(record, limit: float) -> dict[str, str]:  # type: ignore[no-untyped-def]
    gated = gate(analyse(record.observations), limit=limit, metrics=("wall",))
    return {g.comparison.treatment: g.answer for g in gated}


def test_a_gate_tells_three_answers_apart(tmp_path: Path) -> None:
    quiet = measured(tmp_path, noise=0.002, ratios={"swift": 1.10, "slim": 1.0})
    assert answers(quiet, 0.02) == {"swift": "regression", "slim": "shown not worse"}
    assert answers(quiet, 0.2) == {"swift": "shown not worse", "slim": "shown not worse"}
    noisy = measured(tmp_path, blocks=3, noise=0.2, ratios={"swift": 1.05, "slim": 1.0})
    assert set(answers(noisy, 0.02).values()) == {"not shown"}


def test_where_more_is_better_less_is_the_regression() -> None:
    from heapyard.model.analysis import Interval
    from heapyard.stats.gate import _inverted

    loss = _inverted(Interval(0.8, 0.75, 0.9))
    assert loss.ratio == pytest.approx(1.25) and (loss.low, loss.high) == (pytest.approx(1 / 0.9), pytest.approx(1 / 0.75))


def test_the_verb_has_an_exit_code_and_writes_junit(heapyard, tmp_path: Path) -> None:
    record = measured(tmp_path / "results", noise=0.002, ratios={"swift": 1.10, "slim": 1.0})
    junit = tmp_path / "gate.xml"
    failed = heapyard("gate", record.id, "--metric", "wall", "--junit", str(junit))
    assert failed.code == 1 and "FAIL  swift on one: worse than glibc by more than 2 %" in failed.out
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    passed = heapyard("gate", record.id, "--metric", "wall", "--treatment", "slim", "--json")
    assert passed.code == 0 and json.loads(passed.out)["passed"] is True
    assert heapyard("gate", record.id, "--treatment", "moon").code == 2


def test_strict_asks_for_proof(heapyard, tmp_path: Path) -> None:
    record = measured(tmp_path / "results", blocks=3, noise=0.2)
    assert heapyard("gate", record.id).code == 0
    assert heapyard("gate", record.id, "--strict").code == 1


def test_a_crash_never_passes_a_gate(heapyard, tmp_path: Path) -> None:
    fault = {("one", "swift"): {"status": "failed", "failure": "signal", "reason": "it crashed"}}
    record = measured(tmp_path / "results", faults=fault)
    said = heapyard("gate", record.id)
    assert said.code == 1 and "FAIL  swift on one" in said.out and "it crashed" in said.out


def test_a_real_change_is_found_and_no_change_is_the_same(tmp_path: Path) -> None:
    before = measured(tmp_path, blocks=12, noise=0.004, ratios={"swift": 0.90, "slim": 1.2}, seed=1)
    after = measured(tmp_path, blocks=12, noise=0.004, ratios={"swift": 0.97, "slim": 1.2}, seed=2)
    found = {c.treatment: c for c in changes(before.observations, after.observations, ("wall",))}
    assert found["swift"].verdict == "changed" and found["slim"].verdict == "same"
    assert found["swift"].change.ratio == pytest.approx(0.97 / 0.90, rel=0.02)
    assert found["swift"].before.ratio == pytest.approx(0.9, rel=0.02)


def test_chance_is_seldom_called_a_change(tmp_path: Path) -> None:
    """Forty pairs of equal experiments; at 5 % for both treatments together 2 are expected, 6 is beyond 99 %."""
    false = 0
    for seed in range(40):
        pair = [measured(tmp_path, blocks=6, noise=0.02, seed=2 * seed + k).observations for k in (0, 1)]
        false += any(c.verdict == "changed" for c in changes(*pair, ("wall",)))
    assert false <= 6


def test_the_verb_says_what_else_is_not_the_same(heapyard, tmp_path: Path) -> None:
    first, second = (measured(tmp_path / "results", noise=0.002, ratios={"slim": r}) for r in (1.0, 1.3))
    said = heapyard("diff", first.id, second.id, "--metric", "wall")
    assert said.code == 0 and "changed: slim on one" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    other = json.loads(heapyard("diff", first.id, second.id, "--json").out)
    assert {c["treatment"] for c in other["changes"]} == {"swift", "slim"} and isinstance(other["other"], list)


def test_nothing_in_common_is_one_sentence(heapyard, two: list[str], tmp_path: Path) -> None:
    first = measured(tmp_path / "results")
    heapyard("compare", *two, "--blocks", "2", "--", "true")
    said = heapyard("diff", first.id)
    assert said.code == 4 and "in common" in said.err
