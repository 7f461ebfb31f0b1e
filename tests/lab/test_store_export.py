# SPDX-License-Identifier: Apache-2.0
"""Exports hold every trial, with units, in forms that other tools read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest
from yard import FakeLaunch, experiment

from heapyard import store
from heapyard.execute.experiment import carry_out
from heapyard.model.errors import HeapyardError
from heapyard.model.record import Record
from heapyard.store.exports.long_form import COLUMNS, write_csv, write_jsonl, write_parquet
from heapyard.store.exports.pyperf import write_pyperf


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    what = experiment(blocks=4)
    fault = {"reason": 'it said "no", twice,\nand then exited with 1'}
    with store.create(what, tmp_path_factory.mktemp("results")) as journal:
        carry_out(what, journal, FakeLaunch(faults={("one", "swift"): fault}))
    return store.load_record(journal.folder)


def test_csv_holds_every_response_and_every_failure(record: Record) -> None:
    out = io.StringIO()
    write_csv(record, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert list(rows[0]) == list(COLUMNS)
    assert len(rows) == sum(max(len(t.metrics), 1) for t in record.trials)
    counted = [r for r in rows if r["counted"] == "true" and r["metric"] == "wall"]
    assert {(int(r["trial"]), float(r["value"])) for r in counted} == {
        (o.trial, o.value) for o in record.observations.rows if o.metric == "wall"
    }
    assert {r["unit"] for r in rows if r["metric"] == "peak_rss"} == {"B"}
    failed = [r for r in rows if r["status"] == "failed"]
    assert len(failed) == 2 and failed[0]["value"] == "" and "twice,\nand" in failed[0]["reason"]


def test_json_lines_say_the_same_as_csv(record: Record) -> None:
    text, lines = io.StringIO(), io.StringIO()
    write_csv(record, text)
    write_jsonl(record, lines)
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(str(r["trial"]), r["metric"] or "", "" if r["value"] is None else repr(r["value"])) for r in rows] == [
        (r["trial"], r["metric"], r["value"]) for r in csv.DictReader(io.StringIO(text.getvalue()))
    ]


def test_parquet_keeps_types_values_and_absence(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "it's here.parquet"
    write_parquet(record, path)
    rows = (
        duckdb.connect()
        .execute("SELECT trial, metric, value, counted, reason FROM read_parquet(?) ORDER BY trial", [str(path)])
        .fetchall()
    )
    assert len(rows) == sum(max(len(t.metrics), 1) for t in record.trials)
    values = {(r[0], r[1]): r[2] for r in rows if r[3]}
    assert values == {(o.trial, o.metric): o.value for o in record.observations.rows}
    (failed,) = {r[4] for r in rows if r[1] is None}
    assert failed == 'it said "no", twice,\nand then exited with 1'


def test_pyperf_has_one_run_per_counted_trial(record: Record) -> None:
    out = io.StringIO()
    write_pyperf(record, out)
    suite = json.loads(out.getvalue())
    assert suite["version"] == "1.0"
    runs = {b["metadata"]["name"]: b["runs"] for b in suite["benchmarks"]}
    assert len(runs["two, swift"]) == 4 and "one, swift" not in runs
    assert {b["metadata"]["unit"] for b in suite["benchmarks"]} == {"second", "byte"}
    one = io.StringIO()
    write_pyperf(record, one, "swift")
    assert [b["metadata"]["name"] for b in json.loads(one.getvalue())["benchmarks"]] == ["two", "two, peak RSS"]
    with pytest.raises(HeapyardError, match="no counted trial"):
        write_pyperf(record, io.StringIO(), "unheard-of")
