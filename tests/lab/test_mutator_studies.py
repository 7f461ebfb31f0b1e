# SPDX-License-Identifier: Apache-2.0
"""Mutators as workloads of a study: from the file to trials whose responses are the mutator's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heapyard import store
from heapyard.catalog.mutators import arguments, find_mutator, workloads
from heapyard.catalog.study import read_study
from heapyard.api.assemble import assemble
from heapyard.execute.experiment import carry_out
from heapyard.execute.mutator_result import read_result
from heapyard.execute.trial import run_trial
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.metrics import metric_named
from heapyard.stats.analyse import analyse

STUDY = """
[study]
title = "a delay"
mutator = "acdc"
allocators = ["glibc", "jemalloc"]
time = "allocation_time"
memory = "rss_peak"

[options]
max-size = "{2 * size}"
min-size = "{size}"
quantum = 20000
no-access = true

[treatments.compact]
allocator = "glibc"
options = { placement = "compact" }

[scales.small]
study = { blocks = 2, seed = 3 }
factors = { delay = [0, 2], size = [16] }

[scales.large]
study = { blocks = 3 }
factors = { delay = [0, 1, 2], size = [16, 32] }

[[figures]]
title = "Memory"
metric = "rss_peak"
over = "delay"
at = { size = 16 }

[[claims]]
text = "More delay, more memory."
kind = "monotone"
metric = "rss_peak"
over = "delay"
direction = "rises"
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_options_become_words() -> None:
    assert arguments({"threads": 4, "access": True, "no-access": False, "share": 0.5}) == (
        "--threads", "4", "--access", "--share", "0.5",
    )  # fmt: skip
    assert arguments({"max-size": "{2 * size}"}, {"size": "8"}) == ("--max-size", "16")


def test_a_workload_per_combination_of_levels() -> None:
    made = workloads("acdc", {"quantum": 1000, "threads": 2, "min-size": "{size}"}, {"delay": [0, 1], "size": [16]})
    assert [p.name for p in made] == ["acdc delay=0", "acdc delay=1"]
    assert made[1].levels == {"threads": "2", "delay": "1", "size": "16"} and made[1].threads == 2
    assert made[1].command[1:] == (
        "--quantum", "1000", "--threads", "2", "--min-size", "16", "--delay", "1", "--json", "{dir}/mutator.json",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, options, factors, complaint",
    [
        ("moon", {}, {}, "no mutator 'moon'; there are acdc"),
        ("acdc", {"delya": 1}, {}, "acdc has no option --delya"),
        ("acdc", {}, {"delya": [1]}, "no option --delya; nor does"),
        ("acdc", {"delay": "{moon}"}, {"threads": [1]}, "'moon', which is not a factor"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(name, options, factors, complaint) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=complaint):
        workloads(name, options, factors)


def test_a_study_has_scales(study_file: Path) -> None:
    small, large = read_study(study_file), read_study(study_file, "large")
    assert small.scale == "small" and small.settings["blocks"] == 2 and small.levels["delay"] == (0, 2)
    assert large.scale == "large" and large.settings["blocks"] == 3 and large.levels["size"] == (16, 32)
    assert large.options == small.options and large.treatments.keys() == {"compact"}
    with pytest.raises(UsageError, match="no scale 'huge'; there are small, large"):
        read_study(study_file, "huge")


def test_from_the_file_to_the_answer(study_file: Path, tmp_path: Path) -> None:
    experiment = assemble(read_study(study_file))
    assert [t.label for t in experiment.treatments] == ["glibc", "jemalloc", "compact", "glibc (A/A control)"]
    with store.create(experiment, tmp_path / "results") as journal:
        carry_out(experiment, journal, run_trial, scratch=tmp_path)
    record = store.load_record(journal.folder)
    assert record.experiment == experiment
    trials = [t for t in record.trials if t.counted]
    assert len(trials) == 2 * 2 * 4 and not record.observations.failures
    # The same work everywhere: one checksum per workload, whatever served it and however objects were placed.
    assert len({(t.workload, t.answer) for t in trials}) == 2 and all(t.answer for t in trials)
    one = trials[0]
    result = store.read_result(record.path, one.result)
    given = {m["name"]: m["value"] for m in result["metrics"]}
    assert one.metrics["allocation_time"] == pytest.approx(given["allocation_time"] / 1e3)
    assert one.metrics["own_minor_faults"] == given["minor_faults"] != one.metrics["minor_faults"]
    assert metric_named("allocation_time").unit == "s" and metric_named("rss_peak").margin == "memory"
    assert metric_named("throughput").direction == "higher"
    assert "--placement compact" in next(t for t in trials if t.treatment == "compact").command_line
    analysis = analyse(record.observations)
    assert (analysis.time, analysis.memory) == ("allocation_time", "rss_peak")
    assert analysis.over_all("allocation_time") is not None and analysis.pareto


def test_a_mutator_that_writes_nothing_or_nonsense_has_not_counted(tmp_path: Path) -> None:
    assert read_result(tmp_path / "none") == (None, "wrote no result")
    for text in ("", "[]", "{}", '{"metrics": 3}', '{"metrics": [{"name": "a"}]}',
                 '{"metrics": [{"name": "a", "unit": "furlong", "direction": "lower", "value": 1}]}'):  # fmt: skip
        (tmp_path / "bad").write_text(text)
        found, complaint = read_result(tmp_path / "bad")
        assert found is None and "cannot be read" in complaint


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.one_of(st.none(), st.floats()), max_size=6))
def test_values_survive_in_their_stored_unit(values: dict[str, float | None]) -> None:
    import math
    import tempfile

    metrics = [{"name": f"x{n}", "unit": "ms", "direction": "lower", "value": v} for n, v in values.items()]
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump({"metrics": metrics, "checksum": "1f"}, file)
        file.flush()
        found, _ = read_result(Path(file.name))
    assert found is not None and found.checksum == "1f"
    finite = {f"x{n}": v * 1e-3 for n, v in values.items() if v is not None and math.isfinite(v)}
    assert found.metrics == finite and len(found.defined) == len(values)


