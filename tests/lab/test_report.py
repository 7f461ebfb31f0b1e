# SPDX-License-Identifier: Apache-2.0
"""The answer in the terminal, as Markdown, JSON and HTML: words, widths, escapes, and odd experiments."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from rich.console import Console
from simulated import curve, simulate

from heapyard.model.analysis import Analysis, Interval
from heapyard.model.errors import HeapyardError
from heapyard.model.record import Event, Record
from heapyard.model.preference import Preference
from heapyard.report.choice import choose, dominated
from heapyard.report.html import render, write_report
from heapyard.report.json_answer import answer
from heapyard.report.markdown import markdown
from heapyard.report.picture import terminal_svg
from heapyard.report.scatter_text import scatter
from heapyard.report.terminal import print_answer
from heapyard.report.verdict import answered, verdict
from heapyard.report.words import change, interval_text, listed, percent, plain, plus_minus
from heapyard.stats.analyse import analyse

ANSI = re.compile(r"\x1b\[")


def printed(
    analysis: Analysis,
    record: Record,
    *,
    width: int = 80,
    colour: bool = False,
    encoding: str = "utf-8",
    verbose: bool = True,
) -> str:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding, write_through=True),
        width=width,
        force_terminal=colour,
        highlight=False,
    )
    print_answer(console, analysis, record, verbose=verbose)
    return raw.getvalue().decode(encoding)


# ---------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.969, 0.962, 0.976), "3.1 % ± 0.7 %"),
        (Interval(0.88, 0.87, 0.89), "12 % ± 1 %"),
        (Interval(0.631, 0.625, 0.637), "36.9 % ± 0.6 %"),
        (Interval(2.43, 2.39, 2.47), "143 % ± 4 %"),
        (Interval(1.5, 1.38, 1.62), "50 % ± 12 %"),
        (Interval(1.10, 1.02, 1.30), "10 % (2.0 % to 30 %)"),
        (Interval(1.02, 0.95, 1.20), "2.0 % (-5.0 % to +20 %)"),
        (Interval(0.97, 0.0, math.inf), "3.0 %"),
    ],
)
def test_changes_with_their_uncertainty(interval: Interval, words: str) -> None:
    assert plus_minus(interval) == words


def test_numbers_get_the_digits_they_deserve() -> None:
    assert [percent(v) for v in (0.004, 0.0996, 0.5, math.nan)] == ["0.4 %", "10 %", "50 %", "?"]
    assert [change(v) for v in (0.95, 1.05, 2.5, 12.0)] == ["-5.0 %", "+5.0 %", "x 2.50", "x 12"]
    assert interval_text(Interval(0.97, 0.0, math.inf)) == "0.970"


def test_lists_and_foreign_text() -> None:
    assert [listed(list("abcd"[:n])) for n in (1, 2, 3, 4)] == ["a", "a and b", "a, b and c", "a, b and 2 more"]
    assert plain("a\nb\x1b[1mc") == "a b\ufffd[1mc"


# ---------------------------------------------------------------------------------------------- the sentence


def test_the_verdict_names_the_winner_with_its_uncertainty_and_its_price() -> None:
    analysis, _ = simulate(3, 6, ratios={"jemalloc": (0.9, 1.2), "mimalloc": (1.1, 1.2), "tcmalloc": (1.05, 1.3)})
    assert re.fullmatch(
        r"jemalloc: \d+\.\d % ± \d\.\d % less time than glibc on these 6 programs, \d+\.\d % ± \d\.\d % more memory; "
        r"faster on 6, slower on none\. "
        r"Another program: from [\d.]+ % to \d+ % less time; of 10 such programs 9 gain and 0 lose more than 2 %; "
        r"try yours: heapyard compare jemalloc -- YOUR COMMAND",
        verdict(analysis),
    ), verdict(analysis)


def test_what_another_preference_would_name_is_said() -> None:
    analysis, _ = simulate(2, 6, ratios={"jemalloc": (0.95, 0.9), "mimalloc": (0.85, 1.3)})
    assert verdict(analysis).startswith("mimalloc: ")
    assert re.fullmatch(r"Least memory: jemalloc \(-10 % memory, -\d\.\d % time\)\.", answered(analysis).choices)
    for wanted in (Preference("memory"), Preference("balance"), Preference("time", memory_limit=0.1)):
        assert verdict(analysis, wanted).startswith("jemalloc: "), wanted
    assert "mimalloc" in answered(analysis, Preference("memory")).choices
    strict = verdict(analysis, Preference("time", memory_limit=-0.2))
    assert "by time, at most" in strict and "jemalloc and mimalloc gain otherwise" in strict


def test_who_is_out_whatever_one_prefers() -> None:
    ratios = {"jemalloc": (0.9, 1.1), "mimalloc": (0.95, 1.2), "tcmalloc": (1.05, 0.9), "snmalloc": (1.1, 1.0)}
    analysis, _ = simulate(4, 6, 12, ratios=ratios)
    assert [(lost.treatment, lost.to) for lost in dominated(analysis)] == [("mimalloc", "jemalloc"), ("snmalloc", "glibc")]
    assert answered(analysis).out == "Out, worse in one and better in none: mimalloc (by jemalloc); snmalloc (by glibc)."


def test_nobody_is_out_who_may_gain() -> None:
    """Worse in time beyond doubt, but its memory is so noisy that a gain cannot be excluded."""
    rows = replace(simulate(1, 6, 8, ratios={"jemalloc": (1.1, 1.0)})[1].observations)
    dice = np.random.default_rng(1)
    noisy = replace(
        rows,
        rows=tuple(
            replace(r, value=r.value * float(np.exp(dice.normal(0, 0.5))))
            if r.metric == "peak_rss" and r.treatment == "jemalloc"
            else r
            for r in rows.rows
        ),
    )
    assert not dominated(analyse(noisy))


def test_a_tie_in_time_goes_to_less_memory() -> None:
    analysis, _ = simulate(2, 8, 12, ratios={"jemalloc": (0.9, 1.3), "mimalloc": (0.905, 1.05)})
    assert choose(analysis) == "mimalloc"


def test_the_verdict_does_not_invent_a_difference() -> None:
    same, _ = simulate(3, 6, 20, noise=0.004, ratios={})
    said = verdict(same)
    assert said.startswith("No allocator differs from glibc by more than the margin on these 6 programs: there is no reason")
    assert re.search(r"None saves (more than 0\.\d % of|any) time or (more than 0\.\d % of|any) memory\.", said), said
    worse, _ = simulate(2, 6, 20, noise=0.004, ratios={"jemalloc": (1.2, 1.2), "mimalloc": (1.2, 1.0)})
    assert verdict(worse).startswith("Stay with glibc") and "None saves any time or any memory" in verdict(worse)
    open_, _ = simulate(2, 6, 3, noise=0.2, ratios={})
    assert "undecided: " in verdict(open_)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.8, 1.3), r"jemalloc: 2\d\.\d % ± 0\.\d % less time than glibc on program0, \d\d\.\d % ± 0\.\d % more memory\."),
        ((0.8, 1.0), r"jemalloc: 2\d\.\d % ± 0\.\d % less time than glibc on program0, with the same memory within the margin\."),
        ((1.2, 0.7), r"jemalloc: \d\d\.\d % ± 0\.\d % less memory than glibc on program0, 2\d\.\d % ± 0\.\d % more time\."),
        ((1.0, 0.7), r"jemalloc: \d\d\.\d % ± 0\.\d % less memory than glibc on program0, with the same time within the margin\."),
    ],
)  # fmt: skip
def test_gains_and_costs_are_told_apart(ratios: tuple[float, float], words: str) -> None:
    analysis, _ = simulate(1, 1, 20, noise=0.004, ratios={"jemalloc": ratios})
    said = verdict(analysis, Preference("memory" if ratios[0] >= 1 else "time"))
    assert re.match(words.replace("2\\d", "(?:19|2\\d)"), said), said


def test_less_memory_is_told_where_nothing_saves_time() -> None:
    free, _ = simulate(1, 1, 20, noise=0.004, ratios={"jemalloc": (1.0, 0.7)})
    assert verdict(free).startswith("jemalloc: ") and "less memory than glibc" in verdict(free)
    dear, _ = simulate(1, 1, 20, noise=0.004, ratios={"jemalloc": (1.2, 0.7)})
    assert verdict(dear).startswith("No allocator is better on program0 by time; jemalloc gains otherwise, at a price or in doubt.")


def test_what_is_open_says_what_would_decide_it() -> None:
    one, record = simulate(2, 1, 4, noise=0.05, ratios={"jemalloc": (0.97, 1.0), "mimalloc": (1.0, 1.0)})
    assert re.search(r"undecided: .*\. About \d+ more blocks \(.+\) would decide\.$", verdict(one)), verdict(one)
    programs = {n: (0.97 + 0.02 * i, 1.0) for i, n in enumerate(("jemalloc", "mimalloc", "tcmalloc", "snmalloc", "scudo"))}
    many, record = simulate(5, 3, 4, noise=0.05, ratios=programs)
    assert re.search(r"About \d+ more rounds? \(.+\) would decide", verdict(many)), verdict(many)
    assert " ".join(printed(many, record, verbose=False).split()).count("would decide") == 1, "said once"


def test_the_noisiest_program_is_named_where_it_decides() -> None:
    seen = simulate(2, 6, 6, noise=0.003, ratios={})[1].observations
    dice = np.random.default_rng(2)
    rows = tuple(
        replace(r, value=r.value * float(np.exp(dice.normal(0, 0.4)))) if r.workload == "program3" else r for r in seen.rows
    )
    said = verdict(analyse(replace(seen, rows=rows)))
    assert re.search(r"would decide, most of all on program3, which brings \d+ % of the uncertainty", said), said


def test_one_program_is_named() -> None:
    analysis, _ = simulate(2, 1, ratios={"jemalloc": (0.8, 0.8)})
    assert " than glibc on program0, " in verdict(analysis) and "Another program" not in verdict(analysis)


def test_few_programs_say_nothing_of_another() -> None:
    analysis, _ = simulate(2, 4, ratios={"jemalloc": (0.8, 0.8)})
    assert "Another program: 4 programs are too few to say; try yours" in verdict(analysis)


def test_a_control_that_differs_comes_first() -> None:
    analysis, _ = simulate(2, 3, ratios={"jemalloc": (0.8, 0.8), "glibc (A/A control)": (1.3, 1.0)})
    assert verdict(analysis).startswith("Do not trust this yet: glibc differs from itself")
    text = printed(*simulate(2, 3, ratios={"glibc (A/A control)": (1.3, 1.0)}))
    assert "DIFFERS from itself" in text


def test_a_control_that_differs_a_little_is_a_line_and_no_alarm() -> None:
    analysis, record = simulate(2, 3, 20, noise=0.002, ratios={"jemalloc": (0.8, 0.8), "glibc (A/A control)": (1.01, 1.0)})
    assert analysis.control.differs and verdict(analysis).startswith("jemalloc: ")
    text = " ".join(printed(analysis, record).split())
    assert "differs from itself by less than the margin" in text and "nothing as small deserves belief" in text


def test_nothing_measured_is_said() -> None:
    analysis, _ = simulate(2, 1, 0)
    assert verdict(analysis) == "Nothing was measured: no block was completed."
    alone, _ = simulate(0, 2, seed=2)
    assert verdict(alone) == "Only glibc was measured: there is nothing to compare it with."


def test_two_noisy_blocks_exclude_nothing_and_say_so() -> None:
    """Bounds of 100 % of everything, and half-widths of thousands of per cent, tell nobody anything."""
    noisy, record = simulate(3, 1, 2, seed=6, noise=1.5)
    said = verdict(noisy)
    assert "So few blocks exclude no gain in time" in said and "more than 100 %" not in said, said
    text = printed(noisy, record)
    assert "±>10x" in text and "e+" not in text


def test_one_block_claims_nothing() -> None:
    analysis, record = simulate(3, 2, 1)
    assert "no uncertainty" in verdict(simulate(3, 1, 1)[0])
    assert "inf" not in printed(analysis, record) and "nan" not in printed(analysis, record)


# ---------------------------------------------------------------------------------------------- terminal


@pytest.mark.parametrize("size", [(1, 1, 6), (6, 8, 6), (14, 12, 6), (3, 2, 1)])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(size: tuple[int, int, int], encoding: str) -> None:
    analysis, record = simulate(*size, failing=1)
    try:
        text = printed(analysis, record, encoding=encoding)
    except UnicodeEncodeError:
        assert encoding == "ascii"
        raise
    assert max(len(line) for line in text.splitlines()) <= 80
    assert not ANSI.search(text)


def test_the_answer_stands_at_the_top_and_states_directions_failures_and_control() -> None:
    analysis, record = simulate(6, 8, failing=2)
    text = printed(analysis, record)
    said = " ".join(text.split())
    assert said.startswith(verdict(analysis))
    for words in (
        "lower is better",
        "Failures:",
        "scudo on program0",
        "signal 11",
        "A/A control passed",
        "heapyard show 261120-1200-test --trials",
        "memory (peak RSS, ratio; lower is better)",
    ):
        assert words in said, words


@pytest.mark.parametrize("programs", [1, 2, 5, 8, 12])
@pytest.mark.parametrize("width", [80, 120])
def test_every_ratio_has_its_mark_at_any_width(programs: int, width: int) -> None:
    analysis, record = simulate(14, programs, 4, failing=1)
    text = printed(analysis, record, width=width)
    for title, metric in (("Wall time", "wall"), ("Peak RSS", "peak_rss")):
        (part,) = re.findall(rf"^{title} (?:by|of) .*?(?=\n\n|\n\+ better)", text, flags=re.MULTILINE | re.DOTALL)
        compared = [c for cell in analysis.cells if cell.metric == metric for c in cell.comparisons]
        marks = re.findall(r"\d\.\d+(?:±[\d.]+%| \[[\d., ]+\] \*?)? *([-+=?])", part)
        signs = {"better": "+", "worse": "-", "equivalent": "=", "undecided": "?"}
        assert sorted(marks) == sorted(signs[c.verdict] for c in compared)


def test_columns_of_a_grid_stand_under_each_other() -> None:
    analysis, record = simulate(10, 8, 4)
    (part,) = re.findall(r"^Wall time by .*?(?=\n\n)", printed(analysis, record), flags=re.MULTILINE | re.DOTALL)
    rows = [line for line in part.splitlines() if re.match(r"\w\S+ +\d", line)]
    points = [[m.start() for m in re.finditer(r"\.\d\d", line)] for line in rows]
    assert len(rows) == 22 and all(p == points[0] for p in points), "two tables of eleven allocators and four programs"


def test_names_cannot_move_the_cursor() -> None:
    analysis, record = simulate(2, 2, hostile="\x1b[2J\x07")
    assert "\x1b" not in printed(analysis, record) and "\x07" not in printed(analysis, record)


def test_what_to_do_next_is_said() -> None:
    analysis, record = simulate(2, 2)
    assert f"heapyard report {record.id} --open" in printed(analysis, record)
    stopped = replace(record, status="interrupted")
    assert f"goes on with: heapyard resume {record.id}" in " ".join(printed(analysis, stopped).split())
    late = replace(
        record,
        events=(Event(9.0, "budget used up", "the budget was used up"),),
        experiment=replace(record.experiment, settings=replace(record.experiment.settings, budget=240.0)),
    )
    assert f"heapyard resume {record.id} --budget 16m" in " ".join(printed(analysis, late).split())


def test_colour_only_adds_to_words() -> None:
    analysis, record = simulate(4, 3)
    coloured = printed(analysis, record, colour=True)
    assert ANSI.search(coloured)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(analysis, record)


def test_the_picture_places_points_where_they_belong() -> None:
    analysis, _ = simulate(2, 4, 10, noise=0.001, ratios={"jemalloc": (0.5, 2.0), "mimalloc": (2.0, 0.5)})
    lines = scatter(analysis.pareto, "glibc", memory="peak RSS")
    places = {
        key: next((y, line.index(key, 8)) for y, line in enumerate(lines[1:14]) if key in line[9:]) for key in "0bc"
    }
    assert places["b"][0] < places["0"][0] < places["c"][0]
    assert places["b"][1] < places["0"][1] < places["c"][1]


def test_the_picture_for_a_page_is_the_same_every_time() -> None:
    analysis, record = simulate(4, 3)
    svg = terminal_svg(analysis, record)
    assert svg == terminal_svg(analysis, record) and svg.startswith("<svg") and "A/A&#160;control" in svg


def test_the_picture_has_the_command_that_was_given() -> None:
    """Without what changes only how the answer is told; the user's own command as it stands."""
    analysis, record = simulate(4, 3)
    argv = ("heapyard", "compare", "--quiet", "--no-html", "--seed", "1", "--", "./prog", "--quiet")
    told = terminal_svg(analysis, replace(record, experiment=replace(record.experiment, argv=argv)))
    assert ">heapyard&#160;compare&#160;--seed&#160;1&#160;--&#160;./prog&#160;--quiet<" in told


