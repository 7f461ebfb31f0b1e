# SPDX-License-Identifier: Apache-2.0
"""A search over settings of allocators, phase by phase: each is an experiment like any other, and the next one follows from it.

    screening      a designed few of all combinations, for what each setting brings by itself
    race           the promising ones against each other, until the beaten have left
    refinement     a second race, among what all trials so far say may be the best
    confirmation   the best of those against the default, on blocks that the search never saw: only these are claimed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..design.looks import looks_from
from ..design.screening import screening
from ..model.experiment import CONTROL_SUFFIX, Experiment, Settings, Treatment
from ..model.preference import Preference
from ..model.record import Record
from ..model.tuning import PHASES, RACES, SUITE, Choice, Effect, Phase, Space, Stage, TuneAnswer, Tuned, Tuning
from ..report.setting_choice import choose_setting
from ..stats.tuning.candidates import candidates
from ..stats.tuning.confirming import confirm
from ..stats.tuning.effects import main_effects
from ..stats.tuning.entrants import entrants, finalists
from ..stats.tuning.responses import responses_of
from ..stats.tuning.surface import Measured
from ..store.codec import decode, encode
from .assemble import assemble, silent

if TYPE_CHECKING:
    from ..catalog.study import Study

BUDGET = 600.0  # seconds, unless said otherwise
SCREENED = 3  # blocks of the screening in any case, if its share of the budget holds them
SCREENED_MOST = 12  # blocks of a screening whose effects are not yet known to SCREENED_TO
SCREENED_TO = 0.03  # half-width of a single choice's ratio; a main effect of 16 choices is then known to a third of it
FIRST_LOOK, RACED = 3, 24  # blocks of a race: until its first look, and at most
# Of what is left of the budget.
SHARES: dict[Phase, float] = {"screening": 0.35, "race": 0.35, "refinement": 0.4, "confirmation": 1.0}

Tried = tuple[tuple[Choice, ...], ...]


def begin(study: Study, spaces: Sequence[Space], *, budget: float, preference: Preference, full: bool = False,
          say: Callable[[str], None] = silent) -> Experiment:
    """The screening. `study`: one program or command, with settings that hold for all phases. Errors as those of `assemble`."""
    tried = tuple(tuple(screening(space.counts)) for space in spaces)
    labels = tuple(label for space, choices in zip(spaces, tried, strict=True) for label in map(space.label, choices))
    asked = {**study.settings, "budget": budget * SHARES["screening"], "interleave": "trials"}
    made = assemble(replace(study, allocators=labels, baseline=spaces[0].allocator, settings=asked), full=full, say=say)
    tuning = Tuning("screening", tuple(spaces), tried, budget, preference, made.settings.precision)
    return replace(
        made,
        title=_title(tuning, made),
        settings=replace(made.settings, precision=SCREENED_TO, pilot_blocks=SCREENED, max_blocks=SCREENED_MOST),
        treatments=tuple(t for t in made.treatments if t.role == "treatment"),
        suite=f"{SUITE} {time.strftime('%y%m%d-%H%M%S')}",
        study=encode(tuning),
    )


def following(records: Sequence[Record], *, budget: float | None = None) -> Experiment | None:
    """The phase after these, which have ended; None at the end, or where nothing is left to try. `budget`: seconds from now on."""
    last = tuning_of(records[-1].experiment)
    if last.phase == PHASES[-1]:
        return None
    phase = PHASES[PHASES.index(last.phase) + 1]
    tried = tuple(_next_choices(records, last, place) for place in range(len(last.spaces)))
    kept = [place for place, choices in enumerate(tried) if len(choices) > 1]
    if not kept:
        return None
    spaces, tried = tuple(last.spaces[place] for place in kept), tuple(tried[place] for place in kept)
    left = budget if budget is not None else max(last.budget - sum(map(spent, records)), 0.0)
    return _experiment(records[0].experiment, replace(last, phase=phase, spaces=spaces, tried=tried), left * SHARES[phase])


def tuning_of(experiment: Experiment) -> Tuning:
    """The request that an experiment of a search carries."""
    return decode(Tuning, experiment.study)


def spent(record: Record) -> float:
    """Seconds in its trials."""
    return sum(trial.ended - trial.started for trial in record.trials if trial.status in ("ok", "failed"))


def answer(records: Sequence[Record], *, complete: bool) -> TuneAnswer:
    """What is known after these phases. `complete`: no phase is missing or cut short. O(trials)."""
    tunings = [tuning_of(record.experiment) for record in records]
    first = records[0]
    observations = first.observations
    return TuneAnswer(
        id=records[-1].id,
        workload=observations.workloads[0],
        tuning=tunings[0],
        time=observations.settings.time_metric,
        memory=observations.settings.memory_metric,
        margins=_margins(observations.settings),
        tuned=tuple(_tuned(space, records, tunings) for space in tunings[0].spaces),
        experiments={tuning.phase: record.id for tuning, record in zip(tunings, records, strict=True)},
        reached=tunings[-1].phase,
        complete=complete,
        trials=sum(trial.counted for record in records for trial in record.trials),
        seconds=sum(map(spent, records)),
        stages=tuple(map(_stage, records, tunings)),
    )


def _stage(record: Record, tuning: Tuning) -> Stage:
    counted = [trial for trial in record.trials if trial.counted]
    return Stage(
        phase=tuning.phase,
        experiment=record.id,
        status=record.status,
        budget=record.experiment.settings.budget or 0.0,
        seconds=spent(record),
        choices=sum(map(len, tuning.tried)),
        blocks=len({row.block for row in record.observations.rows}),
        trials=len(counted),
    )


def _next_choices(records: Sequence[Record], tuning: Tuning, place: int) -> tuple[Choice, ...]:
    """What the phase after `tuning`, that of the last record, measures of a space, the default first; the default alone where
    there is nothing more to find. O(trials + choices^3)."""
    space = tuning.spaces[place]
    time, memory = _measured(records, space)
    settings = records[-1].observations.settings
    if tuning.phase == "refinement":
        return (space.default, *finalists(space, (time, memory), _margins(settings)))
    return entrants(space, (time, memory), _margins(settings), settings.seed)


def _measured(records: Sequence[Record], space: Space) -> tuple[Measured, Measured]:
    """Time and memory of all choices of an allocator, phase by phase."""
    time, memory = [], []
    for record in records:
        tuning = tuning_of(record.experiment)
        choices = {s.allocator: tried for s, tried in zip(tuning.spaces, tuning.tried, strict=True)}.get(space.allocator)
        if choices:
            fast, small = responses_of(record.observations, list(map(space.label, choices)))
            time.append((choices, fast))
            memory.append((choices, small))
    return time, memory


def _effects(record: Record, space: Space, choices: tuple[Choice, ...]) -> tuple[Effect, ...]:
    responses = responses_of(record.observations, list(map(space.label, choices)))
    confidence = record.observations.settings.confidence
    return tuple(e for response in responses for e in main_effects(space, choices, response, confidence=confidence))


def _margins(settings: Settings) -> tuple[float, float]:
    return settings.margin_time, settings.margin_memory


def _experiment(first: Experiment, tuning: Tuning, budget: float) -> Experiment:
    """A later phase: the same program, other choices, random orders of its own."""
    from ..catalog.allocators import find_allocators

    families = tuple(tuple(map(s.label, tried)) for s, tried in zip(tuning.spaces, tuning.tried, strict=True))
    found = find_allocators([label for family in families for label in family])
    treatments = [Treatment(allocator.name, allocator) for allocator in found]
    baseline = families[0][0]
    settings = replace(
        first.settings,
        baseline=baseline,
        budget=budget,
        blocks=None,
        seed=first.settings.seed + PHASES.index(tuning.phase),
    )
    usual = Settings()
    if tuning.phase in RACES:
        looks = looks_from(FIRST_LOOK, RACED)
        settings = replace(settings, pilot_blocks=FIRST_LOOK, max_blocks=RACED, looks=looks, race=families)
    else:
        settings = replace(settings, precision=tuning.precision, pilot_blocks=usual.pilot_blocks, max_blocks=usual.max_blocks,
                           looks=(), race=())
        treatments.append(Treatment(baseline + CONTROL_SUFFIX, found[0], role="control"))
    made = replace(first, settings=settings, treatments=tuple(treatments), study=encode(tuning))
    return replace(made, title=_title(tuning, made))


def _title(tuning: Tuning, experiment: Experiment) -> str:
    names = ", ".join(space.allocator for space in tuning.spaces)
    return f"{tuning.phase} of settings of {names} on {experiment.programs[0].name}"


def _tuned(space: Space, records: Sequence[Record], tunings: Sequence[Tuning]) -> Tuned:
    """What all phases say of one allocator."""
    there = {
        tuning.phase: (record, tuning.tried[place])
        for record, tuning in zip(records, tunings, strict=True)
        for place, own in enumerate(tuning.spaces)
        if own.allocator == space.allocator
    }
    screened, choices = there["screening"]
    raced = {choice for phase in RACES if phase in there for choice in there[phase][1]}
    last = there["confirmation"][1] if "confirmation" in there else ()
    confirmed = None
    if last and there["confirmation"][0].observations.rows:
        confirmed = confirm(there["confirmation"][0].observations, space, last, allocators=len(tunings[0].spaces))
    best, environment = None, dict[str, str]()
    if confirmed is not None:
        best = choose_setting(confirmed, space, last[1:], tunings[0].preference, _measured(records, space),
                              _margins(records[0].observations.settings))
        if best is not None:
            environment = _environment(there["confirmation"][0].experiment, space.label(best))
    measured = [
        (phase, tried, responses_of(record.observations, list(map(space.label, tried))))
        for phase, (record, tried) in there.items()
    ]
    over = any(tuning.phase == "confirmation" for tuning in tunings) or _over(records, tunings)
    return Tuned(
        space=space,
        effects=_effects(screened, space, choices),
        screened=len(choices),
        raced=max(len(raced) - 1, 0),
        held=over and not last,
        finalists=last[1:],
        confirmed=confirmed,
        best=best,
        environment=environment,
        candidates=candidates(space, measured, confidence=screened.observations.settings.confidence),
    )


def _over(records: Sequence[Record], tunings: Sequence[Tuning]) -> bool:
    """Did the search end before its last phase because there was nothing left to try?"""
    return records[-1].status == "finished" and all(
        len(_next_choices(records, tunings[-1], place)) < 2 for place in range(len(tunings[-1].spaces))
    )


def _environment(experiment: Experiment, label: str) -> dict[str, str]:
    """What a user sets to have this treatment; glibc needs no library."""
    allocator = next(t.allocator for t in experiment.treatments if t.label == label)
    library = {} if allocator.library is None or allocator.base == "glibc" else {"LD_PRELOAD": str(allocator.library)}
    return library | allocator.env
