# SPDX-License-Identifier: Apache-2.0
"""How the answer on many machines reads: on the first screen, in full, as a page, as Markdown and for scripts."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fleets import HALF, NO_TCACHE, PLAIN, fleet
from test_first_screen import ROOT, default_run, lines
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.model.analysis import Analysis
from heapyard.model.preference import Preference
from heapyard.model.record import Record
from heapyard.report.choice import dominated
from heapyard.report.html import render
from heapyard.report.json_answer import answer
from heapyard.report.junit import sentence_of
from heapyard.report.machine_words import by_machine, everywhere, machine_sentences
from heapyard.report.markdown import markdown
from heapyard.report.terminal import print_answer
from heapyard.report.verdict import verdict
from heapyard.stats.analyse import analyse
from heapyard.stats.gate import gate
from heapyard.store.exports.long_form import write_csv, write_jsonl, write_parquet

RATIOS = {"jemalloc": (0.97, 0.9), "mimalloc": (0.9, 1.1), "tcmalloc": (1.05, 1.2)}
TWO_OF_THREE = {"node2": NO_TCACHE, "node3": HALF}
GLIBC = ("glibc", "glibc (A/A control)")


def example() -> tuple[Analysis, Record]:
    """Two of three machines made different on purpose: glibc without its cache on one, half a processor on another."""
    effects = {("node2", label): 1.15 for label in GLIBC} | {("node3", "mimalloc"): 1.2}
    return fleet(3, 4, 12, ratios=RATIOS, effects=effects, speeds={"node3": 2.1}, snapshots=TWO_OF_THREE)


def alike() -> tuple[Analysis, Record]:
    return fleet(3, 4, 12, ratios=RATIOS, speeds={"node2": 1.5})


def text_of(found: tuple[Analysis, Record], **how: object) -> str:
    return " ".join(" ".join(lines(*found, **how)).split())


def full(analysis: Analysis, record: Record, width: int = 80) -> list[str]:
    from rich.console import Console

    out = Console(file=io.StringIO(), width=width, highlight=False, _environ={})
    print_answer(out, analysis, record, verbose=True)
    return out.file.getvalue().splitlines()


# Sentences -------------------------------------------------------------------------------------------------------------


def test_two_machines_of_three_made_different_are_told() -> None:
    analysis, record = example()
    assert set(analysis.machines.depends("wall")) == {"jemalloc", "mimalloc", "tcmalloc"}
    said = verdict(analysis)
    assert said.startswith("Best on this kind of machine, against glibc: mimalloc on node1 ("), said
    assert re.search(r"less time\) and on node2 \(2\d[\d.]* % ± [\d.]+ % less time\);", said), said
    assert re.search(r"; jemalloc on node3 \(\d[\d.]* % ± [\d.]+ % less time\)\.$", said), said
    screen = text_of((analysis, record))
    assert "3 machines of 3 kinds, and ratios depend on the kind. node2: glibc tcache off." in screen
    assert "node3: a CPU quota of 0.5 processors." in screen
    assert "wrap" not in screen, "no switch is named where none is best on every kind"


def test_a_winner_on_each_kind_is_best_everywhere() -> None:
    analysis, record = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE)
    best = everywhere(analysis)
    assert best is not None and best.treatment == "mimalloc" and len(best.gains) == 3
    assert by_machine(analysis) == "" and verdict(analysis).startswith("mimalloc: ")
    assert "3 machines of 3 kinds; mimalloc is best on every kind. What differs: --verbose." in text_of((analysis, record))
    assert answer(analysis, record)["machines"]["best_everywhere"] == "mimalloc"


def test_a_winner_whose_gain_depends_is_still_best_everywhere() -> None:
    analysis, record = fleet(3, 4, 12, ratios=RATIOS, effects={("node2", "mimalloc"): 0.9}, snapshots=TWO_OF_THREE)
    assert verdict(analysis).startswith("mimalloc: best on each of 3 kinds of machine, 10 % to 19 % less time than glibc")
    assert "heapyard wrap mimalloc" in text_of((analysis, record))


def test_a_winner_that_is_undecided_on_one_kind_is_not_best_everywhere() -> None:
    analysis, _ = fleet(3, 4, 12, ratios=RATIOS, effects={("node2", "mimalloc"): 1 / 0.9}, snapshots=TWO_OF_THREE)
    assert everywhere(analysis) is None and "jemalloc on node2" in verdict(analysis)


def test_a_winner_that_another_beats_on_one_kind_is_not_best_everywhere() -> None:
    analysis, _ = fleet(3, 4, 12, ratios=RATIOS, effects={("node2", "jemalloc"): 0.8}, snapshots=TWO_OF_THREE)
    assert all(k.over_all("wall").of("mimalloc").verdict == "better" for k in analysis.machines.kinds)
    assert everywhere(analysis) is None
    assert re.search(r"mimalloc on node1 \(.*\) and on node3 \(.*\); jemalloc on node2 \(", verdict(analysis)), verdict(analysis)


def test_a_slower_machine_alone_changes_no_answer() -> None:
    analysis, _ = alike()
    told = machine_sentences(analysis)
    assert told[0] == "3 machines of one kind; every ratio is the same on all, within the margin."
    assert any(re.fullmatch(r"node2 takes 5\d % more time than node[13], which cancels in ratios\.", t) for t in told)
    assert verdict(analysis).startswith("mimalloc: ") and by_machine(analysis) == ""


def test_nothing_is_called_alike_that_few_blocks_cannot_tell() -> None:
    analysis, record = fleet(3, 1, 6, noise=0.05)
    assert machine_sentences(analysis)[0] == "3 machines of one kind; no ratio is shown to depend on the machine."
    assert "cannot tell" in "\n".join(full(analysis, record)) and "cannot tell, up to" in markdown(analysis, record)


def test_memory_that_depends_on_the_machine_is_told_as_a_range() -> None:
    """Time is the same everywhere; huge pages on one machine make the named allocator's memory dearer there."""
    analysis, record = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE, memory={("node2", "mimalloc"): 1.3})
    assert analysis.machines.depends("wall") == () and analysis.machines.depends("peak_rss") == ("mimalloc",)
    said = verdict(analysis)
    pattern = r"mimalloc: [\d.]+ % ± [\d.]+ % less time than glibc on these 4 programs, memory by machine from \+10 % to \+43 %;"
    assert re.match(pattern, said), said
    row = next(line for line in lines(analysis, record) if re.match(r"mimalloc +-\d", line))
    assert "by machine" in row and "%" in row


