# SPDX-License-Identifier: Apache-2.0
"""A search for capacities on servers whose capacity is known: what it finds, when it ends, what it gives up, and what it says."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from capacity_model import FAILED, P99, MemoryJournal, Waits, queue, search_for, step
from click.testing import CliRunner
from rich.console import Console

from heapyard import store
from heapyard.catalog.limits import FAILED_BY_DEFAULT, parse_limits
from heapyard.catalog.server_command import Load, at_rate, server_of
from heapyard.cli.show import command as show
from heapyard.design.capacity_rates import next_rate, whole_rate
from heapyard.design.threshold import log_ratio, threshold
from heapyard.execute.capacity import LEAST_BLOCKS, search
from heapyard.model.errors import HeapyardError, UsageError
from heapyard.model.experiment import Experiment
from heapyard.model.limits import ASKED, RATE, Limit, Shown, shown
from heapyard.model.program import Reading
from heapyard.model.record import Record
from heapyard.report import capacity_words
from heapyard.report.capacity_json import capacity_answer
from heapyard.report.capacity_page import write_capacities
from heapyard.report.capacity_table import print_capacities
from heapyard.stats.analyse import analyse
from heapyard.stats.capacity import capacities, capacities_of


def stored(folder: Path, what: Experiment, launch: Waits) -> Record:
    with store.create(what, folder) as journal:
        journal.set_status(search(what, journal, launch, scratch=folder))  # type: ignore[arg-type]
    return store.load_record(journal.folder)


def refusal(what: Experiment, launch: Waits, folder: Path) -> str:
    with pytest.raises(HeapyardError) as told:
        search(what, MemoryJournal(what), launch, scratch=folder)  # type: ignore[arg-type]
    return " ".join(filter(None, (told.value.message, told.value.remedy)))


# --- limits


def test_limits_are_read_with_their_units() -> None:
    found = parse_limits(["p99=5ms, mean=800us", "failed=0.1%,p99.90=0.5s"])
    assert [(limit.metric, limit.bound) for limit in found] == [
        ("latency_p99", 0.005), ("latency_mean", pytest.approx(0.0008)), ("failed", pytest.approx(0.001)), ("latency_p99.9", 0.5),
    ]  # fmt: skip
    assert parse_limits(["max=1s"])[1] == FAILED_BY_DEFAULT, "answers that fail at once are not quick answers"
    own = parse_limits(["hits=90,failed=0%"], [Reading("hits", "(x)", "higher")])
    assert own[0].at_least and own[0].excess(80) > 0 > own[0].excess(95) and own[1].excess(0) < 0 < own[1].excess(0.001)


@pytest.mark.parametrize(("text", "why"), [
    ("p99", "write a limit such as"), ("p99=5", "with its unit"), ("p99=0ms", "above zero"), ("p0=5ms", "there is no 'p0'"),
    ("failed=100%", "below 100 %"), ("speed=5", "there is no 'speed'"), ("p99=5ms,p99=6ms", "two limits of p99"),
])  # fmt: skip
def test_what_is_no_limit_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_limits([text])


def test_a_trial_is_judged_by_the_limit_it_keeps_least() -> None:
    metrics = {ASKED.name: 100.0, "latency_p99": 0.004, "request_rate": 99.0, "requests": 990.0, "failed_requests": 20.0}
    assert shown(metrics, (P99,)).kept
    assert shown(metrics, (P99, FAILED)).broke == "failed=1%"
    assert shown({**metrics, "latency_p99": 0.01}, (P99,)).excess == pytest.approx(0.5)
    many = {**metrics, "requests": 99000.0}
    assert shown({**many, "request_rate": 96.0}, (P99,)).broke == RATE
    assert shown({**many, "request_rate": 80.0, "sent_rate": 100.0}, (P99,)).kept, "what was sent counts, where it is told"
    few = {**metrics, "requests": 90.0, "request_rate": 90.0}
    assert shown(few, (P99,)).kept, "arrivals at random: 90 of 100 are no shortfall"


# --- rates in the load


def server(*lines: str, **given: object) -> object:
    return server_of(Load(lines, **given), ("./server", "{port}"))  # type: ignore[arg-type]


def test_rates_take_the_place_of_their_mark() -> None:
    words = " ".join(server("echo -R{rate}", "echo -R{rate}", rate=100).client)  # type: ignore[attr-defined]
    assert words.endswith("echo -R50"), "two loads send half each"
    left = server("echo -R{rate} {port}", "echo plain", searched=True, warm_up="echo {rate}")
    filled = at_rate(left, 7)  # type: ignore[arg-type]
    assert (filled.client[-1], filled.warm_up[-1], filled.more_clients[0][-1]) == ("echo -R7 {port}", "echo 7", "echo plain")
    assert [whole_rate(10.4, 1), whole_rate(10.4, 4), whole_rate(0.2, 3)] == [10, 12, 3]


@pytest.mark.parametrize(("lines", "given", "why"), [
    (("echo {rate}",), {}, "--load: has {rate}, and nothing says what it is"),
    (("echo",), {"warm_up": "echo {rate}"}, "--warm-up: has {rate}, and nothing says what it is"),
    (("echo",), {"rate": 5}, "--rate 5 needs a load with {rate} in it"),
    (("echo",), {"searched": True}, "the search for a capacity needs a load with {rate} in it"),
])  # fmt: skip
def test_a_rate_and_its_mark_go_together(lines: tuple[str, ...], given: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        server(*lines, **given)


# --- the arithmetic


def at(rate: float, excess: float) -> Shown:
    return Shown(rate, excess, "" if excess <= 0 else "p99=5ms")


def test_rates_double_and_halve_until_the_limit_lies_between() -> None:
    assert next_rate([], 100) == 100
    assert next_rate([at(100, -1), at(200, -1)], 100) == 400
    assert next_rate([at(100, 1), at(50, 1)], 100) == 25
    assert [next_rate([at(100, -1)] * n, 100, near=True) for n in (1, 2, 3)] == [125, 156.25, 200]
    assert next_rate([at(1, math.inf)], 1) == 1


def test_no_rate_is_a_step_beyond_what_was_borne() -> None:
    """One early trial that was slow by accident must not lead to a flood, nor to a trickle."""
    shown_ = [at(100, -math.inf), at(100, 0.9)]
    for n in range(12):
        rate = next_rate(shown_, 100)
        assert rate <= 2 * max(s.rate for s in shown_ if s.kept)
        assert rate >= min(s.rate for s in shown_ if not s.kept) / 2
        shown_.append(at(rate, -math.inf if n % 3 else 0.9))


def test_a_threshold_lies_where_the_limit_is_crossed() -> None:
    exact = threshold([at(rate, 4 * math.log(rate / 1000)) for rate in (900, 950, 980, 1020, 1050, 1100)])
    middle, low, high = exact.interval(0.95)
    assert low < math.log(1000) < high and middle == pytest.approx(math.log(1000), abs=0.005) and high - low < 0.05
    apart = threshold([at(rate, -math.inf if rate < 1000 else math.inf) for rate in (500, 800, 1250, 2000)])
    assert math.log(800) < apart.quantile(0.5) < math.log(1250)


def test_only_ratios_of_rates_matter() -> None:
    trials = [at(rate, 3 * math.log(rate / 1000) + wobble) for rate, wobble in ((700, 0.1), (900, -0.1), (1100, 0.2), (1300, 0.0))]
    here, far = threshold(trials), threshold([replace(t, rate=40 * t.rate) for t in trials])
    for share in (0.025, 0.5, 0.975):
        assert far.quantile(share) - here.quantile(share) == pytest.approx(math.log(40), abs=1e-9)
    middle, low, high = log_ratio(far, here, 0.95)
    assert low < math.log(40) < high and middle == pytest.approx(math.log(40), abs=0.02)


# --- the search


def test_known_capacities_are_found_in_interleaved_blocks(tmp_path: Path) -> None:
    launch = Waits({"glibc": 2000.0, "swift": 2600.0}, seed=2)
    record = stored(tmp_path, search_for(precision=0.05), launch)
    found = capacities(record)
    base, swift = found.rows
    assert base.rate is not None and base.rate.low < 2000 < base.rate.high < 2000 * 1.2
    assert swift.rate is not None and swift.rate.low < 2600 < swift.rate.high
    assert swift.ratio is not None and swift.ratio.low < 1.3 < swift.ratio.high and swift.verdict == "better"
    assert found.control is not None and found.control.ratio is not None
    assert found.control.ratio.low < 1 < found.control.ratio.high
    assert swift.near["charged"] == pytest.approx(1e7 + 2600, rel=1e-4)
    blocks: dict[int, list[str]] = {}
    for trial in record.trials:
        if trial.stage == "main":
            blocks.setdefault(trial.block, []).append(trial.treatment)
    assert len(blocks) >= LEAST_BLOCKS
    assert all(sorted(order) == ["glibc", "glibc (A/A control)", "swift"] for order in blocks.values())
    assert len({tuple(order) for order in blocks.values()}) > 1, "the order is always the same"
    assert [rate for _, rate in launch.rates[1:6]] == [100, 200, 400, 800, 1600], "doubled, after one trial that warms up"
    assert {t.treatment for t in record.trials if t.stage != "main"} == {"glibc"}
    _shown_well(found, record, tmp_path)


def _shown_well(found: object, record: Record, folder: Path) -> None:
    """The three forms of the answer."""
    text = io.StringIO()
    print_capacities(Console(file=text, width=80, highlight=False), found, record)  # type: ignore[arg-type]
    assert "swift serves 2," in text.getvalue() and "A/A control passed" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= 80
    told = capacity_answer(found, record)  # type: ignore[arg-type]
    assert json.loads(json.dumps(told, allow_nan=False))["capacities"][1]["verdict"] == "better"
    write_capacities(folder / "page.html", found, record)  # type: ignore[arg-type]
    page = (folder / "page.html").read_text()
    assert page.count("<svg") == 2 and "swift serves 2," in page
    with pytest.raises(UsageError, match="searched for capacities"):
        analyse(record.observations)
    _shown_elsewhere(record)


def _shown_elsewhere(record: Record) -> None:
    """As Markdown and as a picture, by the command."""
    reference, parent = record.id, str(record.path.parent)
    markdown = CliRunner().invoke(show, [reference, "--markdown", "--output", parent], catch_exceptions=False).output
    assert markdown.startswith("**swift serves 2,") and "A/A control passed" in markdown
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(table) == 4 and {line.count("|") for line in table} == {7} and table[3].count("better") == 1
    svg = CliRunner().invoke(show, [reference, "--svg", "--output", parent], catch_exceptions=False).output
    assert svg.startswith("<svg") and "swift&#160;serves" in svg and svg.endswith("</svg>\n")


def test_an_interrupted_search_goes_on_with_what_it_has(tmp_path: Path) -> None:
    launch = Waits({"glibc": 2000.0, "swift": 2600.0}, stop_after=14)
    record = stored(tmp_path, search_for(max_blocks=6), launch)
    found = capacities(record)
    assert record.status == "interrupted" and found.control is not None
    assert sum(row.trials for row in (*found.rows, found.control)) == 13, "all but the one that warmed up"
    launch.stop_after = None
    with store.reopen(record.path) as journal:
        assert search(journal.experiment, journal, launch, scratch=tmp_path) == "finished"  # type: ignore[arg-type]
    after = store.load_record(record.path)
    assert [t.metrics for t in after.trials[:14]] == [t.metrics for t in record.trials[:14]]
    assert not [t for t in after.trials[15:] if t.stage != "main"], "the doubling is not done again"
    assert capacities(after).rows[0].rate is not None


def test_the_budget_ends_it_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    what = search_for(precision=0.0001, budget=600.0, max_blocks=9)
    launch, journal = Waits({"glibc": 300.0, "swift": 300.0}), MemoryJournal(what)
    assert search(what, journal, launch, scratch=tmp_path) == "finished"  # type: ignore[arg-type]
    assert sum(block.stage == "main" for block, _ in journal.plan()) == 9, "simulated trials take no time"
    assert "is too short" in refusal(search_for(budget=1e-9), Waits({"glibc": 300.0, "swift": 300.0}), tmp_path)


def test_steps_without_any_latency_near_the_limit_are_found_too(tmp_path: Path) -> None:
    what = search_for(precision=0.15, max_blocks=10)
    launch = Waits({"glibc": 900.0, "swift": 600.0}, curve=step, scatter=0.01)
    journal = MemoryJournal(what)
    search(what, journal, launch, scratch=tmp_path)  # type: ignore[arg-type]
    base, swift = capacities_of(what, journal.trials()).rows
    assert base.rate is not None and base.rate.low < 900 < base.rate.high
    assert swift.rate is not None and swift.rate.low < 600 < swift.rate.high and swift.verdict == "worse"


def test_a_load_that_cannot_send_more_bounds_the_capacity_and_that_is_told(tmp_path: Path) -> None:
    launch = Waits({"glibc": 2000.0, "swift": 2000.0}, sends=lambda rate: min(rate, 1000.0), scatter=0.0)
    record = stored(tmp_path, search_for(precision=0.2, max_blocks=8), launch)
    found = capacities(record)
    assert found.rows[0].rate is not None and 900 < found.rows[0].rate.value < 1150
    assert any("less than 97 %" in told for told in capacity_words.sentences(found, record))


@pytest.mark.parametrize(("load", "server_", "processors", "why"), [
    (1.0, 0.3, 8, "the load generator may be what is at its limit"), (1.1, 0.85, 2, "run the load on another machine"),
    (0.3, 1.0, 8, "used 0.30 processors and the server 1.00."),
])  # fmt: skip
def test_who_is_at_the_limit_is_told(tmp_path: Path, load: float, server_: float, processors: int, why: str) -> None:
    record = stored(tmp_path, search_for(max_blocks=1), Waits({"glibc": 2000.0, "swift": 2000.0}, sends=lambda r: min(r, 1000.0)))
    found = capacities(record)
    rows = tuple(replace(row, near={"wall": 1.0, "generator_cpu": load, "load_cpu": server_}) for row in found.rows)
    record = replace(record, observations=replace(record.observations, processors=processors))
    assert why in " ".join(capacity_words.sentences(replace(found, rows=rows), record))


def test_an_allocator_that_always_fails_is_given_up_and_the_others_are_measured(tmp_path: Path) -> None:
    launch = Waits({"glibc": 2000.0, "swift": 2600.0, "broken": 1.0}, fault={"broken": {}})
    record = stored(tmp_path, search_for(("swift", "broken"), max_blocks=4), launch)
    rows = {row.treatment: row for row in capacities(record).rows}
    assert rows["broken"].failed == "the server ended" and rows["swift"].rate is not None
    assert sum(label == "broken" for label, _ in launch.rates) == 3
    assert [e.text for e in record.events if e.kind == "treatment dropped"] == [
        "broken: the server ended; it is not launched again"]
    assert "broken was given up: the server ended." in capacity_words.sentences(capacities(record), record)


def test_disturbed_trials_do_not_count_up_to_a_share(tmp_path: Path) -> None:
    what, journal = search_for(max_blocks=6), MemoryJournal(search_for())
    search(what, journal, Waits({"glibc": 2000.0, "swift": 2600.0}), scratch=tmp_path)  # type: ignore[arg-type]
    clean = capacities_of(what, journal.trials())
    some = [replace(t, tripped=("steal 9 %",)) if t.id == 9 else t for t in journal.trials()]
    every = [replace(t, tripped=("steal 9 %",)) for t in journal.trials()]
    assert clean.left_out == 0 and capacities_of(what, some).left_out == 1
    assert 0.1 < capacities_of(what, every).left_out / len(every) < 0.3, "some must count, or there is no answer"


def test_what_cannot_work_is_told_after_the_first_trial(tmp_path: Path) -> None:
    both = {"glibc": 2000.0, "swift": 2600.0}
    what = search_for(limits=(Limit("latency_p99.9", 0.005, "p99.9=5ms"),))
    assert "prints nothing for the limit p99.9=5ms; its latencies are p99" in refusal(what, Waits(both), tmp_path)
    assert "sent 1000 requests a second where 100" in refusal(search_for(), Waits(both, sends=lambda rate: 10 * rate), tmp_path)
    launch = Waits(both, fault={"glibc": {}})
    assert refusal(search_for(), launch, tmp_path).startswith("nothing can be searched: the server ended")
    assert len(launch.rates) == 1
    slow = Waits(both, curve=lambda rate, capacity: 1.0)
    assert "under glibc even a request a second broke p99=5ms" in refusal(search_for(), slow, tmp_path)
    assert min(rate for _, rate in slow.rates) == 1


def test_a_load_that_waits_for_answers_is_named(tmp_path: Path) -> None:
    record = stored(tmp_path, search_for(max_blocks=1), Waits({"glibc": 2000.0, "swift": 2600.0}, curve=queue(0.5)))
    (program,) = record.experiment.programs

    def told(generator: str, paced: bool) -> str:
        assert program.server is not None
        changed = replace(program, server=replace(program.server, generator=generator, paced=paced))
        experiment = replace(record.experiment, programs=(changed,))
        return " ".join(capacity_words.sentences(capacities(record), replace(record, experiment=experiment)))

    assert "hey waits for an answer" in told("hey", False) and "vegeta, wrk2" in told("hey", False)
    assert "coordinated omission" not in told("wrk2", True)
    assert "does not know this generator" in told("", False)
