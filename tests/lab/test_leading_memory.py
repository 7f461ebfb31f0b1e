# SPDX-License-Identifier: Apache-2.0
"""Which response of memory leads: charged memory, and in experiments from before it peak RSS; like with like."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_stats_analyse import BASE, observe
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.model.experiment import Settings
from heapyard.model.leading import CHARGED, GROUP_CHARGED, PEAK_RSS, leading_memory
from heapyard.model.metrics import METRICS, PRIMARY_MEMORY
from heapyard.model.observations import Observation
from heapyard.report.json_answer import answer
from heapyard.stats.analyse import analyse

TITLES = {name: METRICS[name].title for name in (CHARGED, PEAK_RSS)}


class Launch(FakeLaunch):
    """With charged memory, as trials have it now."""

    def __call__(self, *arguments, **more):  # type: ignore[no-untyped-def]
        found = super().__call__(*arguments, **more)
        return replace(found, metrics=found.metrics | {CHARGED: 2e7, "charged_error": 4096.0})


def measured(folder: Path, launch: type[FakeLaunch], memory: str = PRIMARY_MEMORY):  # type: ignore[no-untyped-def]
    what = experiment(programs=("one",), blocks=4)
    what = replace(what, settings=replace(what.settings, memory_metric=memory))
    with store.create(what, folder) as journal:
        carry_out(what, journal, launch(noise=0.01))
    return store.load_record(journal.folder)


@given(st.sampled_from([CHARGED, GROUP_CHARGED]), st.lists(st.sets(st.sampled_from([CHARGED, GROUP_CHARGED]))))
def test_what_leads_was_measured_everywhere(wanted: str, extra: list[set[str]]) -> None:
    measured = [{PEAK_RSS, *more} for more in extra]
    assert all(leading_memory(wanted, *measured) in those for those in measured)


def test_what_a_study_names_never_gives_way() -> None:
    assert leading_memory("rss_average", {CHARGED, PEAK_RSS}) == "rss_average"
    assert leading_memory(PEAK_RSS, {CHARGED, PEAK_RSS}) == PEAK_RSS
    assert leading_memory(GROUP_CHARGED, {CHARGED, PEAK_RSS}) == CHARGED
    assert leading_memory(CHARGED, {"wall"}) == CHARGED


@pytest.mark.parametrize("launch, leads", [(FakeLaunch, PEAK_RSS), (Launch, CHARGED)])
def test_one_response_leads_every_form_of_the_answer(heapyard, tmp_path, launch, leads):  # type: ignore[no-untyped-def]
    record = measured(tmp_path / "results", launch)
    analysis = analyse(record.observations)
    assert analysis.memory == leads and analysis.pareto
    assert answer(analysis, record)["leading"] == {"time": "wall", "memory": leads}
    said, listed = heapyard("show", record.id).out, heapyard("show", record.id, "--trials").out
    other = TITLES[PEAK_RSS if leads == CHARGED else CHARGED]
    for text in (said.lower(), listed.lower()):
        assert TITLES[leads].lower() in text and other.lower() not in text
    gated = json.loads(heapyard("gate", record.id, "--json").out)["answers"]
    assert {g["comparison"]["metric"] for g in gated} == {"wall", leads}


def test_a_stored_experiment_that_names_no_memory_means_peak_rss(tmp_path: Path) -> None:
    """As the first ones did; when it is continued its new trials have both."""
    record = measured(tmp_path / "results", Launch)
    with sqlite3.connect(record.path / "experiment.sqlite" if record.path.is_dir() else record.path) as file:
        (text,) = file.execute("SELECT settings_json FROM experiment").fetchone()
        settings = json.loads(text)
        del settings["memory_metric"], settings["control_groups"]
        file.execute("UPDATE experiment SET settings_json = ?", (json.dumps(settings),))
    file.close()
    again = store.load_record(record.path)
    assert analyse(again.observations).memory == PEAK_RSS and not again.experiment.settings.control_groups


def test_diff_compares_like_with_like_and_says_so(heapyard, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    old = measured(tmp_path / "results", FakeLaunch, PEAK_RSS)
    new, newer = (measured(tmp_path / "results", Launch) for _ in range(2))
    said = json.loads(heapyard("diff", old.id, new.id, "--json").out)
    assert {c["metric"] for c in said["changes"]} == {"wall", PEAK_RSS}
    assert "memory is compared by peak RSS, since not both have charged memory" in said["other"]
    same = json.loads(heapyard("diff", new.id, newer.id, "--json").out)
    assert {c["metric"] for c in same["changes"]} == {"wall", CHARGED} and not any("memory" in o for o in same["other"])


def test_history_follows_what_all_have_and_says_so(heapyard, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    measured(tmp_path / "results", FakeLaunch, PEAK_RSS)
    for _ in range(2):
        measured(tmp_path / "results", Launch)
    said = heapyard("history", "--json")
    tracks = json.loads(said.out)
    assert {t["metric"] for t in tracks} == {"wall", PEAK_RSS} and {len(t["points"]) for t in tracks} == {3}
    assert "peak RSS, since not every experiment has charged memory" in " ".join(said.err.split())
    own = json.loads(heapyard("history", "--metric", CHARGED, "--json").out)
    assert {len(t["points"]) for t in own} == {2}


def charged(effects, **more):  # type: ignore[no-untyped-def]
    metrics = ("wall", CHARGED, GROUP_CHARGED, PEAK_RSS)
    return observe(effects, metrics=metrics, settings=Settings(baseline=BASE, memory_metric=CHARGED), **more)


def test_an_account_of_the_kernel_that_disagrees_is_told() -> None:
    ratios = {("je", CHARGED): 1.02, ("je", GROUP_CHARGED): 1.3, ("mi", GROUP_CHARGED): 1.01}
    effects = {place: math.log(ratio) for place, ratio in ratios.items()}
    (note,) = [n for n in analyse(charged(effects)).notes if "control group" in n]
    assert all(f"{program}, je " in note for program in ("jq", "z3", "gawk")) and ", mi" not in note


@pytest.mark.parametrize(
    "part, whole, shares, words",
    [
        ("charged_error", CHARGED, (0.2, 0.01), "may be unseen: jq 20%."),
        ("sample_gap", "wall", (0.6, 0.02), "Looks were rare"),
    ],
)
def test_what_looks_may_have_missed_is_told(part: str, whole: str, shares: tuple[float, float], words: str) -> None:
    found = charged({}, size=1e7)
    unseen = [
        Observation(r.workload, r.treatment, r.block, part, r.value * shares[r.workload != "jq"])
        for r in found.rows
        if r.metric == whole
    ]
    (note,) = [n for n in analyse(replace(found, rows=(*found.rows, *unseen))).notes if words in n]
    assert f"jq {shares[0]:.0%}" in note and "z3" not in note
