# SPDX-License-Identifier: Apache-2.0
"""Every program of the catalog, really launched: its answer is right, and the same under every allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from heapyard.catalog.allocators import load_allocators
from heapyard.catalog.programs import load_programs, prepare_program
from heapyard.execute.trial import run_trial
from heapyard.model.experiment import Settings, Treatment

LAUNCHES = 5
ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "tcmalloc")


def answer(name: str, allocator: str, folder: Path) -> str:
    """Digest of the answer of one launch that counted; a server's client is judged by its own regular expression."""
    folder.mkdir()
    treatment = Treatment(allocator, load_allocators()[allocator])
    outcome = run_trial(prepare_program(name), treatment, Settings(), pad=0, folder=folder)
    assert outcome.status == "ok", outcome.reason
    return outcome.answer


@pytest.mark.parametrize("name", [card.name for card in load_programs().values() if card.quick])
def test_a_program_of_the_default_set_gives_its_answer(name, tmp_path):
    assert load_programs()[name].status == "installed", load_programs()[name].reason
    assert answer(name, "glibc", tmp_path / "trial") or load_programs()[name].answer.output == "ignore"


@pytest.mark.slow
@pytest.mark.on_request
@pytest.mark.parametrize("name", list(load_programs()))
def test_answers_do_not_depend_on_launch_or_allocator(name, tmp_path):
    trials = [(allocator, n) for allocator in ALLOCATORS for n in range(LAUNCHES)]
    assert len({answer(name, allocator, tmp_path / f"{allocator}-{n}") for allocator, n in trials}) == 1
