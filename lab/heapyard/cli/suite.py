# SPDX-License-Identifier: Apache-2.0
"""Running a folder of studies, one experiment after the other, and continuing such a run where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import EXIT_INTERRUPTED, EXIT_OK, HeapyardError, UsageError
from .consoles import remark

if TYPE_CHECKING:
    from ..catalog.study import Study
    from ..store import Listed
    from .conduct import Manner


@dataclass(frozen=True, slots=True)
class Member:
    """A study of the folder, ready to be run."""

    path: Path
    study: Study


def studies_in(folder: Path, scale: str | None, read: Callable[[Path, str | None], Study]) -> list[Member]:
    """Every study of a folder by file name; UsageError when it holds none, or for the first that is malformed.

    A study without the wanted scale runs as it is: a folder may mix studies that have one with studies that need none.
    """
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise UsageError(f"{folder}: there is no study file in this folder")
    found = [Member(path, _read(path, scale, read)) for path in paths]
    titles = [m.study.title for m in found]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise UsageError(f"{folder}: two studies have the title '{twice}'")
    return found


def run_suite(folder: Path, members: list[Member], scale: str | None, manner: Manner, *, resume: bool) -> int:
    """Run every study, then write one report over all of them; the exit code.

    What was measured is kept whatever happens: `resume` takes up the newest run of this folder and scale, skips what is
    finished and goes on with what was interrupted. A study that cannot be carried out is told and the rest go on.
    """
    from ..api.assemble import assemble
    from .conduct import conduct, go_on
    from ..api.libraries import check_libraries

    suite, done = _taken_up(folder, scale, manner.output) if resume else (_name(folder, scale), {})
    failed: list[str] = []
    for number, member in enumerate(members, start=1):
        earlier = done.get(member.study.title)
        if earlier and earlier.status == "finished":
            continue
        if not manner.quiet:
            remark(f"study {number} of {len(members)}: {member.study.title}")
        try:
            if earlier and earlier.status == "interrupted":
                from ..store import load_record

                check_libraries(load_record(earlier.path).experiment)
                code = go_on(earlier.path, manner)
            else:
                code = conduct(replace(assemble(member.study, say=remark), suite=suite), manner)
        except HeapyardError as error:
            remark(f"{member.path.name}: {error.message}")
            failed.append(member.path.name)
            continue
        if code == EXIT_INTERRUPTED:
            remark(f"to go on: heapyard run {folder}{f' --scale {scale}' if scale else ''} --resume")
            return code
        if code != EXIT_OK:
            failed.append(member.path.name)
    _conclude(suite, manner)
    if failed:
        raise HeapyardError(f"{len(failed)} of {len(members)} studies were not carried out: {', '.join(failed)}")
    return EXIT_OK


def newest_suite(name: str, parent: Path | None) -> list[Listed]:
    """The experiments of the newest suite whose name begins so; UsageError when there is none."""
    from ..store import list_records

    suites = [r for r in list_records(parent) if r.suite and f"{r.suite} ".startswith(f"{name} ")]
    if not suites:
        raise UsageError(f"no folder of studies '{name}' was run here", remedy=f"heapyard run studies/{name} does.")
    return members_of(max(suites, key=lambda r: r.created).suite, parent)


def members_of(suite: str, parent: Path | None) -> list[Listed]:
    """The experiments of a suite, in the order they were run."""
    from ..store import list_records

    return sorted((r for r in list_records(parent) if r.suite == suite), key=lambda r: r.created)


def _read(path: Path, scale: str | None, read: Callable[[Path, str | None], Study]) -> Study:
    own = read(path, None)
    return own if scale is None or not own.scale else read(path, scale)


def _name(folder: Path, scale: str | None) -> str:
    return f"{_prefix(folder, scale)}{time.strftime('%y%m%d-%H%M%S')}"


def _prefix(folder: Path, scale: str | None) -> str:
    return f"{folder.resolve().name} {scale + ' ' if scale else ''}"


def _taken_up(folder: Path, scale: str | None, parent: Path | None) -> tuple[str, dict[str, Listed]]:
    """The newest run of this folder and scale, and its experiments by title; UsageError when there is none."""
    from ..store import list_records

    prefix = _prefix(folder, scale)
    ours = [r for r in list_records(parent) if r.suite.rpartition(" ")[0] + " " == prefix]
    if not ours:
        raise UsageError(f"{folder}: there is no earlier run to go on with", remedy="Leave out --resume.")
    suite = max(ours, key=lambda r: r.created).suite
    return suite, {r.title: r for r in reversed(ours) if r.suite == suite}


def _conclude(suite: str, manner: Manner) -> None:
    """One page over all studies of the run, beside the first experiment's folder."""
    from ..model import places
    from ..report.suite import write_suite
    from ..stats.analyse import analyse
    from ..store import load_record

    records = [load_record(m.path) for m in members_of(suite, manner.output) if not m.problem]
    if not records or not manner.html:
        return
    parent = manner.output or places.results()
    path = parent / f"{suite.replace(' ', '-')}.html"
    write_suite(path, suite, [(analyse(r.observations), r) for r in records if r.observations.rows])
    if not manner.quiet:
        remark(f"report over all studies: {path}")
