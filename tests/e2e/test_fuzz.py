# SPDX-License-Identifier: Apache-2.0
"""`heapyard fuzz` finds faults that are planted into our heaps, makes them short, and finds none in the heaps themselves.

HEAPYARD_OPERATIONS: how many each heap must bear in the long run on request, 10,000,000 unless said otherwise.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places
from heapyard.model.fuzz import Round, draw_round, parse_operations

LIMIT = 120  # seconds
# fault -> the round that finds it at once, whatever the machine does.
AT_ONCE = {
    "crooked": Round(1, 100_000), "stale": Round(1, 100_000), "stale-large": Round(1, 300_000), "wraps": Round(1, 400_000),
    "rounding": Round(1, 100_000), "usable": Round(1, 100_000), "grows": Round(1, 100_000), "grows-large": Round(1, 400_000),
    "half-moved": Round(1, 400_000), "twice": Round(1, 100_000), "no-errno": Round(1, 100_000), "free-errno": Round(1, 100_000),
    "fork-rewinds": Round(1, 400_000), "sticky": Round(1, 400_000),
}
LATER = ("trims-live", "fork-lock", "thread-end", "racy-cache", "untagged-stack", "lost-remote", "missed-failure", "interrupted")
OF_SCALLOC = ("split-updates", "forgets-tags", "forgets-epochs", "no-locks")
HEAP_OF = {**dict.fromkeys((*AT_ONCE, *LATER), "planted-heapyard"), **dict.fromkeys(OF_SCALLOC, "planted-scalloc")}


def library(name: str) -> Path:
    return places.native(f"lib{name}.so").resolve()


def played(heap: str, round_: Round, *words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_PRELOAD": str(library(heap)), **({"HEAPYARD_PLANTED": fault} if fault else {})}
    command = [str(places.native("fuzz_heap")), *round_.words, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)


def fuzz(folder: Path, *words: object, fault: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HEAPYARD_RESULTS": str(folder), **({"HEAPYARD_PLANTED": fault} if fault else {})}
    command = [sys.executable, "-I", "-m", "heapyard", "fuzz", *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)


@pytest.mark.parametrize("fault", AT_ONCE)
def test_a_planted_fault_is_found(fault: str) -> None:
    run = played("planted-heapyard", AT_ONCE[fault], fault=fault)
    assert run.returncode == 1, run
    assert json.loads(run.stdout)["finding"]


@pytest.mark.parametrize("name", ["planted-heapyard", "planted-scalloc", *(heap.name for heap in own_heaps())])
def test_a_heap_bears_what_comes(name: str) -> None:
    for round_ in (Round(11, 20_000), Round(12, 30_000, 3, signals=True), Round(13, 5_000, 2, turns=True)):
        run = played(name, round_)
        assert run.returncode == 0, (round_, run.stdout, run.stderr)


def test_a_round_is_what_it_prints(tmp_path: Path) -> None:
    for round_ in (Round(3, 5000), Round(4, 5000, 3, turns=True), Round(5, 6000, 3)):
        text = played("bfm", round_, "--print").stdout
        operations = parse_operations(text.splitlines(), "printed")
        assert "".join(f"{operation}\n" for operation in operations) == text
        assert {operation.thread for operation in operations} == set(range(round_.threads))
        assert 0.9 * round_.operations < len(operations) <= round_.operations
        (tmp_path / "file").write_text(text)
        again = played("bfm", Round(0, 0), *round_.ways, "--replay", str(tmp_path / "file"))
        assert json.loads(again.stdout) == {"operations": len(operations)}


def test_a_finding_is_short_and_comes_again(tmp_path: Path) -> None:
    run = fuzz(tmp_path, library("planted-heapyard"), "--operations", 1000, "--threads", "1", "--json", fault="usable")
    assert run.returncode == 1, run.stderr
    (answer,) = json.loads(run.stdout)
    finding = answer["findings"][0]
    assert finding["kind"] in ("contents", "usable", "overlap") and finding["shown"] == finding["tried"]
    assert len(finding["operations"]) <= 6
    folder = tmp_path / "fuzz" / "planted-heapyard.so"
    kept = sorted(folder.glob("*.operations"))
    assert kept and [path.with_suffix(".c").is_file() for path in kept]
    # To play again, under the same heap and under one without the fault.
    assert fuzz(tmp_path, library("planted-heapyard"), "--replay", kept[0], fault="usable").returncode == 1
    sound = fuzz(tmp_path, "bfm", "--replay", kept[0])
    assert sound.returncode == 0 and "nothing was found" in sound.stdout
    # Without Heapyard.
    program = tmp_path / "replay"
    source = next(path for path in kept if "release" in path.name or "malloc" in path.name).with_suffix(".c")
    subprocess.run(["cc", "-O1", "-fno-builtin", "-Wall", "-Werror", "-pthread", "-o", program, source], check=True)
    for fault, code in (("usable", 1), ("none", 0)):
        env = {"LD_PRELOAD": str(library("planted-heapyard")), "HEAPYARD_PLANTED": fault}
        run = subprocess.run([program], env=env, capture_output=True, text=True)
        assert run.returncode == code and run.stdout.strip(), fault


def test_a_new_campaign_begins_with_the_corpus(tmp_path: Path) -> None:
    files = sorted(places.corpus().glob("*.operations"))
    in_all = sum(len(parse_operations(file.read_text().splitlines(), str(file))) for file in files)
    assert {file.stem for file in files} == {"bfm", "elfmalloc", "heapyard", "scalloc"} and in_all > 1000
    words = ("bfm", "--operations", 1, "--threads", 1, "--json")
    first, second = (json.loads(fuzz(tmp_path, *words).stdout)[0]["operations_now"] for _ in range(2))
    assert (first, second) == (in_all + draw_round(1, 1).operations, draw_round(2, 1).operations)
    # What it finds is made as short as what a round finds.
    run = fuzz(tmp_path, library("planted-heapyard"), *words[1:], fault="no-errno")
    findings = json.loads(run.stdout)[0]["findings"]
    assert run.returncode == 1 and len(findings[0]["operations"]) <= 6
    assert list((tmp_path / "fuzz" / "planted-heapyard.so").glob("*-0.c")), "of no seed"


def test_a_program_in_c_forks_as_its_finding_does(tmp_path: Path) -> None:
    run = fuzz(tmp_path, library("planted-heapyard"), "--operations", 1000, "--threads", "1", fault="sticky")
    assert run.returncode == 1, run
    source, program = next((tmp_path / "fuzz" / "planted-heapyard.so").glob("*.c")), tmp_path / "replay"
    assert "end_of_child(child_" in source.read_text()
    subprocess.run(["cc", "-O1", "-fno-builtin", "-Wall", "-Werror", "-pthread", "-o", program, source], check=True)
    for fault, code in (("sticky", 1), ("none", 0)):
        env = {"LD_PRELOAD": str(library("planted-heapyard")), "HEAPYARD_PLANTED": fault}
        ended = subprocess.run([program], env=env, capture_output=True, text=True)
        assert ended.returncode == code and ended.stdout.strip(), (fault, ended)


def test_the_next_command_goes_on(tmp_path: Path) -> None:
    words = ("heapyard", "--operations", 50_000, "--threads", 1, "--json")
    first, second = (json.loads(fuzz(tmp_path, *words).stdout)[0] for _ in range(2))
    assert first["operations"] == first["operations_now"] >= 50_000
    assert second["operations"] == first["operations"] + second["operations_now"]
    afresh = json.loads(fuzz(tmp_path, *words, "--afresh").stdout)[0]
    assert afresh["operations"] == afresh["operations_now"] == first["operations"]
    state = tmp_path / "fuzz" / "heapyard" / "state.json"
    kept = state.read_text()
    state.write_text(kept[:40])
    damaged = fuzz(tmp_path, *words)
    assert damaged.returncode == 2 and "state.json is damaged" in damaged.stderr and "Traceback" not in damaged.stderr
    state.write_text(kept.replace('"library": "', '"library": "another'))
    assert json.loads(fuzz(tmp_path, *words).stdout)[0]["operations"] == first["operations"]


def test_an_interruption_keeps_what_was_played(tmp_path: Path) -> None:
    env = {**os.environ, "HEAPYARD_RESULTS": str(tmp_path)}
    command = [sys.executable, "-I", "-m", "heapyard", "fuzz", "heapyard", "--for", "1h"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state = tmp_path / "fuzz" / "heapyard" / "state.json"
    while not state.is_file() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "the same command goes on" in out
    assert json.loads(state.read_text())["operations"] > 0


@pytest.mark.parametrize(("words", "sentence"), [
    ((), "name allocators or libraries"),
    (("no-such",), "no-such"),
    (("bfm", "--for", "soon"), "'soon' is not a duration"),
    (("bfm", "--replay", "{file}"), "line 1: this is no operation"),
    (("bfm", "--replay", "{call}"), "line 1: this is no operation"),
    (("bfm", "--replay", "{file}", "--afresh"), "it goes with neither"),
])
def test_wrong_requests_get_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "file").write_text("0 malloc 1\n")
    (tmp_path / "call").write_text("0 what_is_this 1 2 3\n")
    given = [word.format(file=tmp_path / "file", call=tmp_path / "call") for word in words]
    run = fuzz(tmp_path, *given)
    assert run.returncode == 2 and sentence in run.stderr and "Traceback" not in run.stderr, run.stderr
    assert len(run.stderr.strip().splitlines()) <= 2


@pytest.mark.on_request
@pytest.mark.parametrize("fault", HEAP_OF)
def test_how_many_operations_find_a_planted_fault(fault: str) -> None:
    """A row of docs/measured/fuzz.md: rounds by their seeds, one after another."""
    operations, began = 0, time.monotonic()
    for seed in range(1, 400):
        round_ = draw_round(seed)
        try:
            run = played(HEAP_OF[fault], round_, fault=fault)
            found = json.loads(run.stdout) if run.returncode == 1 else {"finding": "crash", "operation": round_.operations}
        except subprocess.TimeoutExpired:
            run, found = None, {"finding": "hang", "operation": round_.operations}
        if run is None or run.returncode != 0:
            operations += min(round_.operations, found["operation"] * round_.threads)
            print(f"\n| {fault} | {operations:,} | {seed} | {found['finding']} | {time.monotonic() - began:.0f} |")
            return
        operations += round_.operations
    pytest.fail(f"{operations:,} operations did not find it")


@pytest.mark.on_request
@pytest.mark.parametrize("name", [heap.name for heap in own_heaps()])
def test_a_heap_bears_many(tmp_path: Path, name: str) -> None:
    operations = os.environ.get("HEAPYARD_OPERATIONS", "10_000_000").replace("_", "")
    env = {**os.environ, "HEAPYARD_RESULTS": os.environ.get("HEAPYARD_RESULTS", str(tmp_path))}
    command = [sys.executable, "-I", "-m", "heapyard", "fuzz", name, "--operations", operations]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    print(run.stdout, end="")
    assert run.returncode == 0
