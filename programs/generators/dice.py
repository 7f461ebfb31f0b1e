# SPDX-License-Identifier: Apache-2.0
"""Chance and vocabulary shared by the generators; the same on every machine and every version of Python.

Only `random.Random.random` is promised never to change its sequence, so everything is derived from it.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_ONSETS = tuple("b br c ch d dr f g gr h j k l m n p pl r s st t tr v w".split())
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_CODAS = ("", "", "l", "m", "n", "r", "s", "t", "nd", "st")


class Dice:
    """A seeded source of numbers, choices and words."""

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def below(self, end: int) -> int:
        """A whole number in [0, end)."""
        return int(self.random() * end)

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def word(self) -> str:
        """A pronounceable word of one to four syllables."""
        count = self.between(1, 4)
        return "".join(self.choice(part) for _ in range(count) for part in (_ONSETS, _VOWELS, _CODAS))


class Vocabulary:
    """Distinct words, used as often as words of a language: the n-th about 1/n as often as the first (Zipf's law)."""

    def __init__(self, dice: Dice, size: int):
        self._dice = dice
        words: dict[str, None] = {}
        while len(words) < size:
            words[dice.word()] = None
        self.words = list(words)
        self._cumulative = list(itertools.accumulate(1 / rank for rank in range(1, size + 1)))

    def word(self) -> str:
        """One word; O(log size)."""
        return self.words[bisect.bisect(self._cumulative, self._dice.random() * self._cumulative[-1])]

    def text(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))


def parameters(about: str, **defaults: int) -> argparse.Namespace:
    """The generator's `--name VALUE` options, whole numbers; files are written into the current folder."""
    parser = argparse.ArgumentParser(description=about)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()
