# SPDX-License-Identifier: Apache-2.0
"""The screens of `heapyard simulate`, over results that the simulator once wrote (tests/data/simulation)."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from heapyard.execute.simulator.responses import responses_of
from heapyard.execute.simulator.result import read_run
from heapyard.model.metrics import METRICS, as_simulated, metric_named
from heapyard.model.simulation import MACHINES, Access, Line, NamedLine, Place, Run, Simulated, Simulation, Simulations, Writer
from heapyard.profile.moving_lines import named
from heapyard.report.simulation_json import simulation_answer
from heapyard.report.simulation_table import line_in_words, print_simulations, ratios_of
from heapyard.report.words import ratio

MACHINE = Simulated("server", 2, 1)


@pytest.fixture
def data(root: Path) -> Path:
    return root / "tests" / "data" / "simulation"


def recorded(data: Path, name: str) -> Run:
    run, complaint = read_run(data / f"{name}.json")
    assert run is not None, complaint
    return run


@pytest.fixture
def two(data: Path) -> Simulations:
    names = ("glibc", "jemalloc")
    runs = [Simulation(name, 1, run := recorded(data, name), named(run.lines)) for name in names]
    return Simulations("shared_line", ("/opt/shared_line",), MACHINE, "glibc", tuple(runs))


def shown(found: Simulations, width: int = 80, **options: int) -> str:
    out = io.StringIO()
    print_simulations(Console(file=out, width=width, highlight=False, _environ={}), found, **options)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 60, 132])
def test_a_screen_is_labelled_and_as_wide_as_the_terminal(two: Simulations, width: int) -> None:
    text = shown(two, width)
    assert text.startswith("Simulated: shared_line on a server with 2 cores, seed 1.")
    assert max(map(len, text.splitlines())) <= width
    assert all(f"\n{name}" in text for name in two.allocators)


def test_ratios_are_those_of_the_same_seed(two: Simulations) -> None:
    glibc, jemalloc = (two.of(name)[0] for name in two.allocators)
    later = replace(jemalloc, seed=2)  # which the baseline has not
    more = replace(two, runs=(*two.runs, Simulation("jemalloc", 2, later)))
    assert ratios_of(more, "jemalloc") == [jemalloc.seconds / glibc.seconds]
    assert ratio(jemalloc.seconds / glibc.seconds) in shown(two)


def test_the_spread_of_seeds_is_told(two: Simulations) -> None:
    slower = tuple(
        Simulation(one.allocator, 2, replace(one.run, seed=2, seconds=one.run.seconds * (2 if one.allocator == "jemalloc" else 1)))
        for one in two.runs
        if one.run
    )
    both = replace(two, runs=(*two.runs, *slower))
    least, most = sorted(ratios_of(both, "jemalloc"))
    text = shown(both)
    assert f"{ratio(least)} {ratio(most)}" in text and "seeds 1 to 2" in text


def test_false_sharing_names_both_writers(two: Simulations) -> None:
    text = " ".join(shown(two).split())
    assert "FALSE SHARING: data of shared_line" in text  # the file is on no machine, so its variable has no name
    assert "thread 0 writes bytes 0 to 7 and thread 1 bytes 32 to 39" in text


def test_false_sharing_is_told_although_other_lines_move_more() -> None:
    quiet = line(transfers=30, is_false_sharing=True)
    one = Simulation("glibc", 1, blank(transfers=1000), tuple(named([line(transfers=300)] * 5 + [quiet])))
    text = shown(Simulations("p", ("p",), MACHINE, "glibc", (one,)), lines=2)
    assert text.count("300 transfers") == 2 and text.count("FALSE SHARING") == 1


def test_a_run_that_failed_is_told_with_its_reason(two: Simulations) -> None:
    failed = Simulation("mine", 1, None, reason="p under mine: 2 child processes ran beside the simulated machine, not on it")
    text = " ".join(shown(replace(two, runs=(*two.runs, failed), complete=False)).split())
    assert "mine was not simulated: p under mine: 2 child processes" in text and "interrupted" in text


def test_json_says_that_it_is_simulated(two: Simulations) -> None:
    said = json.loads(json.dumps(simulation_answer(two), allow_nan=False))
    assert said["kind"] == "simulated" and said["machine"] == {"name": "server", "cores": 2}
    run = said["allocators"][0]["runs"][0]
    assert run["totals"]["transfers"] == two.of("glibc")[0].totals.transfers
    assert run["lines"][0]["is_false_sharing"] and run["lines"][0]["address"].startswith("0x")


def test_every_response_of_a_run_is_a_metric_with_the_label(data: Path) -> None:
    for name in responses_of(recorded(data, "glibc")):
        assert name in METRICS and metric_named(name).title.startswith("simulated ")


def test_no_name_serves_a_measured_and_a_simulated_response() -> None:
    assert {as_simulated(name) for name in METRICS} & {n for n in METRICS if not n.startswith("simulated_")} == set()
    assert as_simulated("wall") == "simulated_time" and as_simulated("rss_average") == "simulated_rss_average"
    assert as_simulated(as_simulated("throughput")) == as_simulated("throughput")


@pytest.mark.parametrize("wrong", [{"simulation": 2}, {"totals": {}}, {"lines": [{}]}, {"machine": None}])
def test_a_damaged_result_is_told(data: Path, tmp_path: Path, wrong: dict[str, object]) -> None:
    given = json.loads((data / "glibc.json").read_text())
    (tmp_path / "damaged.json").write_text(json.dumps(given | wrong))
    run, complaint = read_run(tmp_path / "damaged.json")
    assert run is None and complaint.startswith("left a result that cannot be read")
    assert read_run(tmp_path / "absent.json") == (None, "left no result")


@pytest.mark.skipif(not shutil.which("eu-addr2line") or not shutil.which("cc"), reason="elfutils and a C compiler tell names")
def test_a_line_is_named_by_the_variables_written_on_it(data: Path, tmp_path: Path) -> None:
    program = tmp_path / "shared_line"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", program, data / "shared_line.c"], check=True)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    at = {words[2]: int(words[0], 16) for words in map(str.split, symbols) if len(words) == 3}
    both = [Writer(0, 0, 8, 5), Writer(1, at["both"] - at["counters"], at["both"] - at["counters"] + 4, 5)]
    data_at, code_at = Place(str(program), at["counters"]), Place(str(program), at["count"], 3)
    given = line(kind="symbol", owner=data_at, writers=tuple(both), code=(code_at,))
    (found,) = named([given])
    assert found.owner in ("counters and both in shared_line", "both and counters in shared_line")  # as the linker put them
    assert found.accesses[0].function == "count" and found.accesses[0].place.startswith("shared_line.c:")


def test_many_writers_are_summed_up() -> None:
    writers = tuple(Writer(thread, 0, 8 * thread + 8, 1) for thread in range(5))
    told = line_in_words(NamedLine(line(writers=writers), "a block of the heap", "", (Access("f", "f.c:1", 1),)), 100)
    assert told.endswith("5 threads write bytes 0 to 39")


def test_the_machines_are_those_of_the_simulator(root: Path) -> None:
    source = (root / "simulator" / "model" / "machine.cpp").read_text()
    assert all(f'.name = "{name}"' in source for name in MACHINES.values()) and source.count(".name = ") == len(MACHINES)


def line(**changed: object) -> Line:
    plain = Line(0x1000, 10, 5, 5, False, (Writer(0, 0, 8, 1), Writer(1, 16, 24, 1)), "heap", Place("", 0), ())
    return replace(plain, **changed)  # type: ignore[arg-type]


def blank(transfers: int) -> Run:
    """A run with nothing but its transfers."""
    from heapyard.model.simulation import COUNTS, Counts

    counts = Counts(**(dict.fromkeys(COUNTS, 0) | {"transfers": transfers, "instructions": 1000}))  # type: ignore[arg-type]
    return Run("engine", "machine", 2, 1e9, 1, 0.001, None, counts, 2, (), 0.1, 1, 4096)