def test_the_catalog_finds_what_is_built() -> None:
    assert find_mutator("acdc").name == "acdc"
    with pytest.raises(UsageError):
        find_mutator("kit")


def test_a_damaged_result_is_one_sentence(tmp_path: Path) -> None:
    from heapyard.store.results import write_result

    name = write_result(tmp_path, b"not json")
    with pytest.raises(HeapyardError, match="is not a mutator's result"):
        store.read_result(tmp_path, name)
    with pytest.raises(HeapyardError, match="the result is missing"):
        store.read_result(tmp_path, "0" * 64)


def test_constraints_and_processors_shape_the_design(tmp_path: Path) -> None:
    factors = {"threads": [1, 2, 4], "processors": [1, 2]}
    made = workloads("acdc", {}, factors, constraints=["threads <= 2 * processors"])
    assert [p.name for p in made] == [f"acdc threads={t} processors={p}" for t, p in ((1, 1), (1, 2), (2, 1), (2, 2), (4, 2))]
    assert [p.processors for p in made] == [1, 2, 1, 2, 2]
    with pytest.raises(UsageError, match="no combination of levels meets"):
        workloads("acdc", {}, factors, constraints=["threads > 4"])
    path = tmp_path / "s.toml"
    path.write_text("[study]\nmutator = 'acdc'\n[factors]\nprocessors = [1, 4096]\n[design]\nconstraints = ['moon < 3']\n")
    with pytest.raises(UsageError, match=r"s.toml:6: field 'design.constraints' is wrong: .*'moon'"):
        read_study(path)
    path.write_text("[study]\nmutator = 'acdc'\n[factors]\nprocessors = [1, 4096]\n")
    study = read_study(path)
    assert study.levels["processors"] == (1,) and "processors 4096: this machine has" in study.skipped[0]


def test_a_trial_uses_no_more_processors_than_its_level(tmp_path: Path) -> None:
    from heapyard.catalog.allocators import find_allocators
    from heapyard.execute.trial_environment import cpus_of
    from heapyard.model.experiment import Settings, Treatment

    treatment = Treatment("glibc", find_allocators(["glibc"])[0])
    everything = tuple(sorted(os.sched_getaffinity(0)))
    assert cpus_of(treatment, Settings()) == () and cpus_of(treatment, Settings(), 1) == everything[:1]
    assert cpus_of(treatment, Settings(cpus=(everything[-1],)), 3) == everything[-1:]
