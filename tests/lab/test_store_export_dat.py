# SPDX-License-Identifier: Apache-2.0
"""Exports in the scalloc artifact's layouts: columns, units, exact deviations, and gnuplot that draws them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest

from heapyard import store
from heapyard.catalog.study import read_study
from heapyard.api.assemble import assemble
from heapyard.execute.experiment import carry_out
from heapyard.execute.trial import run_trial
from heapyard.model.errors import HeapyardError
from heapyard.model.figure import Figure
from heapyard.model.record import Record
from heapyard.store.exports.dat import write_dat

PLOTS = Path(__file__).resolve().parents[2] / "studies" / "plots"
SHORT = {
    "acdc": 'time = "allocation_time_per_thread"\n[options]\nquantum = 20000\nduration = 30\n',
    "threadtest": "[options]\niterations = 5\nobjects = 500\n",
    "larson": "[options]\nchunks = 20\nrounds = 5\n",
}


def measured(folder: Path, mutator: str, factors: str = "threads = [1, 2]") -> Record:
    path = folder / f"{mutator}.toml"
    head = f"[study]\ntitle = \"a family: {mutator} / small\"\nmutator = \"{mutator}\"\nallocators = [\"glibc\", \"jemalloc\"]\n"
    path.write_text(f"{head}blocks = 3\n{SHORT[mutator]}[factors]\n{factors}\n")
    experiment = assemble(read_study(path))
    with store.create(experiment, folder / "results") as journal:
        carry_out(experiment, journal, run_trial, scratch=folder)
    return store.load_record(journal.folder)


def values(record: Record, level: str, treatment: str, metric: str) -> list[float]:
    return [t.metrics[metric] for t in record.trials if t.counted and t.treatment == treatment and level in t.workload]


def drawn(script: str, **settings: str | int) -> str:
    given = "; ".join(f"{name}={value!r}" for name, value in settings.items())
    done = subprocess.run(["gnuplot", "-e", given, str(PLOTS / script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_acdc_in_cycles_and_kilobytes(tmp_path: Path) -> None:
    record = measured(tmp_path, "acdc")
    written = write_dat(record, tmp_path / "data")
    folder = tmp_path / "data" / "ACDC" / "acdc-small"
    kinds = ("access", "alloc", "free", "combined", "memcons")
    assert sorted(written) == sorted(folder / f"{a}-{k}.dat" for a in ("glibc", "jemalloc") for k in kinds)
    lines = (folder / "jemalloc-combined.dat").read_text().splitlines()
    assert lines[0].startswith("#Created at: ") and lines[1].startswith("#Average on 3 runs. ACDC Options: --quantum 20000")
    assert "--threads" not in lines[1] and "--json" not in lines[1]
    rates = {t.id: store.read_result(record.path, t.result)["cycles_per_second"] for t in record.trials if t.result}
    mine = [t for t in record.trials if t.counted and t.treatment == "jemalloc"]
    heading = re.fullmatch(r"#x\(threads\)\taverage\tstddev\tin cycles of a counter at ([\d.]+) GHz", lines[2])
    assert heading and float(heading[1]) == pytest.approx(mean(rates[t.id] for t in mine) / 1e9, abs=0.0006)
    rows = [line.split("\t") for line in lines[4:]]
    assert lines[3] == "" and [row[0] for row in rows] == ["1", "2"]
    both = ("allocation_time_per_thread", "deallocation_time_per_thread")
    cycles = [sum(t.metrics[m] for m in both) * rates[t.id] for t in mine if "threads=2" in t.workload]
    assert [float(field) for field in rows[1][1:]] == pytest.approx([mean(cycles), stdev(cycles)], rel=1e-6)
    memory = (folder / "glibc-memcons.dat").read_text().splitlines()[4].split("\t")
    assert float(memory[1]) == pytest.approx(
        mean(values(record, "threads=1", "glibc", "rss_average_per_thread")) / 1024, abs=0.06
    )
    svg = drawn("acdc.gp", data=str(folder), metric="combined")
    assert "<svg" in svg and "jemalloc" in svg and "threads" in svg and "cycles" in svg


@pytest.mark.parametrize("mutator, metric, word", [("threadtest", "wall_time", "time"), ("larson", "throughput", "ops")])
def test_other_mutators_in_five_columns(tmp_path: Path, mutator: str, metric: str, word: str) -> None:
    record = measured(tmp_path, mutator)
    write_dat(record, tmp_path / "data")
    folder = tmp_path / "data" / f"{mutator}-small"
    lines = (folder / "glibc.dat").read_text().splitlines()
    unit = {"time": "seconds", "ops": "operations per second"}[word]
    assert lines[2] == "# repetitions: 3" and lines[3] == f"# threads,{word},sd,rss_kb,sd_rss_kb; {word} in {unit}"
    row = [float(field) for field in lines[4].split(",")]
    known = values(record, "threads=1", "glibc", metric)
    assert row[:3] == [1, pytest.approx(mean(known), rel=1e-4, abs=1e-6), pytest.approx(stdev(known), rel=1e-3, abs=1e-6)]
    raw = (folder / "glibc-raw.dat").read_text().splitlines()[2:]
    assert len(raw) == 6
    # The artifact's scripts take the 3rd, 6th and 9th word.
    words = [line.split() for line in raw]
    assert [w[2] for w in words] == ["1"] * 3 + ["2"] * 3
    assert all(re.fullmatch(r"[\d.]+", w[5]) and re.fullmatch(r"[\d.]+", w[8]) for w in words)
    svg = drawn("threads.gp", data=str(folder))
    assert "jemalloc" in svg and "threads" in svg and f"{unit} (" in svg
    assert "kilobytes" in drawn("threads.gp", data=str(folder), memory=1)


def test_no_cycles_are_invented_and_one_run_has_no_deviation(tmp_path: Path) -> None:
    record = measured(tmp_path, "acdc")
    last = max(t.round for t in record.trials if t.counted)
    kept = tuple(replace(t, result="") for t in record.trials if t.round == last)
    write_dat(replace(record, trials=kept), tmp_path / "data")
    folder = tmp_path / "data" / "ACDC" / "acdc-small"
    lines = (folder / "glibc-alloc.dat").read_text().splitlines()
    assert lines[1].startswith("#Average on 1 runs.") and lines[2].endswith("in milliseconds (the results name no counter)")
    _, average, deviation = lines[4].split("\t")
    known = next(t.metrics for t in kept if t.counted and t.treatment == "glibc" and "threads=1" in t.workload)
    assert float(average) == pytest.approx(known["allocation_time_per_thread"] * 1e3) and deviation == "nan"
    svg = drawn("acdc.gp", data=str(folder))
    assert "alloc in milliseconds" in svg and svg.count("<use") > 4, "points without bars are drawn all the same"


def test_a_figure_says_which_factor_is_the_x_column(tmp_path: Path) -> None:
    record = measured(tmp_path, "acdc", "threads = [1, 2]\ndelay = [0, 1]")
    with pytest.raises(HeapyardError, match="one x column, and delay, threads vary"):
        write_dat(record, tmp_path / "data")
    seen = replace(
        record.observations,
        figures=(
            Figure("a", "allocation_time", "threads", at={"delay": "1"}),
            Figure("b", "rss_average", "threads", at={"delay": "1"}),
            Figure("c", "rss_average", "delay", at={"threads": "2"}),
            Figure("over all threads", "rss_average", "delay"),
        ),
    )
    written = write_dat(replace(record, observations=seen), tmp_path / "data")
    folder = tmp_path / "data" / "ACDC" / "acdc-small"
    assert {p.parent for p in written} == {folder / "threads-delay=1", folder / "delay-threads=2"}
    one = (folder / "delay-threads=2" / "glibc-memcons.dat").read_text().splitlines()
    assert [line.split("\t")[0] for line in one[4:]] == ["0", "1"] and "--threads" not in one[1] and "--delay" not in one[1]
    both = values(record, "threads=2 delay=1", "glibc", "rss_average_per_thread")
    assert float(one[5].split("\t")[1]) == pytest.approx(mean(both) / 1024)


def test_only_experiments_of_a_mutator_have_these_layouts(tmp_path: Path) -> None:
    from simulated import simulate

    with pytest.raises(HeapyardError, match="studies of a mutator"):
        write_dat(simulate(1, 1)[1], tmp_path)


def test_the_verb_names_what_it_wrote(heapyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = measured(tmp_path, "threadtest")
    said = heapyard("export", str(record.path), "--dat", str(tmp_path / "out"))
    assert said.code == 0 and len(said.out.splitlines()) == 4 and all(Path(p).exists() for p in said.out.splitlines())
    assert heapyard("export", str(record.path), "--dat", str(tmp_path), "--csv").code == 2


def test_a_suite_is_exported_as_a_whole(heapyard, two: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "family"
    folder.mkdir()
    head = '[study]\nmutator = "threadtest"\nallocators = ["glibc", "jemalloc"]\nblocks = 2\n'
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(
            f'{head}title = "family: {name}"\n{SHORT["threadtest"]}[factors]\nthreads = [1, 2]\n'
        )
    (folder / "zwei.toml").write_text(
        f'{head}title = "family: zwei"\n{SHORT["threadtest"]}[factors]\nthreads = [1, 2]\nsize = [8, 16]\n'
    )
    heapyard("run", str(folder), "--no-html", real=True)
    said = heapyard("export", "--suite", "family", "--dat", str(tmp_path / "out"))
    assert said.code == 0, said.err
    assert {"one", "two"} <= {p.name for p in (tmp_path / "out").iterdir()}
    assert all(Path(line).exists() for line in said.out.splitlines()) and len(said.out.splitlines()) >= 8
    assert heapyard("export", "--suite", "moon", "--dat", str(tmp_path)).code == 2
    assert heapyard("export", "--suite", "family", "--csv").code == 2