def test_workloads_that_a_kind_lacks_are_told() -> None:
    record = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE)[1]
    first, seen = record.observations.workloads[0], record.observations
    rows = tuple(replace(o, node="node1") if o.workload == first else o for o in seen.rows)
    told = machine_sentences(analyse(replace(seen, rows=rows)))
    assert "Kinds are compared over 3 of 4 programs: of these each has two blocks." in told


def test_who_is_out_is_out_on_every_kind() -> None:
    worse = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE, effects={("node2", "tcmalloc"): 1.1})[0]
    assert "tcmalloc" in [lost.treatment for lost in dominated(worse)]
    better = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE, effects={("node2", "tcmalloc"): 0.7})[0]
    assert "tcmalloc" not in [lost.treatment for lost in dominated(better)]


def test_memory_is_asked_where_it_is_preferred() -> None:
    found = fleet(3, 4, 12, ratios=RATIOS, snapshots=TWO_OF_THREE)[0]
    best = everywhere(found, Preference("memory"))
    assert best is not None and best.treatment == "jemalloc" and {g.metric for g in best.gains} == {"peak_rss"}


# Screens ---------------------------------------------------------------------------------------------------------------


def test_the_page_on_many_machines_shows_this_screen() -> None:
    """The example in docs/method.md is what this made-up fleet prints, word for word."""
    block = "\n".join(f"    {line}".rstrip() for line in lines(*example()))
    assert block in (ROOT / "docs" / "method.md").read_text(), block


