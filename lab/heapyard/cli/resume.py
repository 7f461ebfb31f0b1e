# SPDX-License-Identifier: Apache-2.0
"""`heapyard resume`: continue an interrupted experiment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ..model.errors import UsageError
from ..model.experiment import Experiment
from .fleet_options import fleet_options, taken
from .options import Duration, change_system_option, manner, manner_options


@click.command()
@click.argument("experiment", default="last", metavar="[EXPERIMENT]")
@click.option("--budget", type=Duration(), help="Time for the whole experiment, with the time already spent.")
@change_system_option
@fleet_options
@manner_options
def command(experiment: str, budget: float | None, change_system: bool, **options: Any) -> int:
    """Continue an interrupted experiment, exactly as planned.

    A block that was cut short starts afresh. An experiment that used up its budget continues with a larger
    --budget. Heapyard refuses to resume if a library has changed since. On a fleet, blocks that came back meanwhile are taken
    in, and those that are still queued or run are waited for.

    \b
    Examples:
      heapyard resume
      heapyard resume otter
      heapyard resume 261120-1432 --budget 20m
    """
    from ..store import find_folder, load_record
    from ..store.records import plan_of
    from .capacity_answer import is_search, ran_out
    from .conduct import go_on
    from ..api.libraries import check_libraries

    fleet = taken(options)
    how = manner(**options)
    folder = find_folder(experiment, how.output)
    record = load_record(folder)
    if record.status == "finished":
        left = sum(status == "planned" for _, status in plan_of(folder)) or ran_out(record)
        spent = sum(t.ended - t.started for t in record.trials)
        if not left:
            raise UsageError(f"experiment {record.id} is finished; there is nothing left to run")
        if budget is None or budget <= spent:
            with_ = "" if is_search(record) else f" with {left} blocks left"
            raise UsageError(
                f"experiment {record.id} used up its budget{with_}",
                remedy=f"A larger one goes on: heapyard resume {record.id} --budget {max(2 * spent, 60):.0f}s",
            )
    check_libraries(record.experiment)

    def changed(what: Experiment) -> Experiment:
        settings = replace(
            what.settings,
            change_system=what.settings.change_system or change_system,
            fleet=fleet(what.settings.fleet),
        )
        return replace(what, settings=settings if budget is None else replace(settings, budget=budget))

    return go_on(folder, how, changed)
