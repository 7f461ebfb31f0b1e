"""Runs a command under the tracer and shows what came of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from ..model.errors import HeapyardError, UsageError
from .consoles import answers, remark


def profile(
    words: Sequence[str], mode: str, interval: int, allocator: str | None, depth: int, limit: int, never_step: bool,
    file: Path | None, no_html: bool, json_: bool,
) -> int:
    """The whole of `heapyard profile -- COMMAND`; the command's own exit code."""
    from ..profile.chains import Naming
    from ..profile.chunks import append_symbols
    from ..profile.library import main_trace
    from ..profile.symbols import frames_of, symbols_to_store
    from ..profile.terminal import show
    from ..profile.trace import load_trace
    from ..profile.tracing import Plan, new_folder, trace

    library, env = _allocator(allocator)
    if mode == "pages":
        _observable(library)
    plan = Plan(words, mode, interval, depth, limit, never_step, library, env)
    traced = trace(plan, new_folder(words[0]), _still_running)
    if not traced.traces:
        raise HeapyardError(
            f"{words[0]} was not traced", remedy="A static or set-user-ID program cannot be: no library can be loaded into it."
        )
    main = main_trace(list(traced.traces))
    loaded = load_trace(main)
    append_symbols(main, symbols_to_store(loaded))
    loaded = load_trace(main)
    if file is not None:
        shutil.copyfile(main, file)
    if json_:
        from ..profile.summary_json import summary

        click.echo(summary(loaded, Naming(loaded, frames_of(loaded))))
    else:
        show(answers(), loaded, Naming(loaded, frames_of(loaded)))
        if len(traced.traces) > 1:
            remark(f"{len(traced.traces)} processes were traced, this is the largest; heapyard profile show --all lists them")
    if not no_html:
        from ..profile.page import write_profile_page

        remark(f"page: {write_profile_page(main.with_suffix('.html'), loaded)}")
    remark(f"trace: {file or main}")
    if traced.exit_code != 0:
        remark(f"{words[0]} ended with exit code {traced.exit_code}")
    return traced.exit_code


def _still_running() -> None:
    remark("the command has ended, processes it started still run; Ctrl-C ends their tracing")


def _allocator(name: str | None) -> tuple[Path | None, dict[str, str] | None]:
    if name is None:
        return None, None
    import os

    from ..catalog.allocators import find_allocators

    found = find_allocators([name])[0]
    if found.library is None and name != "glibc":
        raise UsageError(f"allocator '{name}' is not a library to preload")
    return found.library, {**os.environ, **dict(found.env)}


def _observable(library: Path | None) -> None:
    """UsageError unless the library tells of its pages."""
    from ..catalog.elf import exported

    if library is None or not exported(library, ["heapyard_observe_pages"]):
        raise UsageError(
            "--mode pages needs a heap that tells of its pages",
            remedy="Give one of ours: --allocator bfm, scalloc, elfmalloc or fourth.",
        )
