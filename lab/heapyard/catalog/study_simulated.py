# SPDX-License-Identifier: Apache-2.0
"""The table `[simulated]` of a study: the machine that its trials run on, where it is none of this world."""

from __future__ import annotations

from typing import Literal, get_args

from ..model.simulation import MACHINES, MOST_CORES, USUAL_CORES, USUAL_MACHINE, Simulated
from .toml_file import TomlTable

Kind = Literal["this", "simulated"]  # of machine, in [study]


def read_simulated(study: TomlTable, table: TomlTable | None) -> Simulated:
    """No simulated machine unless `[study]` says machine = "simulated". UsageError names the field that is wrong."""
    if study.choice("machine", get_args(Kind), "this") == "this":
        if table is not None:
            study.fail("machine", 'is missing: a study with a table [simulated] says machine = "simulated"')
        return Simulated()
    if table is None:
        return Simulated(USUAL_MACHINE, USUAL_CORES, 1)
    cores = table.integer("cores", USUAL_CORES, least=1)
    if cores > MOST_CORES:
        table.fail("cores", f"must be at most {MOST_CORES}, not {cores}")
    found = Simulated(table.choice("machine", tuple(MACHINES), USUAL_MACHINE), cores, table.integer("seed", 1, least=0))
    table.finish()
    return found