@pytest.mark.parametrize("effects", [{}, {("node2", "mimalloc"): 1.3, ("node3", "tcmalloc"): 0.6}])
@pytest.mark.parametrize("snapshots", [{}, TWO_OF_THREE])
def test_five_allocators_on_a_fleet_fit_a_terminal(effects: dict, snapshots: dict) -> None:
    """The fullest screen there is: a budget, another program, other preferences."""
    from fleets import on_fleet

    record = default_run()[1]
    seen = on_fleet(record, effects=effects, speeds={"node3": 1.7}, snapshots=snapshots)
    shown = lines(analyse(seen.observations), seen)
    assert len(shown) <= 24 and max(map(len, shown)) <= 80, "\n".join(shown)
    assert sum("machines of" in line for line in shown) == 1


@pytest.mark.parametrize("width", [40, 80, 120])
def test_everything_on_machines_fits(width: int) -> None:
    shown = full(*example(), width=width)
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    assert "Machines" in shown and "Tables by program pool the blocks of all machines." in " ".join(text.split())


def test_many_machines_of_many_kinds_still_fit() -> None:
    names = tuple(f"cn-{i:04}.rack7.cluster.example.org" for i in range(12))
    snapshots = {n: PLAIN | {"libc": f"glibc 2.{30 + i // 2}"} for i, n in enumerate(names)}
    found = fleet(3, 2, 48, nodes=names, snapshots=snapshots, ratios=RATIOS, effects={(n, "mimalloc"): 1.3 for n in names[:4]})
    assert len(found[0].machines.kinds) == 6
    assert max(map(len, lines(*found))) <= 80 and len(lines(*found)) <= 24
    assert "12 machines of 6 kinds, and ratios depend on the kind. What differs: --verbose." in text_of(found)
    assert max(map(len, full(*found))) <= 80


def test_without_a_fleet_nothing_is_said_of_machines() -> None:
    analysis, record = default_run()
    assert analysis.machines is None and answer(analysis, record)["machines"] is None
    for text in (" ".join(lines(analysis, record)), "\n".join(full(analysis, record)), markdown(analysis, record)):
        assert "machines of" not in text and "kind of machine" not in text


# Pages and scripts -----------------------------------------------------------------------------------------------------


def test_the_page_and_markdown_have_the_ratios_by_kind() -> None:
    analysis, record = example()
    for text in (render(replace(analysis, cells=()), replace(record, trials=())), markdown(analysis, record)):
        assert "glibc tcache off" in text and "by kind of machine over 4 programs" in text
        assert "depends on the machine" in text and "Wall time: the ratio of".lower() in text.lower()
        assert "a CPU quota of 0.5 processors" in text and re.search(r"depends, p (&lt;|\\?<|=)", text)


def test_scripts_get_kinds_tests_and_sizes() -> None:
    found = json.loads(json.dumps(answer(*example()), allow_nan=False))["machines"]
    assert [k["nodes"] for k in found["kinds"]] == [["node1"], ["node2"], ["node3"]]
    assert [k["chosen"] for k in found["kinds"]] == ["mimalloc", "mimalloc", "jemalloc"] and found["best_everywhere"] is None
    assert found["kinds"][1]["facts"]["tunables"] == "glibc tcache off"
    test = next(i for i in found["interactions"] if (i["metric"], i["treatment"], i["workload"]) == ("wall", "mimalloc", ""))
    assert test["answer"] == "depends" and test["p_value"] < 0.001 and len(test["ratios"]) == 3
    assert {s["node"] for s in found["speeds"]} == {"node1", "node2", "node3"} and len(found["variances"]) == 8


