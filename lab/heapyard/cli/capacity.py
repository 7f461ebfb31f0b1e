# SPDX-License-Identifier: Apache-2.0
"""`heapyard capacity`: the highest rate of requests at which a server keeps its limits, under each allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..model.errors import UsageError
from .consoles import remark
from .options import Cpus, Duration, Share, manner, storing_options
from .own_command import WithCommand
from .server_options import server_options

BUDGET = 600.0  # seconds, unless said otherwise
PRECISION = 0.03  # half-width of every interval at which the search ends
START = 100  # requests a second, where the doubling begins
MARGIN = 0.05
MOST_BLOCKS = 200


@click.command(cls=WithCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--slo", "limits", multiple=True, required=True, metavar="LIMIT,...",
              help="What must hold, such as p99=5ms,failed=0.1%; of p50, p99.9, mean, max, failed or a --metric.")
@server_options
@click.option("--start", type=click.IntRange(1), default=START, show_default=True, metavar="N",
              help="Requests per second at which the search begins.")
@click.option("--precision", type=Share(), default=PRECISION, metavar="SHARE",
              help="Half-width of every interval at which the search ends (default 3%).")
@click.option("--budget", type=Duration(), default=BUDGET, help="Time for the whole search (default 10m).")
@click.option("--margin", type=Share(), default=MARGIN, help="Differences below this count as none (default 5%).")
@click.option("--allocator", "libraries", multiple=True, metavar="NAME=LIBRARY", help="A malloc library of your own.")
@click.option("--baseline", default="glibc", show_default=True, metavar="NAME", help="What the others are compared with.")
@click.option("--timeout", type=Duration(), help="Longest a trial may take (default: 5m).")
@click.option("--pin", type=Cpus(), help="Run the server on these CPUs, such as 0,1.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of all random orders (default: fresh, stored).")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Add to your command's environment.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="FOLDER", help="Where your command runs (default: here).")
@click.option("--title", metavar="TEXT", help="Title of the experiment.")
@storing_options
@click.pass_context
def command(ctx: click.Context, /, names: tuple[str, ...], **options: Any) -> int:
    """Find the highest rate of requests at which your server keeps its limits, under each allocator.

    The load sends {rate} requests per second. The baseline's rate is doubled until a limit breaks. Then blocks in random
    order give each allocator a trial at a rate of its own, which closes in on its capacity. A NAME is an allocator.

    A load generator that sends at a rate of its own tells most: vegeta, wrk2, pgbench --rate, sysbench --rate.

    \b
    Examples:
      heapyard capacity --slo p99=5ms --load 'wrk2 -t2 -c64 -d10s -R{rate} -L http://127.0.0.1:{port}/'
        -- ./server --port {port}
      heapyard capacity jemalloc --slo p99=5ms,failed=0.1% --budget 20m --load 'echo GET http://127.0.0.1:{port}/ |
        vegeta attack -duration=5s -rate={rate} | vegeta report' -- ./server {port}
    """
    from ..api.assemble import assemble
    from .conduct import conduct

    how = manner(*(options.pop(name) for name in ("output", "json_", "quiet", "no_html", "wait")))
    return conduct(assemble(_study(names, ctx.meta["command"], **options), say=remark), how)


def _study(names: tuple[str, ...], own: tuple[str, ...] | None, **options: Any) -> Any:
    """The options in the words of a study."""
    from ..catalog.allocators import parse_allocator_option
    from ..catalog.limits import parse_limits
    from ..catalog.server_command import parse_reading
    from ..catalog.study import Command, Library, Study
    from ..catalog.wrapped_command import program_name
    from .options import name_and_value
    from .server_options import load_of

    if not own:
        raise UsageError("the server's command goes after --",
                         remedy="For example: heapyard capacity --slo p99=5ms --load '...' -- ./server --port {port}")
    if not options["load"]:
        raise UsageError("--load is missing: it says what sends {rate} requests per second")
    load = load_of(options, searched=True)
    assert load is not None
    libraries = {name: Library(path) for name, path in map(parse_allocator_option, options["libraries"])}
    given = {
        "limits": parse_limits(options["limits"], tuple(map(parse_reading, load.metrics))),
        "start_rate": float(options["start"]),
        "precision": options["precision"],
        "budget": options["budget"],
        "margin_time": options["margin"],
        "max_blocks": MOST_BLOCKS,
        "timeout": options["timeout"],
        "cpus": options["pin"],
        "seed": options["seed"],
    }
    env = dict(name_and_value("--env", text) for text in options["env"])
    return Study(
        title=options["title"] or "",
        allocators=tuple(dict.fromkeys((*names, *libraries))) if names or libraries else (),
        baseline=options["baseline"],
        settings={name: value for name, value in given.items() if value is not None},
        commands={program_name(own): Command(own, None, env, options["cwd"], 0, "exit", load)},
        libraries=libraries,
    )
