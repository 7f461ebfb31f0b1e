# SPDX-License-Identifier: Apache-2.0
"""The catalog of allocators: everything that can be compared here, and what a name on the command line means."""

from __future__ import annotations

import difflib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..model import places
from ..model.allocator import SYSTEM, Allocator
from ..model.damage import DAMAGE, object_of, reading
from ..model.errors import UsageError
from . import debian
from .allocator_variants import OptionForm, apply_options, known_options, list_tunables, read_options, split_name
from .library_facts import FactsCache, library_flaw
from .own_heaps import own_heaps, own_options
from .peers.build import RECORD
from .peers.debian import owner, upstream_version
from .peers.files import Peer, load_peers
from .toml_file import TomlTable, read_toml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def load_allocators() -> dict[str, Allocator]:
    """Every allocator of the catalog and of the user's own file, installed or not, by name; glibc comes first.

    Costs about 30 ms, and once per new library a read of it for its digest. UsageError for a malformed file.
    """
    return {name: allocator for name, (allocator, _) in _catalog().items()}


def installed_allocators() -> list[Allocator]:
    """Those that can be compared now, in the catalog's order."""
    return [allocator for allocator in load_allocators().values() if allocator.status == "installed"]


def find_allocators(names: Sequence[str], extra: Mapping[str, Path] = {}) -> list[Allocator]:
    """What the user's words mean, in their order, each once: names, variants (`glibc:tcache=0`), `system`, `extra`'s.

    `extra` holds the user's own libraries by name. UsageError in one sentence for an unknown name (with near ones), an
    allocator that is not installed (with the command that installs it), an unknown option, a library that cannot serve.
    """
    catalog = _catalog()
    cache = FactsCache()
    for name, library in extra.items():
        if name in catalog:
            raise UsageError(f"--allocator {name}=...: the catalog has an allocator of this name; choose another name")
        catalog[name] = (_own_library(name, library, cache), None)
    cache.save()
    return [_find(name, catalog) for name in dict.fromkeys(names)]


def options_of(allocator: Allocator) -> frozenset[str]:
    """Options that this version has, by the names that a variant uses; none for a library of the user's own.

    Costs a read of the library, or a run of the dynamic linker: milliseconds. UsageError where glibc cannot tell.
    """
    _, form = _catalog().get(allocator.base, (None, None))
    if form is None:
        return frozenset()
    if form.tunables:
        return frozenset(name.removeprefix("glibc.malloc.") for name in list_tunables(allocator.library))
    return frozenset(known_options(allocator, form))


def build_record(allocator: Allocator) -> dict[str, object] | None:
    """How a library built here was made (crate, checksum, compiler, flags, date); None for any other."""
    record = allocator.library.parent / RECORD if allocator.library else None
    if record is None or not record.is_relative_to(places.peers().resolve()):
        return None
    with reading(record, "record of a build"):
        return object_of(record.read_bytes())


def parse_allocator_option(text: str) -> tuple[str, Path]:
    """`mine=./libmine.so` as ("mine", its absolute path); UsageError when malformed. The file is not looked at."""
    name, equals, path = text.partition("=")
    if not (equals and path and _NAME.fullmatch(name)):
        raise UsageError(f"--allocator '{text}': write NAME=LIBRARY, for example mine=./libmine.so")
    if name == SYSTEM:
        raise UsageError(f"--allocator '{text}': '{SYSTEM}' means the program's own malloc; choose another name")
    return name, Path(path).expanduser().absolute()


def system_allocator() -> Allocator:
    """Nothing is injected: whatever malloc a program is linked with serves it, and is recorded."""
    return Allocator(SYSTEM, "whatever the program is linked with", version="", library=None)


