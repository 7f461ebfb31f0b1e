# SPDX-License-Identifier: Apache-2.0
"""Bringing stored experiments together, and saying anew what those that grew show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..model.errors import HeapyardError
from ..store import Merged, load_record, reopen
from ..store import merge as merge_stored
from .outcome import Outcome


def merge(sources: Sequence[Path], into: Path) -> Iterator[Merged]:
    """See store.merging; the verdict of an experiment that blocks were added to is that of all its blocks."""
    for merged in merge_stored(sources, into):
        if merged.outcome == "extended":
            _judge(merged.folder)
        yield merged


def _judge(folder: Path) -> None:
    try:
        record = load_record(folder)
        if record.observations.rows and not record.experiment.settings.limits:
            with reopen(folder) as journal:
                journal.set_verdict(Outcome(record).headline)
    except HeapyardError:
        pass  # the sentence in the list is a courtesy; heapyard show says what is wrong
