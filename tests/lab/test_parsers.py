# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes a reader is given, it answers with a result or with one sentence: no traceback, no hang, no gigabytes.

On request it goes on for minutes: HEAPYARD_FUZZ_SECONDS for each reader (docs/fuzz.md).
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from parser_damage import HITS, Hit
from parser_targets import CORPUS, Target, targets

from heapyard.model.errors import HeapyardError

EXAMPLES = 10  # of each reader in the normal suite
AT_ONCE = 500  # on request, between two looks at the clock
ADDRESS_SPACE = 1 << 30  # bytes that reading one small file may take
PROCESSOR_TIME = 10.0  # seconds: what takes as long does not end
LONGEST = 1500  # characters of a sentence

# Whose damaged files are an error: what once failed must not be taken for a result. The others do without the file, or
# tell what is wrong in another way.
REFUSING = {"blob", "fuzz-state", "memory-parts", "mutator-list", "operations", "program-card", "series", "stored-result", "study",
            "trace"}
HARMLESS = {"empty_scales"}

TARGETS = {target.name: target for target in targets()}


class Endless(Exception):
    """A reader has used up its processor time."""


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what does not end, and what takes gigabytes."""

    def end(*_: object) -> None:
        raise Endless

    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, limits[1]))
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_TIME)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def read(target: Target, data: bytes) -> bool:
    """Reads it, and says whether it was refused; fails unless that ends with a result or with a sentence."""
    folder = Path(tempfile.mkdtemp(prefix="parsers-"))
    try:
        with bounded():
            target.read(data, folder)
        return False
    except HeapyardError as error:
        assert error.message and error.message == error.message.strip() and "\n" not in error.message, error.message
        assert len(error.message) < LONGEST, error.message[:LONGEST]
        assert "\n" not in (error.remedy or "")
        return True
    finally:
        shutil.rmtree(folder)


def hunt(target: Target, first: int, examples: int) -> None:
    """Examples that follow from `first`; of those that fail the smallest is raised, and kept in the temporary folder."""
    phases = (Phase.generate, Phase.shrink)

    @seed(first)
    @settings(max_examples=examples, database=None, deadline=None, phases=phases, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 15), HITS)
    def one(sample: int, hits: list[Hit]) -> None:
        data = target.damaged(sample, hits)
        try:
            read(target, data)
        except BaseException as error:
            kept = Path(tempfile.gettempdir()) / f"heapyard-parser-{target.name}"
            kept.write_bytes(data)
            error.add_note(f"the input is {kept}; once mended, it belongs into {CORPUS / target.name}")
            raise

    one()


@pytest.mark.parametrize("name", TARGETS)
def test_valid_files_are_read(name: str, tmp_path: Path) -> None:
    """Read, not refused: damage done to what is refused as it is would tell nothing."""
    for number, sample in enumerate(TARGETS[name].samples()):
        (tmp_path / str(number)).mkdir()
        TARGETS[name].read(sample, tmp_path / str(number))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_is_read_or_refused(path: Path) -> None:
    refused = read(TARGETS[path.parent.name], path.read_bytes())
    assert refused == (path.parent.name in REFUSING and path.name not in HARMLESS), refused


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_or_refused_in_a_sentence(name: str) -> None:
    hunt(TARGETS[name], 1, EXAMPLES)


@pytest.mark.on_request
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_for_as_long_as_asked(name: str) -> None:
    end = time.monotonic() + float(os.environ.get("HEAPYARD_FUZZ_SECONDS", "60"))
    first = int(os.environ.get("HEAPYARD_FUZZ_SEED", "2"))
    while time.monotonic() < end:
        hunt(TARGETS[name], first, AT_ONCE)
        first += 1
