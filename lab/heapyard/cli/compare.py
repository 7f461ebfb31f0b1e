# SPDX-License-Identifier: Apache-2.0
"""`heapyard compare`: compare allocators on real programs, or on a command of the user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from ..model import places
from ..model.errors import UsageError
from ..model.experiment import Interleave
from ..model.fleet import Fleet
from .consoles import remark
from .fleet_options import fleet_options, taken
from .options import Cpus, Duration, Margins, Share, change_system_option, manner, manner_options, name_and_value
from .own_command import WithCommand
from .server_options import comparison_options, load_of, server_options


@click.command(cls=WithCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--programs", multiple=True, metavar="NAME,...", help="Programs to run; NAME:full for the full size.")
@click.option("--allocators", multiple=True, metavar="NAME,...", help="Allocators to compare; all: every installed one.")
@click.option("--allocator", "libraries", multiple=True, metavar="NAME=LIBRARY", help="A malloc library of your own.")
@click.option(
    "--baseline", default="glibc", show_default=True, metavar="NAME", help="What the others are compared with."
)
@click.option("--full", is_flag=True, help="Run the catalog's programs at full size.")
@click.option("--precision", type=Share(), help="Wanted half-width of a time ratio's interval (default 1%).")
@click.option(
    "--budget", type=Duration(), help="Time for the whole experiment (default 4m; no limit with --precision)."
)
@click.option("--blocks", type=click.IntRange(1), metavar="N", help="Run exactly this many blocks, whatever the noise.")
@click.option("--pilot", type=click.IntRange(2), metavar="N", help="Blocks that measure the noise (default 6).")
@click.option("--margin", type=Margins(), help="Differences below this count as none (default 2%,5%).")
@click.option("--timeout", type=Duration(), help="Longest a trial may take (default: 20 times the first launch).")
@click.option("--pin", type=Cpus(), help="Run every trial on these CPUs, such as 0,1.")
@click.option(
    "--interleave",
    type=click.Choice(get_args(Interleave)),
    help="Run the trials of a block one after another, or in turns of a few milliseconds (default: whichever is more precise).",
)
@click.option("--slice", "slice_", type=click.FloatRange(0.5, 1000), metavar="MS", help="Length of a slice (default: 5 to 50 ms).")
@click.option(
    "--thp",
    metavar="LEVEL,...",
    help="Transparent huge pages, one level or several as a factor: default, always, madvise, never.",
)
@change_system_option
@click.option("--tracer", metavar="LEVEL,...", help="The heap profiler as a factor: off, sampled, exact, pages.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of all random orders (default: fresh, stored).")
@click.option("--count-syscalls", is_flag=True, help="Count mmap, munmap, madvise and brk in separate launches.")
@click.option("--count-instructions", is_flag=True, help="Count instructions.")
@click.option("--explain-memory", is_flag=True, help="Trace each program once more under each: where its memory lies.")
@click.option("--stdin", metavar="FILE", help="Standard input of your command; - reads Heapyard's own.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Add to your command's environment.")
@click.option(
    "--cwd", type=click.Path(path_type=Path), metavar="FOLDER", help="Where your command runs (default: here)."
)
@click.option("--expect-exit", type=click.IntRange(0, 255), metavar="N", help="Exit code of a right run (default 0).")
@click.option(
    "--check", type=click.Choice(["output", "exit"]), help="What decides that a run is right (default: output and exit code)."
)
@server_options
@comparison_options
@click.option("--title", metavar="TEXT", help="Title of the experiment.")
@fleet_options
@manner_options
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> int:
    """Compare allocators on real programs, or on your own command.

    A NAME is a program (g++, jq:full) or an allocator (jemalloc, glibc:tcache=0). Without names, a balanced set of programs
    runs under the allocators that lead the field, in four minutes. Heapyard installs these allocators the first time.

    \b
    Examples:
      heapyard compare
      heapyard compare jemalloc mimalloc -- ./server --selftest
      heapyard compare g++ jq --precision 0.5%
      heapyard compare --allocator mine=./libmine.so --stdin data.json -- jq .
      heapyard compare sqlite jemalloc --thp always,never --change-system
      heapyard compare --load 'wrk -t2 -c64 -d10s --latency http://127.0.0.1:{port}/' -- ./server --port {port}
    """
    from ..api.assemble import assemble
    from .conduct import conduct
    from .more import mention_more_allocators

    explain, fleet = options.pop("explain_memory"), taken(options)(Fleet())
    how = manner(*(options.pop(name) for name in ("output", "json_", "quiet", "no_html", "wait", "prefer", "memory_limit")))
    study = _study(names, ctx.meta["command"], how.output, **options)
    study = replace(study, settings={**study.settings, "fleet": fleet})
    how = replace(how, explain=explain)
    experiment = assemble(study, full=options["full"], say=remark)
    code = conduct(experiment, how)
    if not (how.quiet or study.allocators):
        mention_more_allocators({t.allocator.base for t in experiment.treatments})
    return code


def _study(names: tuple[str, ...], own: tuple[str, ...] | None, output: Path | None, **options: Any) -> Any:
    """The options in the words of a study."""
    from ..catalog.allocators import load_allocators, parse_allocator_option
    from ..catalog.programs import load_programs
    from ..catalog.study import Library, Study
    from .naming import sort_names, split_list

    libraries = {name: Library(path) for name, path in map(parse_allocator_option, options["libraries"])}
    programs, allocators = split_list(options["programs"]), split_list(options["allocators"])
    if names:
        named_programs, named_allocators = sort_names(names, load_programs(), [*load_allocators(), *libraries])
        programs, allocators = (*programs, *named_programs), (*allocators, *named_allocators)
    if own is not None and programs:
        raise UsageError(f"give either programs of the catalog ({programs[0]}) or a command after --, not both")
    if allocators:
        allocators = tuple(dict.fromkeys((*allocators, *libraries)))
    given = {
        "precision": options["precision"],
        "budget": options["budget"],
        "blocks": options["blocks"],
        "pilot_blocks": options["pilot"],
        "timeout": options["timeout"],
        "cpus": options["pin"],
        "interleave": options["interleave"] or ("trials" if options["blocks"] else "auto"),
        "slice": options["slice_"] and options["slice_"] / 1000,
        "seed": options["seed"],
        "change_system": options["change_system"] or None,
        "count_syscalls": options["count_syscalls"] or None,
        "count_instructions": options["count_instructions"] or None,
        **(options["margin"] or {}),
    }
    return Study(
        title=options["title"] or "",
        programs=programs,
        allocators=allocators,
        baseline=options["baseline"],
        settings={name: value for name, value in given.items() if value is not None},
        factors={name: split_list([options[name]]) for name in ("thp", "tracer") if options[name] is not None},
        commands=own_command(own, output, options),
        libraries=libraries,
    )


def own_command(own: tuple[str, ...] | None, output: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """The command after `--` under the name it is shown by; UsageError for options that only make sense with one."""
    from ..catalog.study import Command
    from ..catalog.wrapped_command import program_name
    from .standard_input import spool_stdin

    load = load_of(options)
    if load and (options["count_syscalls"] or options["count_instructions"]):
        raise UsageError("--count-syscalls and --count-instructions need a program that ends by itself, not a server under --load")
    if own is None:
        if load:
            raise UsageError("--load is for your own server, whose command goes after --")
        alone = next((o for o in ("stdin", "env", "cwd", "expect_exit", "check") if options[o] not in (None, ())), None)
        if alone:
            raise UsageError(f"--{alone.replace('_', '-')} is for your own command, which goes after --")
        return {}
    if not own:
        raise UsageError("there is no command after --", remedy="For example: heapyard compare -- ./program argument")
    stdin = options["stdin"]
    path = None if stdin is None else spool_stdin(output or places.results()) if stdin == "-" else Path(stdin)
    env = dict(name_and_value("--env", text) for text in options["env"])
    return {
        program_name(own): Command(
            own, path, env, options["cwd"], options["expect_exit"] or 0, options["check"] or "output", load
        )
    }
