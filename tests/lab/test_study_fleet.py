# SPDX-License-Identifier: Apache-2.0
"""The table [fleet] of a study, and what its options change."""

from __future__ import annotations

from pathlib import Path

import pytest

from heapyard.catalog.study import read_study
from heapyard.cli.fleet_options import taken
from heapyard.model.errors import UsageError
from heapyard.model.fleet import Fleet

STUDY = '[study]\nprograms = ["jq"]\n'
NONE = dict.fromkeys(("fleet", "nodes", "partition", "constraint", "account", "time_limit", "shared")) | {"sbatch": ()}


def study(folder: Path, text: str):
    (folder / "a.toml").write_text(STUDY + text)
    return read_study(folder / "a.toml")


def test_a_study_names_its_fleet(tmp_path: Path) -> None:
    text = '[fleet]\nnodes = 10\npartition = "long"\nconstraint = "epyc"\n'
    text += 'account = "lab"\ntime_limit = "30m"\nsbatch = ["qos=long"]\n'
    fleet = study(tmp_path, text).settings["fleet"]
    assert fleet == Fleet("slurm", 10, "long", "epyc", "lab", 1800.0, "", ("qos=long",))
    assert "fleet" not in study(tmp_path, "").settings


@pytest.mark.parametrize("text, told", [
    ('engine = "kubernetes"', "engine"), ("nodes = 0", "nodes"), ('time_limit = "soon"', "time_limit"), ("node = 3", "node"),
])
def test_a_wrong_table_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        study(tmp_path, f"[fleet]\n{text}\n")


def test_options_change_what_the_study_says() -> None:
    options = {**NONE, "nodes": 3, "other": 1}
    assert taken(options)(Fleet("slurm", 10, "long")) == Fleet("slurm", 3, "long") and options == {"other": 1}
    with pytest.raises(UsageError, match="--nodes is for a fleet"):
        taken({**NONE, "nodes": 3})(Fleet())
    assert taken({**NONE, "fleet": "local"})(Fleet()) == Fleet("local")
