# SPDX-License-Identifier: Apache-2.0
"""`heapyard check`: every case passes on a sound library, and the case that should find a fault finds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from heapyard.catalog.own_heaps import own_heaps
from heapyard.cli.check import _Progress, _run
from heapyard.execute import check_cases
from heapyard.execute.check_cases import PROGRAM, all_cases, chosen_cases, run_case
from heapyard.execute.loop.signals import stop_on_signals
from heapyard.model import places
from heapyard.model.allocator import Allocator
from heapyard.model.check import CheckCase, Found, ReportCard
from heapyard.report.report_card import print_card, print_comparison, short, verdict_of

# The fault of each library made for this, and the case that must find it.
FAULTS = {
    "dirty": "conformance/calloc-zeroes",
    "forgetful": "conformance/realloc-keeps",
    "errno": "conformance/errno-kept",
    "boundless": "conformance/too-much",
    "wraps": "conformance/calloc-overflow",
    "crooked": "conformance/alignments",
    "generous": "conformance/usable-size",
    "one_zero": "conformance/zero-bytes",
    "early": "process/first-operations",
    "stuck": "process/fork-while-busy",
    "racy": "stress/across-threads",
    "leaky": "memory/thread-succession",
    "never_free": "memory/producer-consumer",
    "despairs": "limits/address-space",
    "atfork": "process/fork-beside-stdio",
    "unexplained": "conformance/errno-of-refusals",
    "reserves": "limits/served-address-space limits/many-threads system/mlockall system/core-dump system/emulator",
    "wastes": "limits/served-data limits/container system/huge-pages",
    "greedy": "memory/many-threads",
    "miscounts": "memory/accounting",
    "scatters": "system/page-tables",
    "guards": "system/many-mappings",
    "peeks": "stress/reports-while-busy",
}
# Those that lose a lock at a fork lose it beside whatever part of the C library allocates.
FAULTS["stuck"] += " process/fork-beside-dlopen process/fork-beside-names process/fork-beside-zones process/fork-beside-threads"
FAULTS["leaky"] += " stress/thread-storm"
# What nothing forbids and programs mind.
NOTED = {"madvises": "stress/realloc-storm", "reserves": "system/strict-overcommit"}


def library(name: str) -> Allocator:
    path = places.native(f"lib{name}.so")
    assert path.exists()
    return Allocator(name, name, version="", library=path)


def case(label: str) -> CheckCase:
    return next(c for c in all_cases() if c.label == label)


def check(*words: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "heapyard", "check", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("fault", "label"), [(fault, label) for fault, labels in FAULTS.items() for label in labels.split()])
def test_the_case_that_should_finds_the_fault(fault: str, label: str) -> None:
    # What hangs is seen sooner than by the case's own patience.
    found = run_case(case(label), library(f"check_{fault}"), "quick", limit=2 if "fork" in label or "core" in label else 20)
    if found.verdict == "skipped":
        pytest.skip(found.said)
    assert found.verdict == "fail" and found.said, found


@pytest.mark.parametrize(("fault", "label"), NOTED.items())
def test_what_programs_mind_is_noted(fault: str, label: str) -> None:
    found = run_case(case(label), library(f"check_{fault}"), "quick", limit=20)
    assert found.verdict == "note" and found.said, found


# Without the counting of instructions, which takes a minute.
@pytest.mark.parametrize("label", [c.label for c in all_cases() if c.label != "latency/longest-call"])
def test_a_library_without_a_fault_passes(label: str) -> None:
    found = run_case(case(label), library("check_none"), "quick")
    assert found.verdict in ("pass", "note", "information", "skipped"), found


HEAPS = [heap.name for heap in own_heaps()]
WHOLLY = ("bfm", "scalloc", "elfmalloc", "heapyard")


# Asked of one that locks and of ours, for the time they take; of all on request.
ASKED_SLOWLY = ("bfm", "heapyard")
SLOW = [f"process/fork-beside-{what}" for what in ("dlopen", "names", "zones", "threads")] + [
    "stress/thread-storm", "stress/realloc-storm"]


GROUPS = {c.group for c in all_cases()}
# Variants share their layers with the first ones: those that change most are asked for what they could spoil, the others on
# request alone. The one with a single lock for all threads is asked about forks too.
SHORT = {heap: set[str]() for heap in HEAPS if heap not in WHOLLY} | {
    "bfm-single": {"conformance", "c++", "process"},
    "scalloc-no-virtual-spans": {"conformance", "c++"},
    "elfmalloc-l": {"conformance", "c++"},
    "heapyard-hardened": {"conformance", "c++"},
}
ASKED = [pytest.param(heap, SHORT.get(heap, GROUPS), id=heap) for heap in HEAPS if SHORT.get(heap, GROUPS)]
ASKED += [pytest.param(heap, GROUPS - asked, id=f"{heap}, the rest", marks=pytest.mark.on_request) for heap, asked in SHORT.items()]


@pytest.mark.parametrize(("heap", "groups"), ASKED)
def test_our_heaps_pass_every_case(request: pytest.FixtureRequest, heap: str, groups: set[str]) -> None:
    cases = [c for c in all_cases() if c.group in groups and c.label not in ("latency/longest-call", *SLOW)]
    if heap in ASKED_SLOWLY or (heap in WHOLLY and request.config.getoption("--on-request")):
        cases += [case(label) for label in SLOW]
    found = [run_case(c, library(heap), "quick") for c in cases]
    assert not [f for f in found if f.verdict == "fail"]
    assert not [f.said for f in found if f.case.name == "signals" and f.said]  # their handlers may allocate, which nobody demands


@pytest.mark.parametrize(("heap", "most"), [("bfm", 60), ("scalloc", 50), ("elfmalloc", 58), ("heapyard", 50)])
def test_our_fast_paths_stay_short(heap: str, most: int) -> None:
    """Instructions of a malloc and its free together, the calls through the linkage table included: a call, a loop or a
    spilled register on the hot path shows here. Room is left for another compiler's choices."""
    found = run_case(case("latency/fast-path"), library(heap), "quick")
    assert 20 < found.facts["pair_64"][0] <= most


