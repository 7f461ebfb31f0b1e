# SPDX-License-Identifier: Apache-2.0
"""Files that travel with a block: what a node has stays, what it lacks comes by content, what cannot come refuses the block."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from yard import experiment

from heapyard.api.fleet.parcel import Parcel, read_parcel, write_parcel
from heapyard.api.fleet.parts import Part, Unfit, fit, lay_out, needed_by, parts_of
from heapyard.execute.library_identity import digest_of
from heapyard.execute.loop.errand import Errand
from heapyard.model import places
from heapyard.model.errors import HeapyardError
from heapyard.model.experiment import Block, Experiment, TrialOutcome
from heapyard.store.returned import read_returned, write_trial
from heapyard.store.sealed import Damaged, seal, unseal


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    """An experiment whose libraries and program are files."""
    here = tmp_path / "controller"
    here.mkdir()
    def file(name: str) -> Path:
        (here / name).write_text(f"content of {name}")
        return here / name
    what = experiment(programs=("one",))
    treatments = tuple(
        replace(t, allocator=replace(t.allocator, library=file(f"{t.allocator.name}.so"))) for t in what.treatments
    )
    program = replace(what.programs[0], command=(str(file("solver")), "-x", "/bin/true"), stdin=file("input"))
    return replace(what, treatments=treatments, programs=(program,))


def errand(made: Experiment) -> Errand:
    labels = tuple(t.label for t in made.treatments)
    block = Block(0, "main", 0, "one", labels, (0,) * len(labels))
    return Errand(block, made.programs[0], made.treatments, made.settings, (0, 1), (0.0,) * len(labels), 0.0, True)


def test_parts_are_what_a_block_needs(made: Experiment) -> None:
    parts = parts_of(made)
    kinds = {part.path.name: part.kind for part in parts}
    assert kinds["solver"] == kinds["input"] == "file" and kinds["swift.so"] == "library" and kinds["true"] == "system"
    assert kinds["trial"] == kinds["libheapyard_witness.so"] == "native"
    assert {p.path for p in needed_by(errand(made), parts)} == {p.path for p in parts}


def test_what_is_there_stays_and_what_differs_comes(made: Experiment, tmp_path: Path) -> None:
    parts, shared, here = parts_of(made), tmp_path / "shared", tmp_path / "node"
    lay_out(parts, shared)
    assert fit(errand(made), parts, shared, here, "n1") == (errand(made), [])
    solver = made.programs[0].command[0]
    Path(solver).write_text("another build")
    os.unlink(made.treatments[1].allocator.library)
    found, told = fit(errand(made), parts, shared, here, "n1")
    assert Path(found.program.command[0]).read_text() == "content of solver" and found.program.command[1:] == ("-x", "/bin/true")
    assert found.treatments[1].allocator.library.read_text() == "content of swift.so"
    assert found.treatments[1].allocator.library.name == "swift.so"
    assert found.treatments[0] == made.treatments[0] and told == []


def test_native_parts_come_as_a_whole(made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, shared = parts_of(made), tmp_path / "shared"
    lay_out(parts, shared)
    monkeypatch.setenv("HEAPYARD_BUILT", str(tmp_path / "elsewhere"))  # a node whose build is another one, or none
    _, told = fit(errand(made), parts, shared, tmp_path / "node", "n1")
    assert told == ["the lab's native parts came with the block"]
    assert places.native("trial").is_relative_to(tmp_path / "node") and os.access(places.native("trial"), os.X_OK)


@pytest.mark.parametrize("kind, name, told", [
    ("library", "libc.so.6", "n1 has another libc.so.6 than the machine that the experiment began on"),
    ("system", "jq", "n1 has no .*jq"),
    ("library", "gone.so", "n1 lacks .*gone.so, and the shared folder .* has no copy of it"),
])
def test_what_cannot_come_refuses_the_block(made: Experiment, tmp_path: Path, kind, name, told) -> None:
    part = Part(kind, tmp_path / name, "0" * 64)
    with pytest.raises(Unfit, match=told):
        fit(errand(made), [part], tmp_path / "shared", tmp_path / "node", "n1")


def test_a_damaged_copy_is_no_copy(made: Experiment, tmp_path: Path) -> None:
    part = Part("file", tmp_path / "input", "ab" * 32)
    (tmp_path / part.sha256).write_text("something else")
    with pytest.raises(Unfit, match="is damaged"):
        fit(errand(made), [part], tmp_path, tmp_path / "node", "n1")


def test_another_build_of_the_system_is_told(made: Experiment, tmp_path: Path) -> None:
    (tmp_path / "jq").write_text("1.7")
    _, told = fit(errand(made), [Part("system", tmp_path / "jq", "0" * 64)], tmp_path, tmp_path / "node", "n1")
    assert told == [f"{tmp_path / 'jq'} is another build"]


def test_a_parcel_comes_back_as_it_was_written(made: Experiment, tmp_path: Path) -> None:
    parcel = Parcel("261127-otter", "a test", "token", str(tmp_path), "0.1.0", "glibc 2.36", errand(made), parts_of(made), True)
    write_parcel(tmp_path / "block", parcel)
    assert read_parcel(tmp_path / "block") == parcel


def test_a_trial_comes_back_as_it_ended(tmp_path: Path) -> None:
    outcome = TrialOutcome("ok", metrics={"wall": 0.1 + 0.2}, series=[(0.5, 4096, -1)], result=b'{"a": 1}', tripped=("steal",))
    write_trial(tmp_path, 3, 1.0, 2.0, outcome)
    (trial,) = read_returned(tmp_path).trials
    assert (trial.position, trial.began, trial.seconds, trial.outcome) == (3, 1.0, 2.0, outcome)


@pytest.mark.parametrize("damage", [
    lambda c: c[: len(c) // 2], lambda c: b"", lambda c: c.replace(b"true", b"fals"), lambda c: c[:-9],
])
def test_a_seal_sees_damage(tmp_path: Path, damage) -> None:
    path = tmp_path / "a.json"
    seal(path, '{"whole": true}')
    assert unseal(path) == '{"whole": true}'
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(Damaged, match="cut off or damaged"):
        unseal(path)


def test_a_parcel_that_the_node_cannot_see_names_the_remedy(tmp_path: Path) -> None:
    from heapyard.api.fleet.agent import carry_out_block

    with pytest.raises(HeapyardError, match="cannot read the block's parcel") as told:
        carry_out_block(str(tmp_path / "nowhere"))
    assert "--shared" in (told.value.remedy or "")


def test_digests_follow_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = digest_of(tmp_path / "a")
    (tmp_path / "a").write_text("two")
    assert digest_of(tmp_path / "a") != first
