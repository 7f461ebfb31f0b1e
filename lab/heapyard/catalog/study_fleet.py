# SPDX-License-Identifier: Apache-2.0
"""The table `[fleet]` of a study: where its blocks run."""

from __future__ import annotations

from typing import get_args

from ..model.errors import UsageError
from ..model.fleet import Engine, Fleet
from ..model.units import parse_duration
from .toml_file import TomlTable

ENGINES: tuple[Engine, ...] = tuple(engine for engine in get_args(Engine) if engine)


def read_fleet(table: TomlTable | None) -> Fleet:
    """No fleet where there is no table. A table without an `engine` means Slurm. UsageError names the field that is wrong."""
    if table is None:
        return Fleet()
    limit, seconds = table.string("time_limit", ""), 0.0
    if limit:
        try:
            seconds = parse_duration(limit)
        except UsageError as error:
            table.fail("time_limit", f"is wrong: {error.message}")
    shared = table.place("shared") if table.has("shared") else None
    found = Fleet(
        engine=table.choice("engine", ENGINES, "slurm"),
        nodes=table.integer("nodes", None, least=1) or 0,
        partition=table.string("partition", ""),
        constraint=table.string("constraint", ""),
        account=table.string("account", ""),
        time_limit=seconds,
        shared=str(shared) if shared else "",
        sbatch=table.strings("sbatch", ()),
    )
    table.finish()
    return found
