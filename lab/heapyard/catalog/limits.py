# SPDX-License-Identifier: Apache-2.0
"""`p99=5ms,failed=0.1%` as limits that a server's answers must keep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model.errors import UsageError
from ..model.limits import FAILED_SHARE, Limit
from ..model.program import Reading

FAILED_BY_DEFAULT = Limit(FAILED_SHARE, 0.01, "failed=1%", asked=False)  # answers that fail at once would be the quickest of all
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def parse_limits(texts: Sequence[str], readings: Sequence[Reading] = ()) -> tuple[Limit, ...]:
    """Each text holds one limit or several with commas between. UsageError, in one sentence, for what is none.

    A limit is of a latency (p50, p99.9, mean, max), of the share of requests that failed, or of one of `readings`. Unless it
    is given, one request in a hundred may fail.
    """
    named = {reading.name: reading for reading in readings}
    limits = [_limit(part.strip(), named) for text in texts for part in text.split(",")]
    twice = next((a.metric for i, a in enumerate(limits) if any(a.metric == b.metric for b in limits[:i])), None)
    if twice:
        raise UsageError(f"--slo has two limits of {twice.removeprefix('latency_')}; give one")
    if not any(limit.metric == FAILED_SHARE for limit in limits):
        limits.append(FAILED_BY_DEFAULT)
    return tuple(limits)


def _limit(text: str, readings: dict[str, Reading]) -> Limit:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise UsageError(f"--slo '{text}': write a limit such as p99=5ms, mean=800us or failed=0.1%")
    if name in readings:
        return Limit(name, _number(text, value), text, at_least=readings[name].direction == "higher")
    if name == "failed":
        return Limit(FAILED_SHARE, _share(text, value), text)
    if name in ("mean", "max") or (re.fullmatch(r"p\d{1,2}(\.\d+)?", name) and float(name[1:]) > 0):
        shown = name if name in ("mean", "max") else f"p{float(name[1:]):.6g}"
        return Limit(f"latency_{shown}", _seconds(text, value), text)
    own = f", or a --metric of yours ({', '.join(readings)})" if readings else ""
    raise UsageError(f"--slo '{text}': there is no '{name}'; limits are of p50, p99, p99.9, mean, max or failed{own}")


def _seconds(text: str, value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s|m)", value)
    if not match or float(match[1]) == 0:
        raise UsageError(f"--slo '{text}': a latency is a number above zero with its unit, such as 5ms or 800us")
    return float(match[1]) * _UNITS[match[2]]


def _share(text: str, value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", value)
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if share >= 1:
        raise UsageError(f"--slo '{text}': the share of failed requests is below 100 %, such as 0.1%")
    return share


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"--slo '{text}': the limit of a --metric is a number, in the metric's own unit") from None
