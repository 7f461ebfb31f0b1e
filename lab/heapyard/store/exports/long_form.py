# SPDX-License-Identifier: Apache-2.0
"""Exports in long form: one row per trial and metric, with its unit and everything needed to find the trial again."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ...execute.scratch import ScratchFolder
from ...model.metrics import metric_named
from ...model.record import Record

# Columns and their types in Parquet; the meaning of each stands in docs/guide.md.
COLUMNS = {
    "experiment": "VARCHAR",
    "trial": "BIGINT",
    "workload": "VARCHAR",
    "treatment": "VARCHAR",
    "role": "VARCHAR",
    "allocator": "VARCHAR",
    "allocator_version": "VARCHAR",
    "allocator_sha256": "VARCHAR",
    "levels": "VARCHAR",
    "block": "BIGINT",
    "node": "VARCHAR",
    "simulated": "VARCHAR",
    "attempt": "BIGINT",
    "stage": "VARCHAR",
    "position": "BIGINT",
    "status": "VARCHAR",
    "counted": "BOOLEAN",
    "failure": "VARCHAR",
    "reason": "VARCHAR",
    "started_s": "DOUBLE",
    "ended_s": "DOUBLE",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "value": "DOUBLE",
}


def long_rows(record: Record) -> Iterator[dict[str, object]]:
    """Every metric of every trial, in the order they ran; a trial without metrics gives one row without a metric."""
    treatments = {t.label: t for t in record.experiment.treatments}
    simulated = record.experiment.settings.simulated
    for trial in record.trials:
        treatment = treatments[trial.treatment]
        about = {
            "experiment": record.id,
            "trial": trial.id,
            "workload": trial.workload,
            "treatment": trial.treatment,
            "role": treatment.role,
            "allocator": treatment.allocator.name,
            "allocator_version": treatment.allocator.version,
            "allocator_sha256": treatment.allocator.sha256,
            "levels": json.dumps(treatment.levels, sort_keys=True),
            "block": trial.block,
            "node": trial.node,
            "simulated": simulated.words if simulated.wanted else "",
            "attempt": trial.attempt,
            "stage": trial.stage,
            "position": trial.position,
            "status": trial.status,
            "counted": trial.counted,
            "failure": trial.failure,
            "reason": trial.reason,
            "started_s": trial.started,
            "ended_s": trial.ended,
        }
        for metric, value in trial.metrics.items():
            yield {**about, "metric": metric, "unit": metric_named(metric).unit, "value": value}
        if not trial.metrics:
            yield {**about, "metric": None, "unit": None, "value": None}


def write_csv(record: Record, out: TextIO) -> None:
    """RFC 4180, with a header line; absent values are empty. O(rows)."""
    writer = csv.DictWriter(out, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in long_rows(record):
        writer.writerow({**row, "counted": "true" if row["counted"] else "false"})


def write_jsonl(record: Record, out: TextIO) -> None:
    """One JSON object per line. O(rows)."""
    for row in long_rows(record):
        out.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_parquet(record: Record, path: Path) -> None:
    """One Parquet file, zstd-compressed; OSError when it cannot be written. O(rows)."""
    import duckdb

    types = "{" + ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items()) + "}"
    with ScratchFolder() as folder:
        between, made = folder / "rows.csv", folder / "rows.parquet"
        with between.open("w", encoding="utf-8", newline="") as out:
            write_csv(record, out)
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT * FROM read_csv({_quoted(between)}, header=true, columns={types}, auto_detect=false, "
                f"quote='\"', escape='\"', delim=',', max_line_size=16000000)) "
                f"TO {_quoted(made)} (FORMAT parquet, COMPRESSION zstd)"
            )
        shutil.copyfile(made, path)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
