# SPDX-License-Identifier: Apache-2.0
"""The loop that searches for capacities: the baseline's rate is doubled, then blocks give each allocator a trial at a rate.

Every trial is stored with its rate, and the next rates follow from the stored trials alone, so that a search that was
interrupted goes on where it was.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from ..catalog.server_command import at_rate, loads_at_a_rate
from ..design.capacity_evidence import OVERLOADED, Evidence, evidence_of
from ..design.capacity_rates import bounded, next_rate, whole_rate
from ..design.threshold import Threshold, log_ratio, threshold
from ..model.errors import HeapyardError
from ..model.experiment import Block, Experiment, TrialOutcome
from ..model.journal import BUDGET, DROPPED, INTERRUPTED, RESUMED, Journal
from ..model.limits import ASKED, Shown, achieved_rate, slack, value_of
from ..model.metrics import define
from ..model.units import format_duration
from .experiment import ROOM, Ending, Launch
from .loop.plan import MAIN, PILOT, WARM_UP, Plan
from .loop.watcher import Moment, Watcher
from .scratch import ScratchFolder

LEAST_BLOCKS = 6  # before intervals are looked at: fewer trials than these leave them to the prior
TOO_MUCH = 1.25  # times the asked rate: the load takes {rate} for something else


def search(
    experiment: Experiment,
    journal: Journal,
    launch: Launch,
    *,
    watcher: Watcher | None = None,
    stop: threading.Event | None = None,
    scratch: Path | None = None,
    make_ready: Callable[[float], None] | None = None,
) -> Ending:
    """Carry out what the journal does not hold yet; arguments are those of `execute.experiment.carry_out`.

    It ends when every interval is as narrow as `settings.precision` asks, after `settings.max_blocks`, or with the budget.
    HeapyardError where the baseline cannot be measured, or the load does not tell what a limit is for.
    """
    loop = _Search(experiment, journal, launch, watcher or Watcher(), stop or threading.Event(), scratch, make_ready)
    return loop.run()


class _Search:
    def __init__(
        self, experiment: Experiment, journal: Journal, launch: Launch, watcher: Watcher, stop: threading.Event,
        scratch: Path | None, make_ready: Callable[[float], None] | None,
    ):
        (self.program,) = experiment.programs
        assert self.program.server is not None
        self.server, self.settings = self.program.server, experiment.settings
        self.journal, self.launch, self.watcher, self.stop = journal, launch, watcher, stop
        self.scratch, self.make_ready = scratch, make_ready
        self.treatments = {t.label: t for t in experiment.treatments}
        self.plan = Plan(experiment, journal)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.held: dict[str, float] = defaultdict(float)  # most bytes that a trial held, by allocator
        self.width = math.inf  # of the widest interval, as ratio minus one
        self.noted: set[str] = set()
        self.known: dict[str, tuple[tuple[Shown, ...], Threshold]] = {}

    def run(self) -> Ending:
        self._take_up()
        while True:
            evidence = evidence_of(self.journal.trials(), self.settings)
            self._check(evidence)
            stage, labels = self._next(evidence)
            if not labels:
                return "finished"
            if self._over_budget(stage, labels):
                return "finished"
            due = self.plan.due(stage)
            if not due:
                self.plan.extend(stage, labels, range(self._round(), self._round() + 1))
                due = self.plan.due(stage)
            if not self._run_block(due[0], evidence):
                self._event(INTERRUPTED, f"after {self.plan.done} blocks")
                return "interrupted"

    # --- what is to run

    def _take_up(self) -> None:
        for trial in self.journal.trials():
            self._add(trial.treatment, trial.ended - trial.started, trial.metrics)
        if self.plan:
            self._event(RESUMED, f"after {self.plan.done} blocks")
            for block in self.plan.cut_short():
                self.plan.end(block, "done")  # its trials count, as many as ended

    def _next(self, evidence: Evidence) -> tuple[str, list[str]]:
        """The stage and the allocators of the next block; none where the search is at its end."""
        baseline = self.settings.baseline
        if not any(self.plan.of(WARM_UP)):
            return WARM_UP, [baseline]
        if not bounded(evidence.shown[baseline]):
            return PILOT, [baseline]
        alive = [label for label in self.treatments if label not in evidence.given_up]
        done = sum(1 for _ in self.plan.of(MAIN, "done"))
        if done >= self.settings.max_blocks or (done >= LEAST_BLOCKS and self._precise(evidence, alive)):
            return MAIN, []
        return MAIN, alive

    def _precise(self, evidence: Evidence, alive: list[str]) -> bool:
        """Are all capacities and their ratios to the baseline's known as closely as asked for?"""
        if not all(bounded(evidence.shown[label]) for label in alive):
            return False
        confidence, found = self.settings.confidence, {label: self._threshold(label, evidence) for label in alive}
        ends = [found[label].interval(confidence) for label in alive]
        others = [label for label in alive if label != self.settings.baseline]
        ends += [log_ratio(found[label], found[self.settings.baseline], confidence) for label in others]
        self.width = math.expm1(max(high - low for _, low, high in ends) / 2)
        return self.width <= self.settings.precision

    def _round(self) -> int:
        return max((b.round + 1 for b in self.plan.of(MAIN)), default=max((b.round + 1 for b in self.plan.of(PILOT)), default=0))

    def _over_budget(self, stage: str, labels: list[str]) -> bool:
        budget, expected = self.settings.budget, sum(map(self._typical, labels))
        if budget is None or stage == WARM_UP or self._spent + expected <= budget:
            return False
        if stage == PILOT or not any(self.plan.of(MAIN, "done")):
            raise HeapyardError(
                f"the budget of {format_duration(budget)} is too short: it was used up before every allocator had a trial, "
                f"each of which takes about {format_duration(self._typical(labels[0]))}",
                remedy="Give more with --budget, name fewer allocators, or begin nearer to the capacity with --start.",
            )
        self._event(BUDGET, f"the budget of {format_duration(budget)} was used up after {self.plan.done} blocks")
        return True

    def _check(self, evidence: Evidence) -> None:
        """HeapyardError when the baseline cannot be measured; tells of others that are given up."""
        baseline = self.settings.baseline
        if why := evidence.given_up.get(baseline):
            raise HeapyardError(f"nothing can be searched under the baseline {baseline}: {why.rstrip('.')}")
        for label in evidence.given_up.keys() - self.noted:
            self.noted.add(label)
            self._event(DROPPED, f"{label}: {evidence.given_up[label].rstrip('.')}; it is not launched again")
        tried = evidence.shown[baseline]
        if tried and not any(one.kept for one in tried) and min(one.rate for one in tried) <= loads_at_a_rate(self.server):
            raise HeapyardError(
                f"under {baseline} even a request a second broke {tried[-1].broke}",
                remedy="Allow more with --slo, or look at the server with: heapyard compare --load",
            )

    # --- running it

    def _run_block(self, block: Block, evidence: Evidence) -> bool:
        """False when the user wants an end."""
        rates = {label: self._rate(label, evidence) for label in block.order}
        for position, label in enumerate(block.order):
            if self.stop.is_set():
                return False
            if label in evidence.given_up:
                continue
            outcome = self._run_trial(block, position, rates[label])
            if outcome.status == "interrupted":
                return False
            if block.stage == WARM_UP:
                self._check_first(outcome, rates[label])
        self.plan.end(block, "done")
        return True

    def _rate(self, label: str, evidence: Evidence) -> int:
        trials, baseline, start = evidence.shown[label], self.settings.baseline, self.settings.start_rate
        if bounded(trials):
            rate = next_rate(trials, start, known=self._threshold(label, evidence))
        elif label == baseline:
            rate = next_rate(trials, start)
        else:
            rate = next_rate(trials, math.exp(self._threshold(baseline, evidence).quantile(0.5)), near=True)
        return whole_rate(rate, loads_at_a_rate(self.server))

    def _threshold(self, label: str, evidence: Evidence) -> Threshold:
        """Worked out once for the trials that are there."""
        trials = tuple(evidence.shown[label])
        if label not in self.known or self.known[label][0] != trials:
            self.known[label] = trials, threshold(trials)
        return self.known[label][1]

    def _run_trial(self, block: Block, position: int, rate: int) -> TrialOutcome:
        label = block.order[position]
        moment = Moment(block, position, self.plan.done, self.plan.planned, self._trials, self._spent, self._remaining(),
                        self.settings.budget, f" at {rate:,} requests/s")
        self.watcher.trial_begins(moment)
        trial, begin = self.journal.start_trial(block, position), time.monotonic()
        if self.make_ready is not None:
            self.make_ready(ROOM * (self.held[label] or self.held[self.settings.baseline]))
        program = replace(self.program, server=at_rate(self.server, rate))
        with ScratchFolder(self.scratch) as folder:
            outcome = self.launch(program, self.treatments[label], self.settings, pad=block.pads[position], folder=folder,
                                  stop=self.stop)
        define((ASKED,))
        outcome = replace(outcome, metrics=outcome.metrics | {ASKED.name: float(rate)}, defined=(*outcome.defined, ASKED))
        self._add(label, time.monotonic() - begin, outcome.metrics)
        self.journal.end_trial(trial, outcome)
        self.watcher.trial_ended(moment, outcome)
        return outcome

    def _check_first(self, outcome: TrialOutcome, rate: int) -> None:
        """HeapyardError for what no later trial could put right."""
        if outcome.status == "failed" and outcome.failure != OVERLOADED[1]:
            raise HeapyardError(f"nothing can be searched: {outcome.reason.rstrip('.')}")
        if outcome.status != "ok":
            return
        metrics = outcome.metrics
        missing = next((limit for limit in self.settings.limits if value_of(limit, metrics) is None and limit.asked), None)
        if missing:
            there = sorted(name.removeprefix("latency_") for name in metrics if name.startswith("latency_"))
            tells = f"its latencies are {', '.join(there)}" if there else "it prints no latencies"
            raise HeapyardError(
                f"the load prints nothing for the limit {missing.text}; {tells}",
                remedy="Have the load print it (wrk2 -L, sysbench --percentile), or read it with --metric NAME=REGEX.",
            )
        achieved = achieved_rate(metrics)
        if achieved is not None and achieved > TOO_MUCH * rate + slack(metrics):
            raise HeapyardError(
                f"the load sent {achieved:.4g} requests a second where {rate} were asked for",
                remedy="{rate} must be the rate of the whole load: hey -q, for one, takes the rate of each connection.",
            )

    # --- how it stands

    def _add(self, label: str, seconds: float, metrics: dict[str, float]) -> None:
        self.seconds[label].append(seconds)
        self.held[label] = max(self.held[label], metrics.get(self.settings.memory_metric, 0.0))

    @property
    def _spent(self) -> float:
        return sum(map(sum, self.seconds.values()))

    @property
    def _trials(self) -> int:
        return sum(map(len, self.seconds.values()))

    def _typical(self, label: str) -> float:
        taken = self.seconds.get(label) or self.seconds.get(self.settings.baseline)
        return median(taken) if taken else 0.0

    def _remaining(self) -> float:
        """Seconds to the end, as far as one can tell: of the budget, or until intervals that shrink with the square root of
        the trials are narrow enough."""
        budget = math.inf if self.settings.budget is None else max(self.settings.budget - self._spent, 0.0)
        if not math.isfinite(self.width):
            return budget
        return min(budget, self._spent * max((self.width / self.settings.precision) ** 2 - 1, 0.0))

    def _event(self, kind: str, text: str) -> None:
        self.journal.event(kind, text)
        self.watcher.event(kind, text)