# Stored experiments ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds each on two machines, as an engine stores them. The programs are a user's own: they inherit tunables."""
    what = experiment(blocks=4)
    what = replace(what, programs=tuple(replace(p, inherit_env=True) for p in what.programs))
    with store.create(what, tmp_path_factory.mktemp("fleet")) as journal:
        carry_out(what, journal, FakeLaunch())
        for block, status in journal.plan():
            if status == "done":
                node = f"node{block.round % 2 + 1}"
                journal.set_node(block, node, NO_TCACHE if node == "node2" else PLAIN)
    return journal.folder


def test_a_stored_fleet_is_analysed_by_kind(stored: Path) -> None:
    found = analyse(store.load_record(stored).observations).machines
    assert [k.nodes for k in found.kinds] == [("node1",), ("node2",)] and found.kinds[1].differs == ("glibc tcache off",)


def test_exports_carry_the_machine(stored: Path, tmp_path: Path) -> None:
    import duckdb

    record, text, jsonl = store.load_record(stored), io.StringIO(), io.StringIO()
    write_csv(record, text)
    write_jsonl(record, jsonl)
    write_parquet(record, tmp_path / "rows.parquet")
    expected = {(t.id, t.node) for t in record.trials}
    assert {(int(r["trial"]), r["node"]) for r in csv.DictReader(io.StringIO(text.getvalue()))} == expected
    assert {(r["trial"], r["node"]) for r in map(json.loads, jsonl.getvalue().splitlines())} == expected
    rows = duckdb.sql(f"SELECT DISTINCT trial, coalesce(node, '') FROM '{tmp_path / 'rows.parquet'}'").fetchall()
    assert set(rows) == expected and {n for _, n in expected} >= {"node1", "node2"}


def test_show_names_the_machine(heapyard, stored: Path) -> None:
    shown = heapyard("show", str(stored), "--trials")
    assert shown.code == 0 and "machine" in shown.out and "node1" in shown.out and "node2" in shown.out
    trial = next(t for t in store.load_record(stored).trials if t.node == "node2")
    assert re.search(r"^machine +node2$", heapyard("show", str(stored), "--trial", str(trial.id)).out, re.MULTILINE)
    assert json.loads(heapyard("show", str(stored), "--environment").out)["nodes"]["node2"]["tunables"]


def test_without_a_fleet_show_has_no_column_for_machines(heapyard, tmp_path: Path) -> None:
    what = experiment(blocks=2)
    with store.create(what, tmp_path) as journal:
        carry_out(what, journal, FakeLaunch())
    assert "machine" not in heapyard("show", str(journal.folder), "--trials").out


# What pools machines says so -------------------------------------------------------------------------------------------


def test_a_gate_does_not_pass_a_mean_over_machines_of_which_one_is_worse() -> None:
    """mimalloc is as fast as glibc on two kinds of three together, and slower on one."""
    found, _ = fleet(2, 1, 30, ratios={"jemalloc": (1.0, 1.0), "mimalloc": (0.97, 1.0)},
                     effects={("node2", "mimalloc"): 1.12}, snapshots={"node2": NO_TCACHE}, noise=0.004)  # fmt: skip
    gated = {g.comparison.treatment: g for g in gate(found, limit=0.05, metrics=("wall",))}
    calm, moved = gated["jemalloc"], gated["mimalloc"]
    assert calm.answer == "shown not worse" and calm.machines is None
    assert moved.loss.high < 1.05 and moved.answer == "not shown", "the mean alone would have passed"
    said = sentence_of(moved, "glibc")
    assert re.search(r"a mean over machines, on which it depends: 0\.9\d\d on node1 \+1, 1\.\d\d\d on node2$", said), said
    assert "machines" not in sentence_of(calm, "glibc")
    lenient = next(g for g in gate(found, limit=0.2, metrics=("wall",)) if g.comparison.treatment == "mimalloc")
    assert lenient.answer == "shown not worse" and lenient.machines is not None


def test_notes_name_the_programs_whose_tables_pool_different_machines() -> None:
    pooled = "tables of a single program pool machines on which the ratio is another"
    assert any(pooled in note and "on node2" in note for note in example()[0].notes)
    assert not any(pooled in note for note in alike()[0].notes)
