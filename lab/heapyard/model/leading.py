# SPDX-License-Identifier: Apache-2.0
"""Which response of memory leads an answer: the one place that decides it."""

from __future__ import annotations

from collections.abc import Collection

CHARGED = "charged"  # added up from looks at every process of the trial
GROUP_CHARGED = "group_charged"  # from the account of a control group that the trial has for itself
PEAK_RSS = "peak_rss"  # what led before charged memory was measured

_IN_THEIR_PLACE = (CHARGED, PEAK_RSS)  # measured in every trial: the first since it is known, the second always


def leading_memory(wanted: str, *measured: Collection[str]) -> str:
    """The response to speak of where `wanted` was asked for, in one experiment or, like with like, in several.

    `measured`: for each experiment the names of what was measured. Charged memory that one of them lacks gives way to
    what all have: from a group to looks, from looks to peak RSS. Any other response never gives way. O(experiments).
    """
    if wanted not in (CHARGED, GROUP_CHARGED):
        return wanted
    return next((m for m in (wanted, *_IN_THEIR_PLACE) if all(m in those for those in measured)), wanted)
