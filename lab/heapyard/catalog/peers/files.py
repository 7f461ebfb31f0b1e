# SPDX-License-Identifier: Apache-2.0
"""The files `peers/*.toml`: how each allocator that is not ours is obtained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...model import places
from ..allocator_variants import OptionForm, read_options
from ..toml_file import TomlTable, read_toml

Origin = Literal["system", "debian", "crate"]
_ORIGINS: tuple[Origin, ...] = ("system", "debian", "crate")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a library is compiled from the sources of a crate.

    `steps` are commands run in an empty folder; they and `library` may hold {source} (the crate), {recipes} (folder
    peers/recipes), {build} (that empty folder), {jobs} and {crate_version}. `version_pattern` is a regular expression
    for upstream's version, in `version_file` of the crate or in the crate's own version; dots join its groups.
    """

    crate: str
    lock: Path  # folder with Cargo.toml and Cargo.lock
    cargo: tuple[int, int]  # the oldest Cargo that can read the crate's manifest
    tools: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    library: str
    version_file: str = ""
    version_pattern: str = ""
    seconds: int = 0  # that one processor needs to compile it, for announcements


@dataclass(frozen=True, slots=True)
class Peer:
    """One allocator of the catalog. `libraries`: file names in the system's library folders, or absolute patterns.

    `default`: a comparison that names no allocators takes it. `in_place_of`: only where that other one is not installed.
    """

    name: str
    title: str
    origin: Origin
    default: bool
    in_place_of: str = ""
    libraries: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # Debian packages, alternatives in order of preference
    recipe: Recipe | None = None
    library_of: str = ""  # shares the library of another peer and differs by its environment
    env: dict[str, str] = field(default_factory=dict)
    options: OptionForm | None = None


def load_peers() -> dict[str, Peer]:
    """Every peer by name: the machine's own first, then Debian's, then those built here. O(files).

    UsageError names file, line and field of a malformed one.
    """
    peers = [_read_peer(path) for path in sorted((places.root() / "peers").glob("*.toml"))]
    return {peer.name: peer for peer in sorted(peers, key=lambda peer: (_ORIGINS.index(peer.origin), peer.name))}


def _read_peer(path: Path) -> Peer:
    top = read_toml(path)
    peer = Peer(
        name=path.stem,
        title=top.string("title"),
        origin=top.choice("origin", _ORIGINS),
        default=top.boolean("default"),
        in_place_of=top.string("in_place_of", ""),
        libraries=top.strings("libraries", ()),
        packages=top.strings("packages", ()),
        library_of=top.string("library_of", ""),
        recipe=_read_recipe(top.table("recipe")),
        env=top.mapping("env"),
        options=read_options(top.table("options")),
    )
    top.finish()
    if peer.origin == "crate" and not (peer.recipe or peer.library_of):
        top.fail("recipe", "is missing; a crate needs one, or 'library_of'")
    if peer.origin != "crate" and not peer.libraries:
        top.fail("libraries", "is missing; it must name the library to look for")
    return peer


def _read_recipe(table: TomlTable | None) -> Recipe | None:
    if table is None:
        return None
    oldest = table.string("cargo")
    parts = oldest.split(".")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        table.fail("cargo", f"must be a version such as '1.70', not '{oldest}'")
    steps = table.get("steps", list, "a list of commands, each a list of strings")
    lists = all(isinstance(step, list) and step for step in steps)
    if not (steps and lists and all(isinstance(word, str) for step in steps for word in step)):
        table.fail("steps", "must be a list of commands, each a list of strings")
    recipe = Recipe(
        crate=table.string("crate"),
        lock=places.root() / "peers" / "crates" / table.string("lock"),
        cargo=(int(parts[0]), int(parts[1])),
        tools=table.strings("tools"),
        steps=tuple(tuple(step) for step in steps),
        library=table.string("library"),
        version_file=table.string("version_file", ""),
        version_pattern=table.string("version_pattern", ""),
        seconds=table.integer("seconds", 0, least=0),
    )
    table.finish()
    return recipe
