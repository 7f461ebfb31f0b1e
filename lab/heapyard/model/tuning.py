# SPDX-License-Identifier: Apache-2.0
"""Settings of allocators, and a search over them: what may be set, what is tried, what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .analysis import Analysis, Interval
from .preference import Preference

Choice = tuple[int, ...]  # of one allocator: per setting the index of its level, 0 being the default
Phase = Literal["screening", "race", "refinement", "confirmation"]
PHASES: tuple[Phase, ...] = ("screening", "race", "refinement", "confirmation")
RACES: tuple[Phase, ...] = ("race", "refinement")

SUITE = "tune"  # the suites of these experiments begin with it


@dataclass(frozen=True, slots=True)
class Setting:
    """One documented setting. `levels`: values to try beside the default, which is told in words and never set."""

    name: str
    levels: tuple[str, ...]
    default: str = ""
    about: str = ""
    since: str = ""  # version of the allocator, "" if not known
    source: str = ""  # document and section


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched of one allocator."""

    allocator: str
    settings: tuple[Setting, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of levels, the defaults included."""
        return tuple(len(setting.levels) + 1 for setting in self.settings)

    @property
    def default(self) -> Choice:
        return (0,) * len(self.settings)

    @property
    def combinations(self) -> int:
        found = 1
        for count in self.counts:
            found *= count
        return found

    def options(self, choice: Choice) -> dict[str, str]:
        """What a choice sets: values by name of the setting."""
        pairs = zip(self.settings, choice, strict=True)
        return {setting.name: setting.levels[level - 1] for setting, level in pairs if level}

    def label(self, choice: Choice) -> str:
        """The choice as a variant that any verb takes: `jemalloc:narenas=1,dirty_decay_ms=0`."""
        options = ",".join(f"{name}={value}" for name, value in self.options(choice).items())
        return f"{self.allocator}:{options}" if options else self.allocator


@dataclass(frozen=True, slots=True)
class Tuning:
    """The request, as every experiment of the search stores it. `budget`: seconds for all phases together."""

    phase: Phase
    spaces: tuple[Space, ...]
    tried: tuple[tuple[Choice, ...], ...]  # per space what this phase measures, the default first
    budget: float
    preference: Preference
    precision: float = 0.01  # wanted half-width of a time ratio's interval in the confirmation


@dataclass(frozen=True, slots=True)
class Effect:
    """What one level of a setting brings by itself, beside the default and averaged over the levels of the others.

    Ratios of the response; the interval is this effect's own at the experiment's confidence.
    """

    metric: str
    setting: str
    level: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class Candidate:
    """A choice as the last phase that measured it saw it: ratios to the default, each with an interval of its own. A search keeps
    what looks good, so these are flattered; the confirmation alone is a claim. `on_front`: nothing that was tried is ahead in both.
    """

    choice: Choice
    phase: Phase
    blocks: int
    time: Interval
    memory: Interval
    on_front: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """A phase as it went, of all allocators together. `budget`: seconds it was given; `seconds`: in trials; `choices`: those it
    measured, the defaults included; `blocks`: the most that any of them took part in; `trials`: those that counted."""

    phase: Phase
    experiment: str
    status: str
    budget: float
    seconds: float
    choices: int
    blocks: int
    trials: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """What is known of one allocator. `confirmed`: an analysis of fresh blocks against the default; its simultaneous intervals
    and verdicts hold for all allocators and both responses together. None where there was nothing to confirm, or not yet."""

    space: Space
    effects: tuple[Effect, ...]
    screened: int  # choices that the screening measured
    raced: int  # choices that races measured, the default apart
    held: bool  # a race left no choice that could be better than the default
    finalists: tuple[Choice, ...]
    confirmed: Analysis | None
    best: Choice | None  # by the preference, and shown to be better than the default; None: no gain was shown
    environment: dict[str, str]  # what `best` sets, beside the library
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class TuneAnswer:
    """The whole search. `experiments`: ids by phase; `reached`: the last phase that was begun; `trials`: those that counted."""

    id: str
    workload: str
    tuning: Tuning
    time: str  # names of the two responses
    memory: str
    margins: tuple[float, float]  # of time and memory, as ratios minus one: differences below count as none
    tuned: tuple[Tuned, ...]
    experiments: dict[str, str]
    reached: Phase
    complete: bool
    trials: int
    seconds: float
    stages: tuple[Stage, ...] = ()
