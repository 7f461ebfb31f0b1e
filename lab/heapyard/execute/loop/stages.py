# SPDX-License-Identifier: Apache-2.0
"""What follows the pilot: Stein's numbers of blocks, and looks fixed beforehand, at which settled allocators are released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ...design.interleaving import rounds_for
from ...design.looks import settled, share_of_precision
from ...design.two_stage import blocks_wanted
from ...model.experiment import Experiment
from ...model.journal import PLANNED, SETTLED
from ...model.metrics import PRIMARY_TIME
from .plan import MAIN, PILOT, Pair, Plan
from .tally import Tally


@dataclass(slots=True)
class Stage:
    """What to plan next, and what to say of it: (kind, text) of events."""

    rounds: dict[str, range] = field(default_factory=dict)
    without: set[Pair] = field(default_factory=set)
    told: list[tuple[str, str]] = field(default_factory=list)


class Stages:
    """Decisions depend on the stored plan and the trials alone, so that a resumed experiment comes to the same ones."""

    def __init__(self, experiment: Experiment, plan: Plan, tally: Tally):
        self._settings, self._plan, self._tally = experiment.settings, plan, tally
        self._workloads = [p.name for p in experiment.programs]
        self._treatments = [t.label for t in experiment.treatments if t.role == "treatment"]
        self._controls = {t.label for t in experiment.treatments if t.role == "control"}
        self._sizes: dict[str, tuple[int, int]] = {}

    def following(self) -> Stage | None:
        """The stage after those that are planned, all of which have run; None when the plan is at its end."""
        if self._settings.blocks is not None:
            return None
        if self._settings.looks:
            return self._after_a_look()
        return None if any(self._plan.of(MAIN)) else self._second_stage()

    def later_seconds(self, gone: Collection[str], dropped: Collection[Pair]) -> float:
        """Expected duration of what later stages take if nothing is released: 0 before the pilot's end."""
        if not (self._settings.looks and self._sizes):
            return 0.0
        seconds = 0.0
        for workload in self._active(gone):
            labels = [label for label in self._plan.last_labels(workload) if (workload, label) not in dropped]
            further = max(self._sizes[workload][1] - self._plan.rounds(workload), 0) if workload in self._sizes else 0
            seconds += further * sum(self._tally.typical(workload, label) for label in labels)
        return seconds

    def _alive(self) -> list[str]:
        gone = self._tally.abandoned()
        return [w for w in self._workloads if w not in gone]

    def _active(self, gone: Collection[str]) -> list[str]:
        """Workloads that the last stage measured on to its end: the others have their size, or were released."""
        rounds = {w: self._plan.rounds(w) for w in self._workloads if w not in gone}
        return [w for w, n in rounds.items() if n == max(rounds.values())]

    def _second_stage(self) -> Stage:
        """Stein's second stage: per workload the number of blocks that the pilot's noise asks for; planned once."""
        pilot, stage, totals = self._settings.pilot_blocks, Stage(without=self._tally.dropped()), list[str]()
        for workload in self._alive():
            times = self._pilot_times(workload)
            if not times:
                continue
            wanted = self._blocks_wanted(times, self._settings.precision)
            stage.rounds[workload] = range(pilot, self._rounds(workload, wanted, pilot - len(times)))
            totals.append(f"{workload} {wanted}")
        stage.told.append((PLANNED, self._asked_for(totals)))
        return stage

    def _after_a_look(self) -> Stage:
        """Release what is settled, and plan the rest on to the next look or to Stein's number if that comes first."""
        settings, stage = self._settings, Stage(without=self._tally.dropped())
        self._sizes = {w: self._size(w) for w in self._alive()}
        if not any(self._plan.of(MAIN)):
            stage.told.append((PLANNED, self._asked_for([f"{w} at most {n}" for w, (_, n) in self._sizes.items()])))
        active = self._active(self._tally.abandoned())
        now = max(map(self._plan.rounds, active), default=0)
        until = next((look for look in settings.looks if look > now), settings.max_blocks)
        released, asked, answered = list[str](), 0, 0
        for workload in active:
            share, full = self._sizes[workload]
            if full <= now:
                continue  # as precise as asked for
            open_ = self._open(workload)
            closed = self._settled(workload, open_) if now >= share else set()
            asked, answered = asked + len(open_), answered + len(closed)
            if closed:
                released.append(f"{'all' if len(closed) == len(open_) else ', '.join(sorted(closed))} on {workload}")
            if len(closed) < len(open_):
                stage.rounds[workload] = range(now, min(until, full))
                out = {*self._treatments} - {settings.baseline, *open_} | closed
                stage.without |= {(workload, label) for label in out}
        if asked:
            told = f"after {now} blocks {answered or 'none'} of the {asked} comparisons that were open are settled"
            stage.told.append((SETTLED, f"{told}: {'; '.join(released)}" if released else told))
        return stage

    def _open(self, workload: str) -> list[str]:
        """Treatments that the last round had and that did not fail, the baseline apart."""
        measured = set(self._tally.measured(workload))
        labels = set(self._plan.last_labels(workload)) & measured - {self._settings.baseline}
        return [label for label in self._treatments if label in labels]

    def _settled(self, workload: str, labels: list[str]) -> set[str]:
        """Those of `labels` whose time and memory are settled by the blocks in which all that are left took part."""
        settings, blocks = self._settings, self._plan.done_blocks(workload)
        columns = [settings.baseline, *labels, *(c for c in self._tally.measured(workload) if c in self._controls)]
        margins = {settings.time_metric: settings.margin_time, settings.memory_metric: settings.margin_memory}
        found = set(labels)
        for metric, margin in margins.items():
            answered = settled(
                self._tally.logs(workload, blocks, metric, columns),
                range(1, len(labels) + 1),
                base=0,
                margin=margin,
                family=max(len(self._treatments) - 1, 1),
                levels=settings.look_levels,
                confidence=settings.confidence,
            )
            found &= {label for label, yes in zip(labels, answered, strict=True) if yes}
        return found

    def _size(self, workload: str) -> tuple[int, int]:
        """Blocks until the workload has given its share to the mean of all, and until it is as precise as asked for."""
        settings, times = self._settings, self._pilot_times(workload)
        if not times:
            return 0, 0
        share = share_of_precision(settings.precision, len(self._alive()))
        full = self._blocks_wanted(times, settings.precision)
        missing = settings.pilot_blocks - len(times)
        least = min(self._blocks_wanted(times, share), full)
        return self._rounds(workload, least, missing), self._rounds(workload, full, missing)

    def _rounds(self, workload: str, blocks: int, missing: int) -> int:
        """Rounds after which so many blocks tell the time, `missing` of the pilot's having told nothing of it."""
        if self._tally.slices_lead(workload):
            return rounds_for(blocks, self._settings.pilot_blocks)
        return blocks + missing

    def _pilot_times(self, workload: str) -> list[list[float]]:
        done = (b.index for b in self._plan.of(PILOT, "done", workload))
        return self._tally.logs(workload, done, PRIMARY_TIME, self._tally.measured(workload))

    def _blocks_wanted(self, times: list[list[float]], precision: float) -> int:
        settings = self._settings
        return blocks_wanted(times, precision=precision, confidence=settings.confidence, at_most=settings.max_blocks)

    def _asked_for(self, totals: Sequence[str]) -> str:
        share, listed = 100 * self._settings.precision, ", ".join(totals) or "none"
        return f"blocks that the pilot's noise asks for, for intervals of ±{share:.3g} %: {listed}"
