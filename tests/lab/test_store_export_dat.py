"""Exports in the scalloc artifact's layouts: columns, units, exact deviations, and gnuplot that draws them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from statistics import mean, stdev

import pytest

from heapyard import store
from heapyard.catalog.study import read_study
from heapyard.cli.assemble import assemble
from heapyard.execute.experiment import carry_out
from heapyard.execute.trial import run_trial
from heapyard.model.errors import HeapyardError
from heapyard.model.record import Record
from heapyard.store.export_dat import write_dat

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
    assert lines[2] == "#x(threads)\taverage\tstddev" and lines[3] == ""
    rows = [line.split("\t") for line in lines[4:]]
    assert [row[0] for row in rows] == ["1", "2"]
    one = next(t for t in record.trials if t.result)
    frequency = store.read_result(record.path, one.result)["cycles_per_second"]
    seconds = [
        a + f
        for a, f in zip(
            values(record, "threads=2", "jemalloc", "allocation_time_per_thread"),
            values(record, "threads=2", "jemalloc", "deallocation_time_per_thread"),
            strict=True,
        )
    ]
    # Each run measures the counter's frequency for itself.
    assert float(rows[1][1]) == pytest.approx(mean(seconds) * frequency, rel=0.01)
    assert float(rows[1][2]) == pytest.approx(stdev(seconds) * frequency, rel=0.05, abs=mean(seconds) * frequency * 0.01)
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
    assert lines[2] == "# repetitions: 3" and lines[3] == f"# threads,{word},sd,rss_kb,sd_rss_kb"
    row = [float(field) for field in lines[4].split(",")]
    known = values(record, "threads=1", "glibc", metric)
    assert row[:3] == [1, pytest.approx(mean(known), rel=1e-4, abs=1e-6), pytest.approx(stdev(known), rel=1e-3, abs=1e-6)]
    raw = (folder / "glibc-raw.dat").read_text().splitlines()[2:]
    assert len(raw) == 6
    # The artifact's scripts take the 3rd, 6th and 9th word.
    words = [line.split() for line in raw]
    assert [w[2] for w in words] == ["1"] * 3 + ["2"] * 3
    assert all(re.fullmatch(r"[\d.]+", w[5]) and re.fullmatch(r"[\d.]+", w[8]) for w in words)
    assert "jemalloc" in drawn("threads.gp", data=str(folder)) and "kilobytes" in drawn("threads.gp", data=str(folder), memory=1)


def test_what_has_no_such_layout_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HeapyardError, match="one x column, and delay, threads vary"):
        write_dat(measured(tmp_path, "acdc", "threads = [1, 2]\ndelay = [0, 1]"), tmp_path / "data")


def test_the_verb_names_what_it_wrote(heapyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = measured(tmp_path, "threadtest")
    said = heapyard("export", str(record.path), "--dat", str(tmp_path / "out"))
    assert said.code == 0 and len(said.out.splitlines()) == 4 and all(Path(p).exists() for p in said.out.splitlines())
    assert heapyard("export", str(record.path), "--dat", str(tmp_path), "--csv").code == 2
