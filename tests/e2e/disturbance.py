# SPDX-License-Identifier: Apache-2.0
"""A machine whose speed moves: on every processor something of higher priority takes a share of the time that changes.

The share follows a sum of sines of random phase between 0.1 and 10 Hz, around `depth`, from nothing to twice that. So do
the speeds of machines in clouds. Needs the right to real-time priority (root, or CAP_SYS_NICE).

    python tests/e2e/disturbance.py --depth 0.1 --seconds 60
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

PERIOD = 0.004  # seconds in which a share is taken once
FREQUENCIES = (0.1, 0.23, 0.5, 1.1, 2.3, 4.7, 10.0)  # Hz


def may_disturb() -> bool:
    """May this process take real-time priority?"""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, *before)
    return True


def disturb(cpu: int, depth: float, seed: int, until: float) -> None:
    """Takes this processor by turns until the clock (monotonic) says `until`."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    draw = random.Random(seed)
    waves = [(2 * math.pi * f, draw.uniform(0, 2 * math.pi)) for f in FREQUENCIES]
    while (now := time.monotonic()) < until:
        wave = sum(math.sin(speed * now + phase) for speed, phase in waves) / math.sqrt(len(waves) / 2)
        busy = now + PERIOD * depth * min(max(1 + wave / 2, 0.0), 2.0)
        while time.monotonic() < busy:
            pass
        time.sleep(max(0.0, now + PERIOD - time.monotonic()))


@contextmanager
def disturbed(depth: float = 0.1, seconds: float = 3600.0) -> Iterator[None]:
    """Every processor that this process may use is disturbed meanwhile."""
    children = []
    for cpu in sorted(os.sched_getaffinity(0)):
        child = os.fork()
        if child == 0:
            try:
                disturb(cpu, depth, cpu, time.monotonic() + seconds)
            finally:
                os._exit(0)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=float, default=0.1, help="mean share of the time that is taken")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with disturbed(options.depth, options.seconds):
        time.sleep(options.seconds)
