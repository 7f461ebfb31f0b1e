# SPDX-License-Identifier: Apache-2.0
"""Limits that a server's answers must keep, and what a trial at a rate showed of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .metrics import Metric

ASKED = Metric("asked_rate", "asked rate", "1/s", "neutral", about="requests a second that the load was told to send")
FAILED_SHARE = "failed"  # of all requests; what generators tell are counts
REACHED = 0.97  # of the asked rate: a load that sends less has failed to send it
SIGMAS = 3.0  # by which a count of arrivals at random may fall short as well


@dataclass(frozen=True, slots=True)
class Limit:
    """`metric` may be at most `bound`, or at least where more is better. `text` is what the user wrote."""

    metric: str  # latency_p99, latency_mean, ..., FAILED_SHARE, or a reading of the user's
    bound: float  # s for latencies, a share for failures, else the reading's own unit
    text: str
    at_least: bool = False
    asked: bool = True  # the user gave it, and a load that does not tell its response is refused

    def excess(self, value: float) -> float:
        """0 at the limit, below 0 where it is kept: 1 - bound/value.

        The delay of a queue is about 1/(service rate - arrival rate), so that this is nearly linear in the rate.
        """
        if self.at_least:
            return 1 - value / self.bound if self.bound > 0 else math.copysign(math.inf, self.bound - value)
        if value <= 0:
            return -math.inf
        return 1 - self.bound / value if self.bound > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Shown:
    """What one trial at a rate showed: `excess` of the limit it kept least (above 0: it broke it; inf: it was not judged
    by a number), and in `broke` what it broke, "" if nothing."""

    rate: float
    excess: float
    broke: str = ""
    trial: int = 0

    @property
    def kept(self) -> bool:
        return self.excess <= 0


RATE = "the rate"  # what a load broke that did not send all it should
TRIAL = "the trial"  # what a server or a load broke that failed


def achieved_rate(metrics: Mapping[str, float]) -> float | None:
    """Requests a second that the load sent, or else those that were answered; None where nothing tells."""
    return metrics.get("sent_rate", metrics.get("request_rate"))


def slack(metrics: Mapping[str, float]) -> float:
    """Requests a second by which `SIGMAS` standard deviations of a Poisson count may differ from its mean."""
    requests, rate = metrics.get("requests", 0.0), metrics.get("request_rate", 0.0)
    return SIGMAS * rate / math.sqrt(requests) if requests > 0 else 0.0


def value_of(limit: Limit, metrics: Mapping[str, float]) -> float | None:
    """The response that the limit is for; None where it was not measured."""
    if limit.metric != FAILED_SHARE:
        return metrics.get(limit.metric)
    if "failed_requests" not in metrics:
        return None
    failed = metrics["failed_requests"]
    return failed / max(metrics.get("requests", 0.0), failed, 1.0)


def shown(metrics: Mapping[str, float], limits: Sequence[Limit], *, trial: int = 0) -> Shown:
    """A trial that ended well, judged by its numbers. A limit whose response is missing is not judged. O(limits)."""
    rate, achieved = metrics[ASKED.name], achieved_rate(metrics)
    if achieved is not None and achieved < REACHED * rate - slack(metrics):
        return Shown(rate, math.inf, RATE, trial)
    worst = Shown(rate, -math.inf, "", trial)
    for limit in limits:
        value = value_of(limit, metrics)
        if value is not None and (excess := limit.excess(value)) > worst.excess:
            worst = Shown(rate, excess, limit.text if excess > 0 else "", trial)
    return worst