def test_our_longest_call_is_a_few_levels_of_a_tree() -> None:
    found = run_case(case("latency/longest-call"), library("bfm"), "quick")
    counts = [value[0] for name, value in found.facts.items() if name.startswith("longest_call_")]
    assert len(counts) == 2 and 100 < max(counts) < 5_000


def test_the_answer_names_what_failed_and_the_exit_code_says_so() -> None:
    path = str(places.native("libcheck_errno.so"))
    code, out, _ = check(path, "--only", "conformance", "--quick")
    assert code == 1
    assert "check_errno.so: 1 of 14 cases fail" in out and "x conformance/errno-kept: free of 1 bytes changed errno" in out
    code, out, _ = check(str(places.native("libcheck_none.so")), "--only", "errno-kept", "--quick", "--json")
    answer = json.loads(out)["allocators"][0]
    assert code == 0 and answer["safe"] and answer["cases"][0]["verdict"] == "pass"
    assert answer["library"].endswith("libcheck_none.so") and len(answer["sha256"]) == 64


def test_several_libraries_are_compared() -> None:
    code, out, _ = check("bfm", "glibc", "--only", "memory/mixed*", "--only", "mistakes", "--quick")
    assert code == 0
    assert "mixed" in out and "reissued" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name allocators or libraries, or give --all"),
        (["nosuchmalloc"], "there is no allocator 'nosuchmalloc'"),
        (["./missing.so"], "does not exist"),
        (["/etc/passwd"], "/etc/passwd: the library is not an ELF file"),
        ([str(places.native("libnomalloc.so"))], "does not export malloc and free"),
        ([str(places.native("libcrash_load.so"))], "crashes when loaded into /bin/true"),
        (["glibc", "--only", "nosuchcase"], "there is no case 'nosuchcase'"),
        (["glibc", "--quick", "--instructions"], "give one of them"),
        (["system"], "name a library"),
        (["glibc", "--markdown", "/etc/passwd"], "/etc/passwd lacks the lines"),
    ],
)
def test_a_bad_request_gets_one_sentence(words: list[str], sentence: str) -> None:
    code, _, said = check(*words)
    assert code == 2
    assert sentence in said and said.count("\n") <= 2
    assert "--allocator" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_was_found_and_leaves_no_process(number: signal.Signals) -> None:
    words = [sys.executable, "-m", "heapyard", "check", "glibc", "--only", "errno-kept", "--only", "longest-call"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child = running_case(process, "longest-call")
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "the check was interrupted" in out and "conformance 1/1" in out
    assert not Path(f"/proc/{child}").exists()


# The first words are carried out in the process that runs the command line after them.
PATCHED = """
import os, signal, sys, time
from heapyard.cli import check, main
number, name = int(sys.argv.pop(1)), sys.argv.pop(1)
old = getattr(check, name)
def new(*given):
    os.kill(os.getpid(), number)
    time.sleep(0.1)
    return old(*given)
setattr(check, name, new)
main.run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["named_libraries", "_print"])
def test_a_signal_before_the_first_case_or_after_the_last_one(number: signal.Signals, moment: str) -> None:
    words = [sys.executable, "-c", PATCHED, str(int(number)), moment, "check", "glibc", "--only", "errno-kept"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130, ended
    assert "Traceback" not in ended.stderr
    if moment == "_print":
        assert "conformance 1/1" in ended.stdout


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    words = [sys.executable, "-m", "heapyard", "check", "glibc", "--only", "errno-kept", "--only", "after-a-peak", "--quick"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    running_case(process, "after-a-peak")
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "interrupted" not in out


def running_case(process: subprocess.Popen[str], name: str) -> int:
    """The process of the case that the check is at, once it is this one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for child in children.read_text().split():
            try:
                # Before a child execs, its command line is that of the check, which names the case as well.
                is_case = Path(os.readlink(f"/proc/{child}/exe")).name == PROGRAM
                if is_case and name in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
            except OSError:
                pass
        time.sleep(0.02)
    raise AssertionError(f"the case {name} was not run in a minute")


def test_a_signal_that_arrives_where_python_drops_exceptions_ends_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    class Signals:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)  # here Python's own handler would raise in vain

    def run(*given: object, **named: object) -> Found:
        Signals()
        return run_case(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(check_cases, "run_case", run)
    with stop_on_signals() as stop:
        cards = _run([library("check_none")], [case("latency/longest-call"), case("conformance/errno-kept")], "quick", stop)
    assert stop.is_set() and len(cards[0].found) < 2 and not cards[0].complete


def test_what_cannot_be_looked_at_is_told_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    looked = card("pass", "skipped")
    assert verdict_of(looked) == "the one case passes" and not looked.failed
    print_card(Console(width=80, no_color=True), replace(looked, found=(
        looked.found[0], replace(looked.found[1], said="there is no emulator here"))))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  ? g/c1: not looked at: there is no emulator here" and lines[2] == "  g 1/1"
    print_comparison(Console(width=80, no_color=True), [looked, replace(looked, found=looked.found[:1])])
    assert capsys.readouterr().out.splitlines()[-1] == "  ? g/c1: not looked at: why (a)"


@pytest.mark.parametrize("ending", ["in order", "by an exception", "by kill -9"])
def test_a_setting_of_the_system_is_put_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never\n")
    what = {"in order": "pass", "by an exception": "1 / 0", "by kill -9": "os.kill(os.getpid(), 9)"}[ending]
    script = f"""if True:
        import os, pathlib
        from heapyard.execute.system_settings import changed
        with changed("{path}=always"):
            print(pathlib.Path("{path}").read_text(), flush=True)
            {what}
    """
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20).stdout
    assert told == "always\n"
    until = time.monotonic() + 20
    while path.read_text() != "madvise" and time.monotonic() < until:
        time.sleep(0.01)
    assert path.read_text() == "madvise"


