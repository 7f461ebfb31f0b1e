# SPDX-License-Identifier: Apache-2.0
"""What the answer says of a server under load: its table, and what to know of a generator's latencies."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from heapyard.catalog.program_command import program_from_command
from heapyard.catalog.server_command import Load
from heapyard.model.analysis import Analysis
from heapyard.model.experiment import Experiment
from heapyard.model.observations import Failure, Observation, Observations
from heapyard.report.load_words import load_rows, sentences, shown_columns
from heapyard.stats.analyse import analyse
from yard import BASELINE, experiment

OTHER = "jemalloc"


def served(
    line: str, latency: float = 0.005, cpu: tuple[str, ...] = (BASELINE, OTHER), **fields: object
) -> tuple[Analysis, Experiment]:
    """Five blocks of a server under the load `line`; `cpu`: treatments that have a processor time."""
    dice, rows = random.Random(1), []
    for block in range(5):
        for label in (BASELINE, OTHER):
            told = {"request_rate": 1000.0, "time_per_request": 1e-3, "latency_p50": latency, "latency_p99": 2 * latency,
                    "steady_rss": 2.0e7, "left_rss": 2.0e7, "failed_requests": 0.0}
            told |= {"cpu_per_request": 1e-4} if label in cpu else {}
            rows += [Observation("it", label, block, name, value * dice.uniform(0.99, 1.01)) for name, value in told.items()]
    program = program_from_command(["/bin/true"], load=Load((line,), port=1), name="it")
    made = experiment([OTHER], ["it"])
    observations = Observations(("it",), (BASELINE, OTHER), BASELINE, "", tuple(rows), **fields)  # type: ignore[arg-type]
    return analyse(observations), replace(made, programs=(program,))


@pytest.fixture(autouse=True)
def every_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda word: word)


@pytest.mark.parametrize(
    ("line", "latency", "said"),
    [
        ("h2load x", 0.005, ["h2load waits for an answer before it asks again on a connection. So its latencies leave out what a "
                             "stall costs the requests behind it (coordinated omission)."]),
        ("wrk x", 0.005, ["wrk waits for an answer before it asks again on a connection. To its latencies it adds, as an estimate, "
                          "the requests that each slow answer kept it from sending. A load at a rate of its own measures them."]),
        ("vegeta attack", 0.005, []),
        ("ab x", 0.005, ["ab waits", "ab prints latencies in steps of 1 ms, which is too coarse to tell 2.0 % apart here."]),
        ("ab x", 0.1, ["ab waits"]),
        ("./my_client", 0.005, []),
    ],
)  # fmt: skip
def test_what_to_know_of_latencies(line: str, latency: float, said: list[str]) -> None:
    told = sentences(*served(line, latency))
    assert len(told) == len(said) and all(one.startswith(start) for one, start in zip(told, said, strict=True))


def test_a_response_that_one_treatment_lacks_is_no_failure() -> None:
    """Processor time below what the kernel counts is absent; only a failed trial is called so."""
    for failures, word in (((), "no figure"), ((Failure("other", OTHER, 1, 5, "exit", "it fell"),), "failed")):
        analysis, _ = served("ab x", cpu=(BASELINE,), failures=failures)
        at = [heading for _, heading in shown_columns(analysis)].index("CPU each")
        entries = {row.treatment: shown[at] for row, shown in load_rows(analysis)}
        assert entries[OTHER].text == word and entries[BASELINE].text not in ("failed", "no figure")
