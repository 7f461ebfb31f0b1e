# SPDX-License-Identifier: Apache-2.0
"""The allocators of a comparison that names none: installed the first time, each tried only once, whatever the outcome."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...model import places
from ...model.allocator import Allocator
from ...model.units import format_duration
from .. import debian
from ..allocators import load_allocators
from .files import Peer, load_peers
from .install import Outcome, Report, install_allocators

Say = Callable[[str], None]


def usual_missing() -> list[str]:
    """Allocators that a first comparison would race and that are not here but could be, in the catalog's order."""
    catalog = load_allocators()
    return [peer.name for peer in _usual_peers(catalog) if catalog[peer.name].status == "available"]


def install_usual(say: Say) -> None:
    """Install what `usual_missing` names, unless it was tried before; `say` gets a line per step.

    What cannot be had is said in one sentence and left out: a comparison starts at once the second time, with a network
    or without. A later `heapyard allocators install` tries again.
    """
    tried = _tried()
    while wanted := [name for name in usual_missing() if name not in tried and _allowed(load_peers()[name])]:
        wanted.sort(key=_seconds)  # whoever interrupts the last and longest has the others
        say(_announcement(wanted))
        failed = _install(wanted, say)
        tried |= set(wanted)
        _remember(tried)
        _tell(failed, say)
        # What stands in for an allocator that failed is wanted only now: at most one more turn.


def _usual_peers(catalog: dict[str, Allocator]) -> list[Peer]:
    """Those that belong to the race; one that stands in for another only while that one cannot be had at once."""
    tried = _tried()

    def there_or_to_come(name: str) -> bool:
        return catalog[name].status == "installed" or (catalog[name].status == "available" and name not in tried)

    peers = [peer for peer in load_peers().values() if peer.default]
    return [peer for peer in peers if not peer.in_place_of or not there_or_to_come(peer.in_place_of)]


def _allowed(peer: Peer) -> bool:
    """Whether set-up may install it: neither a network nor the system's packages are touched against the user's wish."""
    if os.environ.get("HEAPYARD_OFFLINE"):
        return False
    return bool(peer.recipe and shutil.which("cargo")) or os.environ.get("HEAPYARD_SYSTEM_PACKAGES") != "skip"


def _seconds(name: str) -> int:
    """That one processor needs to compile it."""
    recipe = load_peers()[name].recipe
    return recipe.seconds if recipe else 0


def _announcement(names: Sequence[str]) -> str:
    listed = f"installing the usual allocators once: {', '.join(names)}"
    if not any(load_peers()[name].recipe for name in names):
        return listed
    seconds = 10 * math.ceil(sum(map(_seconds, names)) / len(os.sched_getaffinity(0)) / 10)
    took = f"about {format_duration(seconds)}" if seconds else "seconds"
    return f"{listed}; compiling them takes {took} on a quiet machine (HEAPYARD_OFFLINE=1 does without)"


def _saying(say: Say, place: str) -> Report:
    return lambda who, step: say(f"{who} ({place}): {step}")


def _install(names: Sequence[str], say: Say) -> list[Outcome]:
    """The failures. Once sources are out of reach, the other builds are not tried: each would wait for the network."""
    failed: list[Outcome] = []
    for number, name in enumerate(names, 1):
        if load_peers()[name].recipe and any(outcome.unreachable for outcome in failed):
            failed.append(Outcome(name, False, "", unreachable=True))
            continue
        place = f"{number} of {len(names)}"
        (outcome,) = install_allocators([name], _saying(say, place))
        if not outcome.ok:
            failed.append(outcome)
    return failed


def _tell(failed: Sequence[Outcome], say: Say) -> None:
    """One sentence for all that are out of reach or want an administrator, one each for the rest."""
    away = [outcome.name for outcome in failed if outcome.unreachable]
    if away:
        say(f"{_list(away)} {_are(away)} left out: the sources cannot be fetched from here. "
            f"With a network: heapyard allocators install {' '.join(away)}")
    wanting = [outcome for outcome in failed if outcome.packages]
    if wanting:
        packages = list(dict.fromkeys(package for outcome in wanting for package in outcome.packages))
        names = [outcome.name for outcome in wanting]
        say(f"{_list(names)} {_are(names)} left out: only an administrator can install what they need. "
            f"Run: {debian.install_command(packages)}; then: heapyard allocators install {' '.join(names)}")
    for outcome in failed:
        if not outcome.unreachable and not outcome.packages:
            say(f"{outcome.name} is left out: {outcome.reason}")


def _tried() -> set[str]:
    try:
        return set(_record().read_text().split())
    except OSError:
        return set()


def _remember(names: Iterable[str]) -> None:
    _record().parent.mkdir(parents=True, exist_ok=True)
    _record().write_text("".join(f"{name}\n" for name in sorted(names)))


def _record() -> Path:
    return places.peers() / "tried"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
