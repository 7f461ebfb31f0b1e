# SPDX-License-Identifier: Apache-2.0
"""Which choices enter the race after the screening, and which are confirmed after the race."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...design.racing import beaten
from ...model.tuning import Choice, Effect, Space
from .responses import Response

ENTRANTS = 10  # at most, beside the default
NEIGHBOURS = 14  # the same of the second race
_WORTH = 1.0  # standard errors that a level's gain must have to be taken along; the race sees what was noise
_SEEN = 2  # best measured combinations of each response: what main effects miss, settings that only help together, shows there


def entrants(space: Space, choices: Sequence[Choice], responses: tuple[Response, Response], effects: Sequence[Effect],
             margins: tuple[float, float], *, confidence: float, most: int = ENTRANTS) -> tuple[Choice, ...]:
    """Choices that the race shall decide between, the default first and the most promising next.

    Of each response: what the main effects predict to be best, the same without levels that cost the other response, and the
    best combinations that were measured; then the predicted ones with one setting left at its default, which helps where two
    settings spoil each other; then single levels that gain. O(choices log choices + levels).
    """
    gains = [response.gains() for response in responses]
    scores = [_scores(space, effects, response.metric, confidence) for response in responses]
    found: list[Choice] = []
    for one, other in ((0, 1), (1, 0)):
        gaining = {at: scores[one](at)[0] for at in _levels(space) if _gains(scores[one](at))}
        thrifty = {at: _thrifty(scores[one](at), scores[other](at), margins[other]) for at in _levels(space)}
        found += [_best(space, gaining), _best(space, thrifty)]
    found += [choices[column] for gain in gains for column in _lowest(gain, _SEEN)]
    found += [_changed(found[one], place, 0) for place in range(len(space.settings)) for one in (0, 2) if found[one][place]]
    singles = [at for at in _levels(space) if any(_gains(score(at)) for score in scores)]
    singles.sort(key=lambda at: min(score(at)[0] for score in scores))
    found += [_single(space, at) for at in singles]
    if space.combinations <= most:  # so few that none need be left out by what a noisy screening says
        found += choices
    return tuple(dict.fromkeys([space.default, *found]))[: most + 1]


def finalists(choices: Sequence[Choice], alive: Iterable[int], responses: tuple[Response, Response],
              margins: tuple[float, float]) -> tuple[Choice, ...]:
    """What is confirmed, the default (the first choice) left out: the least time, the least memory, and the best that costs
    nothing in either. Only what looks better than the default in something. Of those that are as good within a standard error
    (Breiman et al., Classification and Regression Trees, 1984) or half a margin, the one that sets least. O(choices x blocks)."""
    time, memory = (response.gains() for response in responses)
    known = [c for c in alive if c and np.isfinite(time[c]) and np.isfinite(memory[c])]
    free = [c for c in known if time[c] <= math.log1p(margins[0]) and memory[c] <= math.log1p(margins[1])]
    best = [
        _simplest(choices, [c for c in known if time[c] < 0], responses[:1], margins[0]),
        _simplest(choices, [c for c in known if memory[c] < 0], responses[1:], margins[1]),
        _simplest(choices, [c for c in free if min(time[c], memory[c]) < 0], responses, min(margins)),
    ]
    return tuple(dict.fromkeys(choice for choice in best if choice is not None))


def neighbours(space: Space, best: Sequence[Choice], known: Iterable[Choice], *, most: int = NEIGHBOURS) -> tuple[Choice, ...]:
    """What a second race decides between: the default, the `best` of the first, these without one of their settings, and what
    differs from the first of them in one setting, `known` ones left out. So settings that spoil each other, which main effects
    mislead about, are seen, and those that bring nothing. Nothing but the default where nobody was left. O(levels)."""
    if not best:
        return (space.default,)
    old = set(known)
    without = [_changed(choice, place, 0) for choice in best for place in range(len(choice))]
    near = [_changed(best[0], place, level) for place, count in enumerate(space.counts) for level in range(count)]
    fresh = [choice for choice in (*without, *near) if choice not in old]
    return tuple(dict.fromkeys([space.default, *best, *fresh]))[: most + 1]


def survivors(responses: tuple[Response, Response], margins: tuple[float, float]) -> list[int]:
    """Columns that were not beaten: those with the most blocks, by the rule of the race on the blocks that all of them have."""
    measured = np.isfinite(responses[0].logs) & np.isfinite(responses[1].logs)
    blocks = measured.sum(axis=0)
    if not blocks.any() or not blocks[0]:
        return []
    running = [column for column, count in enumerate(blocks) if column == 0 or count == blocks[1:].max(initial=1)]
    lines = measured[:, running].all(axis=1)
    out = beaten([response.logs[lines][:, running] for response in responses], margins)
    return [column for column, gone in zip(running, out, strict=True) if not gone]


def _simplest(
    choices: Sequence[Choice], columns: Sequence[int], responses: Sequence[Response], margin: float
) -> Choice | None:
    """The choice that sets least, of those whose responses together are as good as the best."""
    if not columns:
        return None
    together = sum((response.logs for response in responses), start=np.zeros(1))
    gains = Response("", together).gains()
    best = min(columns, key=lambda column: gains[column])
    apart = together - together[:, [best]]
    alike = [column for column in columns if _as_good(apart[:, column], math.log1p(margin) / 2)]
    return choices[min(alike, key=lambda column: (sum(map(bool, choices[column])), gains[column]))]


def _as_good(apart: NDArray[np.float64], room: float) -> bool:
    known = apart[np.isfinite(apart)]
    error = float(known.std(ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    return len(known) > 0 and float(known.mean()) <= max(error, room)


At = tuple[int, int]  # place of a setting, index of its level
Score = tuple[float, float]  # ln ratio to the default, standard errors that this is


def _levels(space: Space) -> list[At]:
    return [(place, level) for place, count in enumerate(space.counts) for level in range(1, count)]


def _single(space: Space, at: At) -> Choice:
    return tuple(at[1] if place == at[0] else 0 for place in range(len(space.settings)))


def _changed(choice: Choice, place: int, level: int) -> Choice:
    return (*choice[:place], level, *choice[place + 1 :])


def _scores(space: Space, effects: Sequence[Effect], metric: str, confidence: float) -> Callable[[At], Score]:
    """Main effects of one response by place and level; nought where nothing is known."""
    from scipy.special import ndtri

    widths = float(ndtri((1 + confidence) / 2))
    known: dict[tuple[str, str], Score] = {}
    for effect in effects:
        if effect.metric == metric and effect.interval.ratio > 0:
            middle = math.log(effect.interval.ratio)
            low = math.log(effect.interval.low) if effect.interval.low > 0 else -math.inf
            error = (middle - low) / widths
            known[effect.setting, effect.level] = middle, abs(middle) / error if error > 0 else math.inf if middle else 0.0

    def score(at: At) -> Score:
        setting = space.settings[at[0]]
        return known.get((setting.name, setting.levels[at[1] - 1]), (0.0, 0.0))

    return score


def _gains(score: Score) -> bool:
    return score[0] < 0 and score[1] >= _WORTH


def _thrifty(score: Score, price: Score, margin: float) -> float:
    """The gain of a level that costs the other response nothing, or gains there: else nought."""
    if price[0] > math.log1p(margin) / 2:
        return 0.0
    return score[0] if _gains(score) else price[0] if _gains(price) else 0.0


def _best(space: Space, values: Mapping[At, float]) -> Choice:
    """Of each setting the level of least value; the default, and what has none, is nought."""
    return tuple(int(np.argmin([values.get((place, level), 0.0) for level in range(count)]))
                 for place, count in enumerate(space.counts))


def _lowest(gains: NDArray[np.float64], most: int) -> list[int]:
    """Columns of the least gains below nought."""
    order = [int(column) for column in np.argsort(gains, kind="stable") if np.isfinite(gains[column]) and gains[column] < 0]
    return order[:most]