# ---------------------------------------------------------------------------------------------- JSON, Markdown, HTML


def test_json_is_strict_and_holds_the_answer() -> None:
    analysis, record = simulate(3, 2, 1)
    found = json.loads(json.dumps(answer(analysis, record), allow_nan=False))
    assert found["schema"] == 2 and found["verdict"] == verdict(analysis) and found["id"] == record.id
    assert found["answer"]["headline"] in found["verdict"] and found["preference"] == {"prefer": "time", "memory_limit": None}
    assert found["cells"][0]["comparisons"][0]["interval"]["high"] is None


def test_markdown_tables_are_whole_and_safe() -> None:
    analysis, record = simulate(3, 2, hostile="|<b>*")
    rows = [line for line in markdown(analysis, record).splitlines() if line.startswith("|")]
    assert rows and all(re.sub(r"\\\|", "", line).count("|") in (4, 7) for line in rows), rows
    assert "<b>" not in markdown(analysis, record).replace("\\<b\\>", "")


def test_the_page_is_one_file_the_same_every_time_and_asks_for_nothing(tmp_path: Path) -> None:
    analysis, record = simulate(7, 5)
    first, second = (render(analysis, record, series=curve) for _ in range(2))
    assert first == second
    assert len(first) < 2_500_000
    own = first.split("<script>", 1)[0]  # what is ours; the figure library follows
    assert not re.search(r"""src\s*=|href\s*=\s*"(?!#)|@import|url\(""", re.sub(r"<svg.*?</svg>", "", own, flags=re.DOTALL))
    write_report(tmp_path / "r.html", analysis, record, series=curve)
    assert (tmp_path / "r.html").read_text() == first and first.endswith("</html>\n")


