# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile`: memory of every call chain over time."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from ...model.errors import UsageError
from ...model.shared import LEAST_TRACE_BYTES, MOST_FRAMES, MOST_LOG2_INTERVAL
from ..options import Duration

# name -> (module, help line)
PARTS = {
    "show": ("heapyard.cli.profile.show", "Show who owned the memory at the peak, at the end or at an instant."),
    "diff": ("heapyard.cli.profile.diff", "Compare two profiles, or two instants of one, by call chain."),
    "export": ("heapyard.cli.profile.export", "Write a profile for pprof, Perfetto, speedscope, heaptrack, massif, or as CSV."),
    "list": ("heapyard.cli.profile.list", "List the profiles on this machine."),
}


class _ProfileGroup(click.Group):
    """`profile -- COMMAND` runs a command; `profile show` and the like deal with what was recorded."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PARTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return importlib.import_module(PARTS[cmd_name][0]).command if cmd_name in PARTS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["command"] = None
        if "--" in args and (not args or args[0] not in PARTS):
            at = args.index("--")
            ctx.meta["command"], args = tuple(args[at + 1 :]), args[:at]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in PARTS:
            raise UsageError(f"'{args[0]}' is no part of profile", remedy="The command to profile goes after --.")
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] -- COMMAND [ARGUMENT]...")
        formatter.write_usage(ctx.command_path, "[OPTIONS] --attach PID", prefix="       ")
        formatter.write_usage(ctx.command_path, f"[{'|'.join(PARTS)}] ...", prefix="       ")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Parts"):
            formatter.write_dl([(name, line) for name, (_, line) in PARTS.items()])


class _Size(click.ParamType):
    """`64K`, `1M`, `2G` or a number of bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().upper().removesuffix("IB").removesuffix("B")
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        try:
            return int(float(text.rstrip("KMG")) * factor)
        except ValueError:
            raise click.BadParameter(f"'{value}' is not a size; write for example 64K or 256M", ctx=ctx, param=param) from None


@click.command(cls=_ProfileGroup, invoke_without_command=True)
@click.option("--mode", type=click.Choice(["sampled", "exact", "pages"]), default="sampled", show_default=True,
              help="Sample by bytes; record every allocation and free; or record what the heap itself takes (our heaps).")
@click.option("--interval", type=_Size(), default="64K", show_default=True, metavar="SIZE",
              help="Mean bytes between two samples; rounded up to a power of two.")
@click.option("--attach", type=click.IntRange(1), metavar="PID",
              help="Trace a running process; Ctrl-C ends the tracing, not the process.")
@click.option("--for", "seconds", type=Duration(), metavar="TIME", help="With --attach: how long, as in 30s or 5m.")
@click.option("--allocator", metavar="NAME", help="Run the command under this allocator of the catalog.")
@click.option("--depth", type=click.IntRange(1, MOST_FRAMES), default=128, show_default=True, metavar="N",
              help="Largest number of frames of a call chain.")
@click.option("--limit", type=_Size(), default="256M", show_default=True, metavar="SIZE", help="Largest size of a trace.")
@click.option("--never-step", is_flag=True, help="Exact: let the program wait, instead of stepping down to sampling.")
@click.option("--python", is_flag=True,
              help="Record Python's small objects too, each by the function that made it. It runs slower then.")
@click.option("--native", is_flag=True, help="Show the interpreter's functions too, where a script's are named.")
@click.option("-o", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Copy the main trace there.")
@click.option("--no-html", is_flag=True, help="Write no page.")
@click.option("--json", "json_", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def command(
    ctx: click.Context, mode: str, interval: int, attach: int | None, seconds: float | None, allocator: str | None, depth: int,
    limit: int, never_step: bool, python: bool, native: bool, file: Path | None, no_html: bool, json_: bool,
) -> int:
    """Show the memory of every call chain over time, of any program under any allocator.

    Every process that the command starts gets a trace, a file of its own. If a program crashes or is killed, its trace is
    complete until then. With --attach, the trace of a running process begins at that moment.

    \b
    Examples:
      heapyard profile -- ./server --selftest
      heapyard profile --mode exact -- jq . data.json
      heapyard profile --python -- python3 script.py
      heapyard profile --attach 4711 --for 5m
      heapyard profile show --top 20
    """
    if ctx.invoked_subcommand is not None:
        return 0
    words = ctx.meta["command"]
    if not words and attach is None:
        raise UsageError("say what to profile", remedy="The command goes after --, as in: heapyard profile -- ./prog")
    if words and attach is not None:
        raise UsageError("give either --attach or a command")
    if attach is None and seconds is not None:
        raise UsageError("--for says how long to stay attached", remedy="It goes with --attach PID.")
    if attach is not None and allocator is not None:
        raise UsageError("--allocator cannot change the allocator of a running process", remedy="Leave out --allocator.")
    if python and mode == "pages":
        raise UsageError("--python records objects, and --mode pages records none", remedy="Leave out one of them.")
    if limit < LEAST_TRACE_BYTES:
        raise UsageError(f"--limit must be at least {LEAST_TRACE_BYTES >> 10}K")
    if not 2 <= interval <= 1 << MOST_LOG2_INTERVAL:
        raise UsageError("--interval must be between 2 bytes and 1024 GiB")
    from ...execute.collector import Plan
    from .run import Telling, attached, profiled

    plan = Plan(words or (), mode, 1 << (interval - 1).bit_length(), depth, limit, never_step, python=python)
    telling = Telling(file, no_html, json_, native)
    if attach is not None:
        return attached(attach, seconds, plan, telling)
    return profiled(plan, allocator, telling)
