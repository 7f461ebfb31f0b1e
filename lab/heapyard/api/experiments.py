# SPDX-License-Identifier: Apache-2.0
"""What the verbs compare, run, resume and results do, for Python.

    import heapyard

    found = heapyard.compare(["jq", ".", "big.json"], allocators=["jemalloc", "mimalloc"], budget=60)
    print(found.headline)
    found.ratios()      # a data frame
    found.report("jq.html")

Every function raises heapyard.HeapyardError with one sentence where the command line would print it. Nothing is printed;
`say` is told what the command line remarks. Ctrl-C ends an experiment in order: its outcome then has the status
`interrupted`, and `resume` goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import places
from ..model.errors import UsageError
from .assemble import assemble, silent
from .fleet.usage import check_fleet
from .measuring import measure, opened
from .outcome import Outcome

if TYPE_CHECKING:
    from ..catalog.study import Study
    from ..execute.loop.watcher import Watcher
    from ..model.experiment import Experiment
    from ..store import Listed, StoredJournal

Say = Callable[[str], None]
PathLike = str | os.PathLike[str]


def compare(
    command: Sequence[str] = (),
    *,
    programs: Sequence[str] = (),
    allocators: Sequence[str] = (),
    libraries: Mapping[str, PathLike] = {},
    baseline: str = "glibc",
    env: Mapping[str, str] = {},
    cwd: PathLike | None = None,
    stdin: PathLike | None = None,
    expect_exit: int = 0,
    full: bool = False,
    title: str = "",
    output: PathLike | None = None,
    wait: bool = False,
    say: Say = silent,
    watcher: Watcher | None = None,
    **settings: Any,
) -> Outcome:
    """Race allocators on `command`, or on programs of the catalog (default: the usual ones).

    `libraries`: malloc libraries of your own by name. `output`: the folder of experiments, if not the usual one. `wait`: for
    another experiment to end. `settings`: fields of model.experiment.Settings such as blocks, budget (seconds), precision
    (0.01 is one percent), seed, cpus. Time: the budget, four minutes unless `blocks` or `precision` says otherwise.
    """
    from ..catalog.study import Command, Library, Study
    from ..catalog.wrapped_command import program_name

    if command and programs:
        raise UsageError("give either programs of the catalog or a command, not both")
    own = {name: Library(Path(path)) for name, path in libraries.items()}
    commands = {}
    if command:
        where = None if cwd is None else Path(cwd)
        read = None if stdin is None else Path(stdin)
        commands[program_name(command)] = Command(tuple(command), read, dict(env), where, expect_exit)
    study = Study(
        title=title,
        programs=tuple(programs),
        allocators=tuple(dict.fromkeys((*allocators, *own))) if allocators else (),
        baseline=baseline,
        settings={"interleave": "trials" if settings.get("blocks") else "auto"} | settings,
        commands=commands,
        libraries=own,
    )
    return _carried_out(study, full=full, output=output, wait=wait, say=say, watcher=watcher)


def run(
    study: PathLike | Study,
    *,
    scale: str | None = None,
    output: PathLike | None = None,
    wait: bool = False,
    say: Say = silent,
    watcher: Watcher | None = None,
    **settings: Any,
) -> Outcome:
    """Carry out the experiment that a study file, or a Study, describes; `settings` in place of what it says itself."""
    from ..catalog.study import Study, read_study

    read = study if isinstance(study, Study) else read_study(places.studies(Path(study)), scale)
    changed = replace(read, settings={**read.settings, **settings})
    return _carried_out(changed, full=False, output=output, wait=wait, say=say, watcher=watcher)


def resume(
    experiment: str | Path = "last",
    *,
    output: PathLike | None = None,
    wait: bool = False,
    watcher: Watcher | None = None,
) -> Outcome:
    """Go on with an interrupted experiment, exactly as planned. HeapyardError when a library has changed since."""
    from ..store import find_folder, load_record, reopen
    from .libraries import check_libraries

    folder = experiment if isinstance(experiment, Path) else find_folder(experiment, _folder(output))
    stored = load_record(folder).experiment
    check_libraries(stored)
    return _measured(lambda: reopen(folder), "a resumed experiment", stored, resumed=True, wait=wait, watcher=watcher)


def load(experiment: str | Path = "last", *, output: PathLike | None = None) -> Outcome:
    """A stored experiment: its id, a beginning of it, its last word, `last`, or a path. O(its trials)."""
    from ..store import load_record

    return Outcome(load_record(experiment, _folder(output)))


def experiments(*, output: PathLike | None = None) -> list[Listed]:
    """Every stored experiment, newest first."""
    from ..store import list_records

    return list_records(_folder(output))


def _carried_out(
    study: Study, *, full: bool, output: PathLike | None, wait: bool, say: Say, watcher: Watcher | None
) -> Outcome:
    from ..store import create

    experiment = assemble(study, full=full, say=say)
    return _measured(
        lambda: create(experiment, _folder(output)), experiment.title, experiment, resumed=False, wait=wait, watcher=watcher
    )


def _measured(
    journal: Callable[[], StoredJournal], title: str, experiment: Experiment, *, resumed: bool, wait: bool, watcher: Watcher | None
) -> Outcome:
    from ..execute.loop.signals import stop_on_signals
    from ..store import load_record

    fleet = experiment.settings.fleet
    check_fleet(fleet, experiment)
    with opened(journal, title, fleet=fleet, wait=wait) as stored, stop_on_signals() as stop:
        measure(stored.journal, stored.experiment, resumed=resumed, watcher=watcher, stop=stop)
        outcome = Outcome(load_record(stored.journal.folder))
        if outcome.record.observations.rows:
            stored.journal.set_verdict(outcome.headline)
    return load(outcome.record.path)


def _folder(output: PathLike | None) -> Path | None:
    return None if output is None else Path(output)