def test_the_system_is_not_changed_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heapyard.execute.system_settings import require_permission
    from heapyard.model.errors import UsageError

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    require_permission([f"{tmp_path}/missing=1"])
    with pytest.raises(UsageError, match=f"only root may change {tmp_path}"):
        require_permission([f"{tmp_path}=1"])


def test_a_page_gets_what_was_found_between_its_marks(tmp_path: Path) -> None:
    from heapyard.report.check_markdown import write_between_marks

    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n")
    cases = [Found(CheckCase("g", "c", ""), "fail", f"lost {n} blocks of a_b", {}, 1.0) for n in (1, 22)]
    cards = [ReportCard(Allocator(f"heap{i}", "", f"1.{i}", None), (found,)) for i, found in enumerate(cases)]
    machine = {"cpu": {"model": "Some CPU"}, "cpus_online": 2, "kernel": "6.1", "distribution": "Debian"}
    write_between_marks(page, cards, machine, "quick")
    text = page.read_text()
    assert text.startswith("before\n<!-- m") and text.endswith("<!-- measured: end -->\nafter\n") and "old" not in text
    assert "- **g/c** (heap0, heap1): lost 1 blocks of a\\_b.\n" in text
    assert "heap0 1.0, heap1 1.1" in text and "Some CPU" in text and "0/1" in text


