# SPDX-License-Identifier: Apache-2.0
"""Runs a command under the tracer, or attaches to a process, and shows what came of it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...model.errors import HeapyardError, UsageError
from ...model.units import format_duration
from ..consoles import answers, remark

if TYPE_CHECKING:
    from ...execute.collector import Plan
    from ...profile.tracing import Traced


@dataclass(frozen=True, slots=True)
class Telling:
    """What is wanted of a profile: a copy of its trace, no page, a summary as JSON; a script's native functions too.
    """

    file: Path | None
    no_html: bool
    json: bool
    native: bool


def profiled(plan: Plan, allocator: str | None, telling: Telling) -> int:
    """The whole of `heapyard profile -- COMMAND`; the command's own exit code."""
    from ...catalog.own_heaps import sampled_variant, samples_itself
    from ...catalog.wrapped_command import program_name
    from ...profile.tracing import new_folder, trace
    from ...profile.untraced import why_untraced

    library, env = _allocator(allocator)
    if plan.mode == "pages":
        _observable(library)
    elif plan.mode == "sampled" and not plan.python:  # Python's objects are sampled in front of malloc
        library = sampled_variant(library) or library
    name = plan.command[0]
    if plan.python and plan.mode == "exact":  # its small objects come from malloc then
        env = {**(env or os.environ), "PYTHONMALLOC": "malloc"}
    plan = dataclasses.replace(plan, library=library, env=env, told_by_heap=samples_itself(library) and not plan.python)
    traced = trace(plan, new_folder(program_name(plan.command)), _still_running)
    if not traced.traces:
        reason, remedy = why_untraced(name)
        raise HeapyardError(f"not traced: {reason}", remedy=remedy)
    _tell(traced, telling)
    if traced.exit_code != 0:
        remark(f"{name} ended with exit code {traced.exit_code}")
    return traced.exit_code


def attached(pid: int, seconds: float | None, plan: Plan, telling: Telling) -> int:
    """The whole of `heapyard profile --attach PID`."""
    from ...profile.attaching import attach, check, observable_heap
    from ...profile.tracing import new_folder

    program = Path(check(pid)).name
    if plan.mode == "pages" and observable_heap(pid) is None:
        raise UsageError(f"process {pid} ({program}) does not run on a heap that reports its pages")
    limit = f" of {format_duration(seconds)}" if seconds is not None else ""
    on_terminal = sys.stderr.isatty()
    remark(f"attaching to process {pid} ({program}); Ctrl-C ends the tracing, not the process")

    def tick(elapsed: float) -> None:
        if on_terminal:
            print(f"\rheapyard: traced for {format_duration(elapsed)}{limit} ", end="", file=sys.stderr, flush=True)

    traced = attach(pid, plan, new_folder(program), seconds, tick)
    if on_terminal:
        print(file=sys.stderr)
    if not traced.traces:
        raise HeapyardError(f"process {pid} ({program}) left no trace")
    _tell(traced, telling)
    return 0


def _tell(traced: Traced, telling: Telling) -> None:
    from ...profile.chains import Naming
    from ...profile.chunks import append_symbols
    from ...profile.library import main_trace
    from ...profile.symbols import frames_of, symbols_to_store
    from ...profile.terminal import show
    from ...profile.trace import load_trace

    main = main_trace(list(traced.traces))
    append_symbols(main, symbols_to_store(load_trace(main)))
    loaded = load_trace(main)
    naming = Naming(loaded, frames_of(loaded), telling.native)
    if telling.file is not None:
        shutil.copyfile(main, telling.file)
    if telling.json:
        from ...profile.summary_json import summary

        click.echo(summary(loaded, naming))
    else:
        show(answers(), loaded, naming)
        if len(traced.traces) > 1:
            remark(f"{len(traced.traces)} processes were traced, this is the largest; heapyard profile show --all lists them")
    if not telling.no_html:
        from ...profile.page import write_profile_page

        remark(f"page: {write_profile_page(main.with_suffix('.html'), loaded, telling.native)}")
    remark(f"trace: {telling.file or main}")


def _still_running() -> None:
    remark("the command has ended, processes it started still run; Ctrl-C ends their tracing")


def _allocator(name: str | None) -> tuple[Path | None, dict[str, str] | None]:
    if name is None:
        return None, None
    from ...catalog.allocators import find_allocators

    found = find_allocators([name])[0]
    if found.library is None and name != "glibc":
        raise UsageError(f"allocator '{name}' is no library that can be preloaded")
    return found.library, {**os.environ, **dict(found.env)}


def _observable(library: Path | None) -> None:
    """UsageError unless the library reports its pages."""
    from ...catalog.elf import exported

    if library is None or not exported(library, ["heapyard_observe_pages"]):
        raise UsageError(
            "--mode pages needs a heap that reports its pages",
            remedy="Give one of ours: --allocator bfm, scalloc, elfmalloc or fourth.",
        )
