# SPDX-License-Identifier: Apache-2.0
"""`heapyard tune`: which settings of an allocator suit a program, confirmed on blocks that the search never saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import store
from ..api.measuring import opened
from ..model.errors import EXIT_INTERRUPTED, EXIT_OK, HeapyardError, UsageError
from ..model.preference import Preference
from ..model.tuning import PHASES, SUITE, TuneAnswer
from ..model.units import counted
from .compare import own_command
from .conduct import Manner, run_trials
from .consoles import answers, remark
from .options import Cpus, Duration, Margins, Share, preference_options
from .own_command import WithCommand
from .server_options import rate_option, server_options

if TYPE_CHECKING:
    from ..model.allocator import Allocator
    from ..model.experiment import Experiment
    from ..model.record import Record
    from ..store import StoredJournal

USUAL = ("glibc", "jemalloc", "mimalloc", "tcmalloc")  # what most services run on


@click.command(cls=WithCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--setting", "own", multiple=True, metavar="NAME:OPTION=VALUE,...",
              help="Try these values, and of that allocator only options given so; repeatable.")
@click.option("--budget", type=Duration(), help="Time for the whole search (default 10m).")
@click.option("--precision", type=Share(), help="Wanted half-width of a time ratio's interval in the confirmation (default 1%).")
@click.option("--full", is_flag=True, help="Run the catalog's program at full size.")
@click.option("--margin", type=Margins(), help="Differences below this count as none (default 2%,5%).")
@click.option("--timeout", type=Duration(), help="Longest a trial may take (default: 20 times the first launch).")
@click.option("--pin", type=Cpus(), help="Run every trial on these CPUs, such as 0,1.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of all random orders (default: fresh, stored).")
@click.option("--stdin", metavar="FILE", help="Standard input of your command; - reads Heapyard's own.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Add to your command's environment.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="FOLDER", help="Where your command runs (default: here).")
@click.option("--expect-exit", type=click.IntRange(0, 255), metavar="N", help="Exit code of a right run (default 0).")
@click.option("--check", type=click.Choice(["output", "exit"]),
              help="What decides that a run is right (default: output and exit code).")
@server_options
@rate_option
@click.option("--resume", metavar="ID", is_flag=False, flag_value="last",
              help="Go on with an interrupted search, or show one again: an experiment of it, or the last.")
@click.option("--list", "list_", is_flag=True, help="Show the settings of the catalog, and run nothing.")
@preference_options
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER", help="Store the experiments there.")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
@click.option("--no-html", is_flag=True, help="Do not write the page of the search.")
@click.option("--quiet", is_flag=True, help="No progress, only the answer.")
@click.option("--wait", is_flag=True, help="Wait while another experiment runs on this machine.")
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> int:
    """Find the settings of an allocator that suit a program.

    A NAME is an allocator (jemalloc) or one program of the catalog (redis); your own command goes after --. Without an
    allocator, those that most services run on are searched: glibc, jemalloc, mimalloc and tcmalloc.

    The catalog names each allocator's settings. A designed few of all combinations are screened, the promising ones race, and
    the best is confirmed against the default on fresh blocks. That no setting helps is an answer too.

    \b
    Examples:
      heapyard tune jemalloc -- ./server --selftest
      heapyard tune glibc --budget 5m --prefer memory -- ./batch
      heapyard tune jemalloc --load 'wrk -d5s http://127.0.0.1:{port}/' -- ./server --port {port}
      heapyard tune --setting jemalloc:narenas=1,2,4 jemalloc redis
      heapyard tune --resume
    """
    how = Manner(options["output"], options["json_"], options["quiet"], not options["no_html"], options["wait"],
                 Preference(options["prefer"], options["memory_limit"]))
    if options["list_"]:
        return _list(names, how.json)
    if options["resume"] is not None:
        if names or ctx.meta["command"] is not None:
            raise UsageError("--resume goes on with a search as it was asked for; it takes no names and no command")
        return _search(_members(options["resume"], how.output), None, options["budget"], how)
    return _search([], _screening(names, ctx.meta["command"], how, **options), None, how)


def _screening(names: tuple[str, ...], given: tuple[str, ...] | None, how: Manner, **options: Any) -> Experiment:
    """The first phase of what the options ask for."""
    from ..api.tuning import BUDGET, begin
    from ..catalog.allocators import load_allocators
    from ..catalog.programs import load_programs
    from ..catalog.settings import spaces_of
    from ..catalog.study import Study
    from .naming import sort_names

    programs, allocators = sort_names(names, load_programs(), load_allocators())
    if given is None and len(programs) != 1:
        what = f"{len(programs)} programs were named ({', '.join(programs)})" if programs else "there is no program to tune for"
        raise UsageError(what, remedy="Name one program of the catalog, or give a command: heapyard tune jemalloc -- ./program")
    if given is not None and programs:
        raise UsageError(f"give either a program of the catalog ({programs[0]}) or a command after --, not both")
    settings = {
        "timeout": options["timeout"],
        "cpus": options["pin"],
        "seed": options["seed"],
        "precision": options["precision"],
        **(options["margin"] or {}),
    }
    study = Study(
        programs=programs,
        settings={name: value for name, value in settings.items() if value is not None},
        commands=own_command(given, how.output, {**options, "count_syscalls": False, "count_instructions": False}),
    )
    spaces = spaces_of(_allocators(allocators), options["own"], strict=bool(allocators))
    if not how.quiet:
        for space in spaces:
            remark(f"{space.allocator}: {counted(len(space.settings), 'setting')}, {space.combinations:,} combinations")
    return begin(study, spaces, budget=options["budget"] or BUDGET, preference=how.preference, full=options["full"], say=remark)


def _allocators(names: Sequence[str]) -> list[Allocator]:
    """Those that were named, each as it is by default, or the usual ones that are installed."""
    from ..catalog.allocators import find_allocators, installed_allocators

    variant = next((name for name in names if ":" in name), None)
    if variant is not None:
        raise UsageError(f"'{variant}' sets options; name the allocator alone, and give values by --setting")
    if names:
        return find_allocators(names)
    return [allocator for allocator in installed_allocators() if allocator.name in USUAL]


def _members(reference: str, parent: Path | None) -> list[Record]:
    """The phases of a search so far, by any of its experiments; UsageError where there is none."""
    from .suite import members_of

    found = [listed for listed in store.list_records(parent) if listed.suite.startswith(f"{SUITE} ")]
    if reference == "last":
        suite = found[0].suite if found else ""
    else:
        suite = next((listed.suite for listed in found if reference in (listed.id, listed.id.rpartition("-")[2])), "")
    if not suite:
        raise UsageError(f"there is no search '{reference}' to go on with" if found else "there is no search to go on with",
                         remedy="heapyard tune jemalloc -- ./program begins one.")
    return [store.load_record(listed.path) for listed in members_of(suite, parent)]


def _search(records: list[Record], new: Experiment | None, budget: float | None, how: Manner) -> int:
    """Carry out what is missing of a search, phase by phase, then print what is known; the exit code."""
    from ..api.libraries import check_libraries
    from ..api.tuning import SHARES, answer, following

    complete, interrupted = True, False
    if records and records[-1].status != "finished":
        check_libraries(records[-1].experiment)
        unfinished = records.pop()
        more = _with_budget(budget)
        records.append(_phase(lambda: store.reopen(unfinished.path), unfinished.experiment, records, how, change=more))
        interrupted = records[-1].status == "interrupted"
    while not interrupted:
        experiment, new = new or following(records, budget=budget), None
        if experiment is None:
            break
        try:
            records.append(_phase(partial(store.create, experiment, how.output), experiment, records, how))
        except HeapyardError as error:
            if not records:
                error.message = f"screening, {SHARES[PHASES[0]]:.0%} of the time: {error.message}"
                raise
            remark(" ".join(filter(None, (error.message, "To go on: heapyard tune --resume --budget 5m"))))
            complete = False
            break
        interrupted = records[-1].status == "interrupted"
    if not records[0].observations.rows:
        remark("interrupted before a block was complete")
    else:
        _show(answer(records, complete=complete and not interrupted), records, how)
    if interrupted:
        remark(f"interrupted in the {_phase_name(records)}; to go on: heapyard tune --resume {records[-1].id}")
        return EXIT_INTERRUPTED
    return EXIT_OK


def _phase(
    journal: Callable[[], StoredJournal], experiment: Experiment, before: Sequence[Record], how: Manner,
    change: Callable[[Experiment], Experiment] = lambda e: e,
) -> Record:
    """Run one experiment to its end, or to Ctrl-C, and keep what it says as its verdict."""
    from ..api.tuning import answer, tuning_of
    from ..report.tune_answer import headline

    phase = tuning_of(experiment).phase
    if not how.quiet:
        remark(f"phase {PHASES.index(phase) + 1} of {len(PHASES)}: {experiment.title}")
    title = experiment.title

    def waiting(who: str) -> None:
        remark(f"waiting for another experiment to end ({who})")

    with opened(journal, title, wait=how.wait, waiting=waiting, change=change) as stored:
        run_trials(stored.journal, stored.experiment, how, resumed=bool(stored.journal.plan()))
        record = store.load_record(stored.journal.folder)
        if record.observations.rows:
            stored.journal.set_verdict(headline(answer([*before, record], complete=phase == PHASES[-1])))
    return store.load_record(record.path)


def _with_budget(budget: float | None) -> Callable[[Experiment], Experiment]:
    """A phase that was cut short gets what it had left, or the budget that is given now."""
    if budget is None:
        return lambda experiment: experiment
    return lambda experiment: replace(experiment, settings=replace(experiment.settings, budget=budget))


def _phase_name(records: Sequence[Record]) -> str:
    from ..api.tuning import tuning_of

    return tuning_of(records[-1].experiment).phase


def _show(found: TuneAnswer, records: Sequence[Record], how: Manner) -> None:
    if how.json:
        from ..report.tune_json import tune_answer

        click.echo(json.dumps(tune_answer(found), indent=1))
    else:
        from ..report.tune_terminal import print_answer

        print_answer(answers(), found)
    if how.html:
        from .tune_page import write_page

        path = write_page(found, records)
        if not how.quiet:
            remark(f"report: {path}")


def _list(names: Sequence[str], json_: bool) -> int:
    """The catalog's settings as this machine has them."""
    from ..catalog.allocators import find_allocators, installed_allocators
    from ..catalog.settings import spaces_of, tunable_names

    known = tunable_names()
    wanted = find_allocators(names) if names else [a for a in installed_allocators() if a.name in known]
    spaces = spaces_of(wanted, strict=bool(names))
    if json_:
        click.echo(json.dumps([
            {"allocator": space.allocator, "settings": [
                {"name": s.name, "about": s.about, "default": s.default, "levels": s.levels, "since": s.since, "source": s.source}
                for s in space.settings]}
            for space in spaces
        ], indent=1))
        return EXIT_OK
    for space in spaces:
        answers().print(f"{space.allocator} ({space.settings[0].source})", style="bold", markup=False, soft_wrap=True)
        for setting in space.settings:
            levels = ", ".join(setting.levels)
            answers().print(f"  {setting.name}: {levels} (default {setting.default})", markup=False, soft_wrap=True)
            answers().print(f"      {setting.about}", markup=False, style="dim", soft_wrap=True)
    return EXIT_OK
