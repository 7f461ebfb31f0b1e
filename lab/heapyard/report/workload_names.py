# SPDX-License-Identifier: Apache-2.0
"""Short names for the workloads of one mutator as headings of columns: what they share is said once."""

from __future__ import annotations

from collections.abc import Sequence


def short_names(workloads: Sequence[str]) -> tuple[list[str], str]:
    """`acdc threads=1`, `acdc threads=2`: (["1", "2"], "threads"). The factor is "" where several vary or names are not
    of that form; then only the words that all share are left out. O(letters)."""
    words = [w.split() for w in workloads]
    if len(set(workloads)) < 2 or len({len(w) for w in words}) != 1:
        return list(workloads), ""
    varied = [i for i in range(len(words[0])) if len({w[i] for w in words}) > 1]
    factors = {w[i].partition("=")[0] if "=" in w[i] else "" for w in words for i in varied}
    if len(varied) == 1 and len(factors) == 1 and (factor := factors.pop()):
        return [w[varied[0]].partition("=")[2] for w in words], factor
    return [" ".join(w[i] for i in varied) for w in words], ""
