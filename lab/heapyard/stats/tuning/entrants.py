# SPDX-License-Identifier: Apache-2.0
"""Which choices are worth a race after what was measured so far, and which are confirmed at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from ...model.tuning import Choice, Space
from .surface import Measured, Surface, fit_surface

ENTRANTS = 10  # at most, beside the default
_DRAWS = 60  # of surfaces that the data allow
_DRAWN = 64  # candidates of a draw: those whose gain may be greatest
_ALL = 600  # combinations; of more, those near what is known to be good are looked at
_SIMPLER = 0.25  # of the margin: what a choice that sets less may be behind
_HOPE = 1.3  # standard errors: a tenth of what is likely is better still


@dataclass(frozen=True, slots=True)
class Views:
    """Time and memory of candidates. `gains`: ln ratio to the default by response; `errors`: their standard errors."""

    candidates: tuple[Choice, ...]
    gains: tuple[NDArray[np.float64], NDArray[np.float64]]
    errors: tuple[NDArray[np.float64], NDArray[np.float64]]
    spreads: tuple[NDArray[np.float64], NDArray[np.float64]]
    limits: tuple[float, float]  # ln of 1 + margin

    def least(self, response: int, allowed: NDArray[np.bool_] | None = None) -> int | None:
        """The candidate that gains most; of those about as good, the one that sets least. None where nobody gains."""
        gains = self.gains[response]
        open_to = gains < 0 if allowed is None else (gains < 0) & allowed
        if not open_to.any():
            return None
        best = float(gains[open_to].min())
        alike = np.flatnonzero(open_to & (gains <= best + _SIMPLER * self.limits[response]))
        return int(min(alike, key=lambda at: (sum(map(bool, self.candidates[at])), gains[at])))

    def drawn(self, response: int, rng: np.random.Generator) -> list[int]:
        """Of each drawn surface the candidate that gains most; none where all have failed. O(draws + 64^3)."""
        if not self.candidates:
            return []
        hopeful = np.argsort(self.gains[response] - 2 * self.errors[response], kind="stable")[:_DRAWN]
        surfaces = rng.multivariate_normal(
            self.gains[response][hopeful], self.spreads[response][np.ix_(hopeful, hopeful)], _DRAWS, method="eigh"
        )
        return [int(at) for at in hopeful[surfaces.argmin(axis=1)]]

    def best(self) -> list[int]:
        """The least time, the least memory, and either without a price in the other."""
        free = [self.gains[other] <= self.limits[other] / 2 for other in (1, 0)]
        found = [self.least(0), self.least(1), self.least(0, free[0]), self.least(1, free[1])]
        return list(dict.fromkeys(at for at in found if at is not None))


def entrants(space: Space, phases: tuple[Measured, Measured], margins: tuple[float, float], seed: int) -> tuple[Choice, ...]:
    """Choices that the next race shall decide between, the default first.

    What is predicted to be best; then the best of surfaces drawn at random from what the data allow, so that a choice is raced
    as often as it is likely to be the best (Thompson, Biometrika 25, 1933): two draws of time for one of memory. `phases`: time
    and memory of all phases so far. O(draws x candidates^2 + candidates^3).
    """
    views = _views(space, phases, margins)
    found = views.best()
    rng = np.random.default_rng(seed)
    draws = [views.drawn(response, rng) for response in (0, 1)]
    found += chain.from_iterable((*draws[0][2 * i : 2 * i + 2], *draws[1][i : i + 1]) for i in range(_DRAWS // 2))
    choices = (views.candidates[at] for at in found)
    return tuple(dict.fromkeys([space.default, *choices]))[: ENTRANTS + 1]


def finalists(space: Space, phases: tuple[Measured, Measured], margins: tuple[float, float]) -> tuple[Choice, ...]:
    """What is confirmed, the default left out: the least time, the least memory, and the best that costs nothing in either.

    Only what was measured, and only what may well gain half a margin. O(choices^3).
    """
    views = _views(space, phases, margins, measured=True)
    hopeful = [at for at in views.best() if any(
        gains[at] - _HOPE * errors[at] < -limit / 2 and gains[at] < 0
        for gains, errors, limit in zip(views.gains, views.errors, views.limits, strict=True)
    )]
    return tuple(views.candidates[at] for at in hopeful[:3])


def _views(space: Space, phases: tuple[Measured, Measured], margins: tuple[float, float], *, measured: bool = False) -> Views:
    time, memory = (fit_surface(space, of) for of in phases)
    broken = {choice for of in phases for choice in _never_seen(of)}
    wanted = time.known if measured else _candidates(space, (time, memory))
    candidates = tuple(choice for choice in wanted if choice != space.default and choice not in broken)
    (gains, spread), (other_gains, other_spread) = time.gains(candidates), memory.gains(candidates)
    errors = tuple(np.sqrt(np.maximum(np.diag(s), 0.0)) for s in (spread, other_spread))
    return Views(candidates, (gains, other_gains), (errors[0], errors[1]), (spread, other_spread),
                 (math.log1p(margins[0]), math.log1p(margins[1])))


def _never_seen(phases: Measured) -> list[Choice]:
    """Choices that were tried and gave nothing: they failed."""
    return [choice for choices, response in phases for choice, column in zip(choices, response.logs.T, strict=True)
            if not np.isfinite(column).any()]


def _candidates(space: Space, surfaces: tuple[Surface, Surface]) -> tuple[Choice, ...]:
    """All combinations; of very many, those measured, and what differs in one setting from the best that can be reached."""
    if space.combinations <= _ALL:
        return tuple(product(*map(range, space.counts)))
    found = dict.fromkeys(surfaces[0].known)
    for surface in surfaces:
        best = surface.known[int(surface.gains(surface.known)[0].argmin())]
        for _ in range(len(space.settings)):
            near = _near(space, best)
            found |= dict.fromkeys(near)
            better = near[int(surface.gains(near)[0].argmin())]
            if better == best:
                break
            best = better
    return tuple(found)


def _near(space: Space, choice: Choice) -> list[Choice]:
    changed = [(*choice[:at], level, *choice[at + 1 :]) for at, count in enumerate(space.counts) for level in range(count)]
    return list(dict.fromkeys([choice, *changed]))