def test_a_hang_and_a_crash_are_answers() -> None:
    hung = run_case(case("latency/longest-call"), library("check_none"), "quick", limit=0.3)
    assert hung.verdict == "fail" and hung.said == "hangs: no answer after 0.3 s"
    crashed = run_case(case("conformance/malloc-alignment"), library("crash_late"), "quick")
    assert crashed.verdict == "fail" and crashed.said.startswith("dies of SIGSEGV")


def card(*verdicts: str) -> ReportCard:
    found = [Found(CheckCase("g", f"c{i}", ""), v, "why" if v != "pass" else "", {}, 0.1) for i, v in enumerate(verdicts)]
    return ReportCard(Allocator("a", "a", "1.0", Path("/a.so")), tuple(found))  # type: ignore[arg-type]


def test_verdicts_in_words() -> None:
    assert verdict_of(card("pass", "pass", "information")) == "all 2 cases pass"
    assert verdict_of(card("pass", "note")) == "all 2 cases pass, with 1 note"
    assert verdict_of(card("pass", "fail", "note")) == "1 of 3 cases fail"
    assert verdict_of(card("pass")) == "the one case passes"
    assert verdict_of(replace(card("fail"), complete=False)) == "the one case fails; the check was interrupted"
    assert verdict_of(card("information")) == "no case was judged"
    assert [short(w) for w in ("unnoticed", "stops: double free", "gives a block out twice", "crashes", "hangs", "")] == [
        "-", "stops", "reissued", "crash", "hangs", "?"]


def test_cards_fit_80_columns_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    console = Console(width=80, no_color=True)
    long = Found(CheckCase("conformance", "alignments", ""), "fail", "posix_memalign " * 12, {}, 0.1)
    cards = [ReportCard(Allocator(f"google-tcmalloc-perthread-{i}", "", "2025-06-16", None), (long,)) for i in range(2)]
    for each in cards:
        print_card(console, each)
    print_comparison(console, cards)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("    ")  # what goes on is indented


def test_the_longest_calls_are_drawn_and_their_growth_is_named(tmp_path: Path) -> None:
    from heapyard.report.figures.calls import write_calls
    from heapyard.report.report_card import law_of_calls

    facts = {f"longest_call_{n}": (50.0 * n, "instructions") for n in (1000, 3000, 10_000, 30_000, 100_000, 300_000)}
    found = Found(CheckCase("latency", "longest-call", ""), "pass", "", facts, 1.0)
    drawn = ReportCard(Allocator("slow", "slow", "1", None), (found,))
    assert law_of_calls(drawn).startswith("at most 15,000,000 instructions up to 300,000 blocks; best law O(n), slope 1.00")
    write_calls(tmp_path / "calls.svg", [drawn])
    text = (tmp_path / "calls.svg").read_text()
    assert text.startswith("<svg") and text.count("slow") >= 1 and "blocks in the heap" in text


@pytest.mark.parametrize("heap", [h for h in own_heaps() if h.gives_up], ids=lambda heap: heap.name)
def test_an_ablation_shows_what_it_gives_up(heap):
    """Were the case to pass, the declaration in heap/CMakeLists.txt would be stale."""
    for label in heap.gives_up:
        [case] = chosen_cases((label,))
        found = run_case(case, heap, "usual")
        assert found.verdict == "note" and "gives up" in found.said
        undeclared = run_case(case, replace(heap, gives_up=()), "usual")
        assert undeclared.verdict == "fail"


def test_the_time_left_goes_by_what_a_case_took_under_the_allocators_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], list[str]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = _Progress(["quick", "slow"] * 3)
    monkeypatch.setattr(progress, "tell", told.append)
    for seconds in (1, 9) * 3:
        progress.say("")
        now[0] += seconds
        progress.advance()
    assert told[0] == "case 1/6: " and [t.split(", ")[1] for t in told[2:]] == [f"about {n} s left: " for n in (20, 19, 10, 9)]
