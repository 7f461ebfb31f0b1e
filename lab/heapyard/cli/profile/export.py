# SPDX-License-Identifier: Apache-2.0
"""`heapyard profile export`."""

from __future__ import annotations

import gzip
import importlib
import sys
from pathlib import Path

import click

from ...model.errors import HeapyardError, UsageError

# name -> (module, ending)
FORMATS = {
    "pprof": ("pprof", ".pb.gz"),
    "perfetto": ("perfetto", ".json"),
    "speedscope": ("speedscope", ".speedscope.json"),
    "heaptrack": ("heaptrack", ".gz"),
    "massif": ("massif", ".massif.out"),
    "collapsed": ("collapsed", ".txt"),
    "csv": ("csv", ".csv"),
}

_BOTH = ("pprof", "speedscope")  # live blocks and mappings


@click.command()
@click.argument("format_", metavar="FORMAT", type=click.Choice(list(FORMATS)))
@click.argument("profile", default="last", metavar="[PROFILE]")
@click.option("--at", "when", default="peak", show_default=True, metavar="INSTANT", help="peak, end, mark:NAME, or a time.")
@click.option("--process", type=int, metavar="PID", help="Show this process of the profile, not its largest.")
@click.option("--mapped", is_flag=True, help="What the program mapped and was resident, in place of live blocks.")
@click.option("-o", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write there; - for standard output.")
def command(format_: str, profile: str, when: str, process: int | None, mapped: bool, file: Path | None) -> None:
    """Write a profile for another tool.

    \b
    pprof       go tool pprof, Pyroscope, Parca: allocated over the run, in use and mapped at the instant
    perfetto    ui.perfetto.dev, chrome://tracing: counters over time of the largest call chains
    speedscope  speedscope.app: flame graphs of the instant, the peak, the end, all allocated, and mapped
    heaptrack   heaptrack_gui, heaptrack_print: bytes over time; its counts are not those of the program
    massif      ms_print, massif-visualizer: bytes over time
    collapsed   flamegraph.pl, inferno: the instant
    csv         bytes over time of the largest call chains, a column each; studies/plots/profile.gp draws them

    With --mapped these bytes are those of mappings, for formats that know one kind of memory only.
    """
    from ...profile.chains import Naming
    from ...profile.instants import at_instant
    from ...profile.library import load_main
    from ...profile.mapped import mappings_as_blocks
    from ...profile.symbols import frames_of

    if mapped and format_ in _BOTH:
        raise UsageError(f"{format_} has what was mapped beside what was allocated", remedy="Leave --mapped away.")
    trace = load_main(profile, process)
    module, ending = FORMATS[format_]
    renderer = importlib.import_module(f"heapyard.profile.exports.{module}")
    frames = frames_of(trace)
    trace = mappings_as_blocks(trace) if mapped else trace
    data: bytes = renderer.render(trace, Naming(trace, frames), at_instant(trace, when))
    target = file or Path(f"{trace.program}.{trace.meta['pid']}.heaptrack.gz" if format_ == "heaptrack"
                          else f"{trace.program}.{trace.meta['pid']}{ending}")
    if target.suffix == ".gz" and format_ == "heaptrack":
        data = gzip.compress(data, mtime=0)
    if str(target) == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        target.write_bytes(data)
    except OSError as error:
        raise HeapyardError(f"{target}: {error.strerror}") from None
    click.echo(target)
