# SPDX-License-Identifier: Apache-2.0
"""Installing allocators: packages through apt, crates through Cargo; one that fails says why and the rest go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from ...model.allocator import Allocator
from ...model.errors import HeapyardError, SetupError
from .. import debian
from ..allocators import load_allocators, unknown_allocator
from ..library_facts import FactsCache
from .build import CARGO_PACKAGES, UnreachableError, build_peer, up_to_date
from .files import Peer, load_peers
from .verify import verify

Report = Callable[[str, str], None]


class Outcome(NamedTuple):
    """What became of one wanted allocator. `packages`: what the user has to install, since we may not."""

    name: str
    ok: bool
    reason: str  # why not; or what it is, for one that is there
    packages: tuple[str, ...] = ()
    unreachable: bool = False  # its sources could not be fetched: a network may be all that is missing


def install_allocators(names: Sequence[str], report: Report) -> list[Outcome]:
    """Make each of `names` usable; `report(name, step)` is called as things happen. One outcome per name, in order.

    What is there already is only verified. UsageError for a name that is not in the catalog, before anything is done.
    """
    peers, catalog = load_peers(), load_allocators()
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in catalog:
            raise unknown_allocator(name, catalog)
    failures: dict[str, Outcome] = {}
    # Two allocators may share a library: it is made once.
    makers = {name: peers[name].library_of or name for name in names if name in peers}
    built: set[str] = set()
    for maker in dict.fromkeys(makers.values()):
        there = catalog[maker].status == "installed" and (not peers[maker].recipe or up_to_date(peers[maker]))
        failure = None if there else _install(peers[maker], report)
        if failure:
            failures[maker] = failure
        elif not there and peers[maker].recipe:
            built.add(maker)
    catalog = load_allocators()
    verdicts = _verify([catalog[name] for name in names], built, report)
    return [_outcome(catalog[name], failures.get(makers.get(name, "")), verdicts.get(name)) for name in names]


def _install(peer: Peer, report: Report) -> Outcome | None:
    """None when all went well."""
    try:
        if peer.recipe:
            build_peer(peer, lambda step: report(peer.name, step))
        elif peer.packages:
            debian.install(["|".join(peer.packages)], lambda step: report(peer.name, step))
    except SetupError as error:
        packages = CARGO_PACKAGES if peer.recipe else "|".join(peer.packages)
        return Outcome(peer.name, False, error.message, (packages,) if error.remedy else ())
    except UnreachableError as error:
        return Outcome(peer.name, False, error.message, unreachable=True)
    except HeapyardError as error:
        return Outcome(peer.name, False, error.message)
    return None


def _verify(wanted: Iterable[Allocator], built: Collection[str], report: Report) -> dict[str, str]:
    """What is wrong with each installed one ("" if nothing), remembered for the next listing. Builds verify their own."""
    cache, flaws = FactsCache(), {}
    for allocator in wanted:
        if allocator.status == "installed" and allocator.library:
            if allocator.name in built:
                flaws[allocator.name] = ""
            else:
                report(allocator.name, "checking that it serves malloc")
                flaws[allocator.name] = verify(allocator.library, allocator.env)
            cache.remember_verdict(allocator, flaws[allocator.name])
    cache.save()
    return flaws


def _outcome(allocator: Allocator, failure: Outcome | None, flaw: str | None) -> Outcome:
    """`flaw` is what verification found, "" if nothing; None if there was no library to verify."""
    if failure:
        return failure._replace(name=allocator.name)
    if flaw is None:
        return Outcome(allocator.name, False, allocator.reason)
    if flaw:
        return Outcome(allocator.name, False, f"{allocator.library} {flaw}")
    return Outcome(allocator.name, True, f"{allocator.version}, {allocator.provenance}")