def test_hostile_names_stay_text() -> None:
    analysis, record = simulate(2, 2, hostile="</script><script>alert(1)</script>\"'&")
    page = render(analysis, record, series=curve)
    assert "<script>alert(1)" not in page


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    analysis, record = simulate(1, 1)
    with pytest.raises(HeapyardError, match="cannot be written"):
        write_report(tmp_path / "absent" / "r.html", analysis, record)


@settings(deadline=None, max_examples=25)
@given(
    allocators=strategies.integers(0, 14),
    programs=strategies.integers(1, 9),
    blocks=strategies.integers(0, 4),
    noise=strategies.floats(0, 0.5),
    failing=strategies.integers(0, 3),
    seed=strategies.integers(0, 99),
    width=strategies.integers(60, 140),
)
def test_any_experiment_can_be_shown(
    allocators: int, programs: int, blocks: int, noise: float, failing: int, seed: int, width: int
) -> None:
    analysis, record = simulate(allocators, programs, blocks, noise=noise, failing=min(failing, allocators), seed=seed)
    text = printed(analysis, record, width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert markdown(analysis, record)
    json.dumps(answer(analysis, record), allow_nan=False)


@pytest.mark.parametrize("size", [(0, 1, 2), (1, 1, 0), (2, 3, 1), (14, 2, 2)])
def test_any_experiment_has_a_page(size: tuple[int, int, int]) -> None:
    analysis, record = simulate(*size, failing=min(1, size[0]))
    assert verdict(analysis).split(":")[0] in render(analysis, record)


def test_a_control_of_one_block_has_passed_nothing() -> None:
    said = " ".join(printed(*simulate(2, 2, blocks=1)).split())
    assert "one block cannot tell whether glibc differs from itself" in said and "A/A control passed" not in said
