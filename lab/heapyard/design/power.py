# SPDX-License-Identifier: Apache-2.0
"""What a number of blocks can find, and how long finding a given difference takes: paired t-test, noncentral t.

`residual_cv` is the noise of one trial beyond its block, as analyses report it: sqrt(exp(s^2) - 1), s^2 being the mean
square of the block model on the log scale. A difference is a ratio minus one: 0.02 is 2 % more.
"""

from __future__ import annotations

import math


def power(
    difference: float, residual_cv: float, blocks: int, *, confidence: float = 0.95, comparisons: int = 1
) -> float:
    """Probability that a paired t-test on `blocks` blocks calls the difference (Bonferroni over `comparisons`)."""
    from scipy.special import nctdtr, stdtrit

    if blocks < 2:
        return 0.0
    sd = _difference_sd(residual_cv)
    if sd == 0:
        return 1.0 if difference else 1 - confidence
    df = blocks - 1
    critical = float(stdtrit(df, 1 - (1 - confidence) / (2 * comparisons)))
    shift = abs(math.log1p(difference)) * math.sqrt(blocks) / sd
    if shift > 37:  # nctdtr loses its footing beyond; the power is 1 unless the critical value is that large
        return 1.0 if critical < shift / 2 else 0.0
    return float(1 - nctdtr(df, shift, critical) + nctdtr(df, shift, -critical))


def detectable_difference(
    residual_cv: float, blocks: int, *, chance: float = 0.8, confidence: float = 0.95, comparisons: int = 1
) -> float:
    """Smallest ratio minus one that `blocks` blocks find with probability `chance`; inf with fewer than two blocks."""
    if blocks < 2:
        return math.inf
    low, high = 0.0, 1e-6
    while power(high, residual_cv, blocks, confidence=confidence, comparisons=comparisons) < chance:
        low, high = high, high * 2
        if high > 1e6:
            return math.inf
    for _ in range(50):
        middle = (low + high) / 2
        found = power(middle, residual_cv, blocks, confidence=confidence, comparisons=comparisons) >= chance
        low, high = (low, middle) if found else (middle, high)
    return high


def blocks_for(
    difference: float, residual_cv: float, *, chance: float = 0.8, confidence: float = 0.95, comparisons: int = 1
) -> int | None:
    """Fewest blocks that find `difference` with probability `chance`; None when a million would not do."""
    low, high = 1, 2
    while power(difference, residual_cv, high, confidence=confidence, comparisons=comparisons) < chance:
        low, high = high, high * 2
        if high > 1_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        found = power(difference, residual_cv, middle, confidence=confidence, comparisons=comparisons) >= chance
        low, high = (low, middle) if found else (middle, high)
    return high


def minutes_for(
    difference: float,
    residual_cv: float,
    block_seconds: float,
    *,
    chance: float = 0.8,
    confidence: float = 0.95,
    comparisons: int = 1,
) -> float:
    """Minutes of blocks of `block_seconds` each that find `difference` with probability `chance`; inf if none do."""
    blocks = blocks_for(difference, residual_cv, chance=chance, confidence=confidence, comparisons=comparisons)
    return math.inf if blocks is None else blocks * block_seconds / 60


def _difference_sd(residual_cv: float) -> float:
    """Standard deviation of the log ratio of two trials of one block."""
    return math.sqrt(2 * math.log1p(residual_cv**2))
