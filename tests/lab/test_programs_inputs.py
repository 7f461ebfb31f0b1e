# SPDX-License-Identifier: Apache-2.0
"""Inputs of the real programs: the same bytes everywhere, generated once, repaired when damaged."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heapyard.catalog.program_inputs import ensure_input, generators, input_digest, input_key, run_generator
from heapyard.catalog.programs import load_programs
from heapyard.model import places
from heapyard.model.errors import HeapyardError, UsageError

# Small, but through every branch of each generator.
SMALL = {
    "corpus": {"documents": 50},
    "events": {"events": 60},
    "orders_xml": {"customers": 5, "orders": 30, "articles": 10},
    "postscript": {"pages": 3},
    "puzzles_smt2": {"schedules": 2, "jobs": 3, "machines": 3, "inversions": 1, "arrays": 1, "writes": 4},
    "repository": {"files": 5, "commits": 90},
}


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def generate(generator: str, folder: Path, hash_seed: str) -> dict[str, str]:
    folder.mkdir()
    arguments = [word for name, value in SMALL[generator].items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-s", "-B", generators() / f"{generator}.py", *arguments]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True)
    return contents(folder)


def test_every_generator_is_tried_and_used():
    scripts = {path.stem for path in generators().glob("*.py")} - {"dice"}
    assert scripts == set(SMALL) == {card.generator for card in load_programs().values() if card.generator}


@pytest.mark.parametrize("generator", SMALL)
def test_a_generator_writes_the_same_in_every_process_whatever_the_hash_seed(generator, tmp_path):
    first, second = generate(generator, tmp_path / "a", "1"), generate(generator, tmp_path / "b", "2")
    assert first and first == second


@pytest.mark.parametrize("generator", SMALL)
def test_a_seed_makes_a_difference(generator, tmp_path):
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        run_generator(generator, SMALL[generator] | {"seed": seed}, tmp_path / str(seed))
    assert contents(tmp_path / "1") != contents(tmp_path / "2")


def test_an_input_is_generated_once(state):
    said: list[str] = []
    first = ensure_input("corpus", {"documents": 5}, said.append)
    stamp = (first / "corpus.txt").stat().st_mtime_ns
    assert ensure_input("corpus", {"documents": 5}, said.append) == first
    assert (first / "corpus.txt").stat().st_mtime_ns == stamp
    assert said == ["generating the input corpus (documents 5)"]
    assert ensure_input("corpus", {"documents": 6}, said.append) != first


@pytest.mark.parametrize("damage", [
    lambda file: file.write_bytes(b"x" + file.read_bytes()[1:]),  # same length
    lambda file: file.write_bytes(file.read_bytes()[:-1]),
    lambda file: file.unlink(),
    lambda file: (file.parent / "manifest.json").write_text("{"),
])
def test_a_damaged_input_is_generated_again(state, damage):
    folder = ensure_input("corpus", {"documents": 5}, lambda line: None)
    before, digest = (folder / "corpus.txt").read_bytes(), input_digest(folder)
    damage(folder / "corpus.txt")
    assert ensure_input("corpus", {"documents": 5}, lambda line: None) == folder
    assert (folder / "corpus.txt").read_bytes() == before and input_digest(folder) == digest


def test_a_touched_but_unchanged_input_is_kept(state):
    folder = ensure_input("corpus", {"documents": 5}, lambda line: None)
    os.utime(folder / "corpus.txt", (1, 1))
    said: list[str] = []
    assert ensure_input("corpus", {"documents": 5}, said.append) == folder and said == []


def test_what_a_killed_run_left_behind_is_cleared_away(state):
    places.inputs().mkdir(parents=True)
    (places.inputs() / ".unfinished-old").mkdir()
    ensure_input("corpus", {"documents": 5}, lambda line: None)
    assert sorted(path.name.split("-")[0] for path in places.inputs().iterdir()) == [".lock", "corpus"]


def test_the_key_depends_on_generator_and_options_not_on_their_order():
    assert input_key("corpus", {"seed": 1, "words": 2}) == input_key("corpus", {"words": 2, "seed": 1})
    keys = {input_key("corpus", {}), input_key("corpus", {"seed": 2}), input_key("events", {})}
    assert len(keys) == 3


def test_mistakes_are_told_in_one_sentence(state):
    with pytest.raises(UsageError, match="there is no generator 'corpse'"):
        ensure_input("corpse", {}, print)
    with pytest.raises(HeapyardError, match=r"generator of the input corpus failed: .*arguments: --pages 3"):
        ensure_input("corpus", {"pages": 3}, lambda line: None)
    assert [path.name for path in places.inputs().iterdir() if not path.name.startswith(".")] == []


def test_a_state_that_cannot_hold_inputs_says_what_to_do(state, tmp_path):
    state.write_text("a file where a folder should be")
    with pytest.raises(HeapyardError) as caught:
        ensure_input("corpus", {"documents": 5}, lambda line: None)
    assert "cannot write inputs to" in caught.value.message and "HEAPYARD_STATE" in (caught.value.remedy or "")