def unknown_allocator(name: str, known: Iterable[str]) -> UsageError:
    """The error for a name nobody knows, with those it resembles."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`heapyard allocators` lists those there are"
    return UsageError(f"there is no allocator '{name}'; {hint}")


def _find(name: str, catalog: dict[str, tuple[Allocator, OptionForm | None]]) -> Allocator:
    base, options = split_name(name)
    if base == SYSTEM:
        if options:
            raise UsageError(f"'{name}': '{SYSTEM}' injects nothing and takes no options; did you mean glibc?")
        return system_allocator()
    if base not in catalog:
        raise unknown_allocator(base, [*catalog, SYSTEM])
    allocator, form = catalog[base]
    if allocator.status == "broken":
        raise UsageError(f"allocator {base} is broken: {allocator.reason}", remedy=_install_hint(base))
    if allocator.status == "available":
        raise UsageError(f"allocator {base} is not installed", remedy=_install_hint(base))
    if allocator.status == "unavailable":
        raise UsageError(f"allocator {base} cannot be had here: {allocator.reason}")
    return apply_options(allocator, form, options, name)


def _install_hint(name: str) -> str:
    return f"Run: heapyard allocators install {name}"


def _catalog() -> dict[str, tuple[Allocator, OptionForm | None]]:
    """Every allocator with the form its options take."""
    peers = load_peers()
    cache = FactsCache()
    found: dict[str, tuple[Allocator, OptionForm | None]] = {}
    for peer in peers.values():
        allocator = _built(peer, peers) if peer.origin == "crate" else _on_system(peer, cache)
        found[peer.name] = (replace(_with_facts(allocator, cache), usual=peer.default), peer.options)
    for peer in peers.values():
        if peer.in_place_of and found[peer.in_place_of][0].status == "installed":
            found[peer.name] = (replace(found[peer.name][0], usual=False), peer.options)
    for heap in own_heaps():
        found[heap.name] = (_with_facts(heap, cache), own_options(heap))
    for name, own in _user_allocators(cache).items():
        if name in found:
            where = places.user_catalog()
            raise UsageError(f"{where}: allocator '{name}' has the name of one in the catalog; choose another")
        found[name] = own
    cache.save()
    return found


def _with_facts(allocator: Allocator, cache: FactsCache) -> Allocator:
    """The allocator with digest and build-id of its library, "broken" if the library cannot serve."""
    if allocator.library is None or allocator.status != "installed":
        return allocator
    facts = cache.facts(allocator.library)
    allocator = replace(allocator, sha256=facts.sha256, build_id=facts.build_id)
    flaw = facts.flaw or cache.verdict(allocator)
    return replace(allocator, status="broken", reason=f"{allocator.library} {flaw}") if flaw else allocator


def _on_system(peer: Peer, cache: FactsCache) -> Allocator:
    allocator = Allocator(peer.name, peer.title, version="", library=None, env=peer.env)
    found = _find_library(peer)
    if found is None:
        if not peer.packages or not shutil.which("apt-get"):
            reason = f"no {peer.libraries[0]} in the system's library folders"
            return replace(allocator, status="unavailable", reason=reason)
        return replace(allocator, status="available", provenance=f"Debian {peer.packages[0]}", reason="not installed")
    library = found.resolve()
    package, version = cache.package(library, lambda: _package(found, library, peer.packages))
    provenance = f"Debian {package} {version}" if package else "found on this machine"
    version = upstream_version(version)
    if peer.origin == "system":
        version = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    return replace(allocator, version=version, library=library, provenance=provenance)


def _package(found: Path, library: Path, packages: Sequence[str]) -> tuple[str, str]:
    """(package, version) of a library under the name it was found by or its resolved one, ("", "") if from none."""
    package = owner(found, packages) or owner(library, packages)
    return package, debian.version(package) if package else ""


def _find_library(peer: Peer) -> Path | None:
    """The library as the system names it (before symbolic links are followed)."""
    machine = {"i686": "i386"}.get(platform.machine(), platform.machine())
    triplet = f"{machine}-linux-gnu"
    folders = (f"/usr/lib/{triplet}", f"/lib/{triplet}", "/usr/lib64", "/lib64", "/usr/lib", "/lib", "/usr/local/lib")
    for name in peer.libraries:
        if name.startswith("/"):
            matches = list(Path("/").glob(name.format(machine=machine)[1:]))
            if matches:
                return max(matches, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))])
        for folder in folders:
            if not name.startswith("/") and (path := Path(folder, name)).exists():
                return path
    return None


def _built(peer: Peer, peers: dict[str, Peer]) -> Allocator:
    """A peer built here, from what its build left behind."""
    built = peer.library_of or peer.name
    recipe = peers[built].recipe
    assert recipe is not None
    crate = f"crate {recipe.crate}"
    allocator = Allocator(peer.name, peer.title, version="", library=None, env=peer.env, provenance=crate)
    folder = places.peers() / built
    try:
        provenance = object_of((folder / RECORD).read_bytes())
        library = folder / provenance["library"]
        crate = f"crate {provenance['crate']} {provenance['crate_version']}"
        found = library.exists() and isinstance(provenance["version"], str)
    except (OSError, *DAMAGE):
        found = False
    if found:
        return replace(allocator, version=provenance["version"], library=library.resolve(), provenance=crate)
    failure = folder.with_name(f"{built}.failed")
    if failure.exists():
        return replace(allocator, status="broken", reason=failure.read_text(errors="replace").strip())
    if not shutil.which("cargo") and not shutil.which("apt-get"):
        reason = "needs cargo to fetch its sources; install Debian's cargo or rustup"
        return replace(allocator, status="unavailable", reason=reason)
    return replace(allocator, status="available", reason="not built")


def _own_library(name: str, library: Path, cache: FactsCache) -> Allocator:
    """The user's own library as an allocator; UsageError when it cannot serve."""
    flaw = library_flaw(library)
    if flaw:
        raise UsageError(f"--allocator {name}={library}: the library {flaw}")
    resolved = library.resolve()
    facts = cache.facts(resolved)
    return Allocator(
        name,
        f"your own {library.name}",
        version="",
        library=resolved,
        sha256=facts.sha256,
        build_id=facts.build_id,
        provenance=f"user: {library}",
    )


def _user_allocators(cache: FactsCache) -> dict[str, tuple[Allocator, OptionForm | None]]:
    """The `[allocator.NAME]` tables of the user's own catalog."""
    path = places.user_catalog()
    if not path.exists():
        return {}
    own = read_toml(path).table("allocator")
    return {name: _user_allocator(name, table, cache) for name, table in own.tables().items()} if own else {}


def _user_allocator(name: str, table: TomlTable, cache: FactsCache) -> tuple[Allocator, OptionForm | None]:
    if not _NAME.fullmatch(name) or name == SYSTEM:
        raise UsageError(f"{table.path}: '{name}' cannot be an allocator's name; use letters, digits and . _ + -")
    library = table.place("library")
    allocator = Allocator(
        name,
        table.string("title", f"your own {library.name}"),
        version=table.string("version", ""),
        library=library,
        env=table.mapping("env"),
        provenance=f"user: {table.path}",
    )
    form = read_options(table.table("options"))
    table.finish()
    flaw = library_flaw(library)
    if flaw:
        return replace(allocator, status="broken", reason=f"{library} {flaw}"), form
    return _with_facts(replace(allocator, library=library.resolve()), cache), form
