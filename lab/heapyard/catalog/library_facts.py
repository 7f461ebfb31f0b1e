# SPDX-License-Identifier: Apache-2.0
"""What is known of a library file: digest, build-id, whether it provides malloc. Remembered between runs.

A digest costs a read of the whole file, a verification two launches; both are kept in one JSON file keyed on the
path, size and modification time, so that listing the catalog costs one `stat` for each library.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..model import places
from ..model.allocator import Allocator
from ..model.damage import DAMAGE, object_of
from .elf import NotElfError, elf_facts, exported, own_machine


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """`flaw` says why the file cannot be preloaded here, in words that follow its path; "" if it can."""

    sha256: str
    build_id: str
    flaw: str


def library_flaw(path: Path) -> str:
    """Why `path` cannot serve as a preloaded malloc, in words that follow its name, "" if it can. Reads headers."""
    try:
        path.stat()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not path.is_file():
        return "is not a file"
    if any(letter in str(path.resolve()) for letter in ": "):
        return "cannot be preloaded: its path holds a space or a colon, which LD_PRELOAD takes for separators"
    try:
        facts = elf_facts(path)
        if facts.executable:
            return "is a program, not a shared library"
        if (facts.bits, facts.machine) != own_machine():
            bits, machine = own_machine()
            return f"is built for {facts.bits}-bit {facts.machine}, this machine runs {bits}-bit {machine}"
        missing = [name for name in ("malloc", "free") if name not in exported(path, ("malloc", "free"))]
    except NotElfError as error:
        return str(error)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"does not export {' and '.join(missing)}" if missing else ""


class FactsCache:
    """The remembered facts of one run; `save` writes them back if anything was learnt."""

    def __init__(self) -> None:
        self._path = places.state() / "library-facts.json"
        self._changed = False
        self._known: dict[str, dict[str, str]] = {}
        try:
            for key, facts in object_of(self._path.read_bytes()).items():
                if all(isinstance(fact, str) for fact in facts.values()):
                    self._known[key] = facts
        except (OSError, *DAMAGE):
            self._known = {}  # absent or damaged: everything is learnt anew

    def facts(self, library: Path) -> LibraryFacts:
        """Facts of an existing file: O(1) when remembered, else O(its size)."""
        key = _key(library)
        if not self._knows(key, *LibraryFacts.__slots__):
            with open(library, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            flaw = library_flaw(library)
            build_id = "" if flaw else elf_facts(library).build_id
            self._known[key] = asdict(LibraryFacts(digest, build_id, flaw))
            self._changed = True
        return LibraryFacts(**{field: self._known[key][field] for field in LibraryFacts.__slots__})

    def _knows(self, key: str, *fields: str) -> bool:
        return set(fields) <= self._known.get(key, {}).keys()

    def package(self, library: Path, find: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        """(Debian package, its version) of an existing file, found by `find` when the file is new."""
        key = f"{_key(library)}|package"
        if not self._knows(key, "package", "version"):
            package, version = find()
            self._known[key] = {"package": package, "version": version}
            self._changed = True
        return self._known[key]["package"], self._known[key]["version"]

    def verdict(self, allocator: Allocator) -> str:
        """What the last verification found wrong with it, "" if nothing or if it never was verified."""
        return self._known.get(_verdict_key(allocator), {}).get("flaw", "")

    def remember_verdict(self, allocator: Allocator, flaw: str) -> None:
        self._known[_verdict_key(allocator)] = {"flaw": flaw}
        self._changed = True

    def save(self) -> None:
        """Write what was learnt, atomically; a state folder that cannot be written only costs time later."""
        if not self._changed:
            return
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(self._known, indent=1, sort_keys=True))
            aside.replace(self._path)
        except OSError:
            with suppress(OSError):
                aside.unlink()


def _verdict_key(allocator: Allocator) -> str:
    assert allocator.library is not None
    env = " ".join(f"{name}={value}" for name, value in sorted(allocator.env.items()))
    return f"{_key(allocator.library)}|{env}"


def _key(library: Path) -> str:
    status = library.stat()
    return f"{library}|{status.st_size}|{status.st_mtime_ns}"
