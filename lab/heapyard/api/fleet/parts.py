# SPDX-License-Identifier: Apache-2.0
"""Files that a block needs, named by their content: what a node has already stays, the rest comes from the shared folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ...model import places
from ...model.errors import HeapyardError
from ...model.experiment import Experiment, Treatment
from ...model.program import Program
from ...execute.library_identity import digest_of
from ...execute.loop.errand import Errand

# "library": a malloc library. "native": a part of the lab. "file": of a program, made for the experiment. "system": of a
# program, and part of the system; it must be there and may be another build, which is then told.
Kind = Literal["library", "native", "file", "system"]

_NATIVE = ("trial", "slices", "collector", "libheapyard_witness.so", "libheapyard_tracer.so", "libheapyard_tracer_heap.so")
_SYSTEM = tuple(f"/{name}/" for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "dev", "proc", "sys", "run"))


class Unfit(HeapyardError):
    """This node cannot run the block; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the controller's machine."""

    kind: Kind
    path: Path
    sha256: str


def parts_of(experiment: Experiment) -> tuple[Part, ...]:
    """Every file that blocks of the experiment need. O(bytes of the files), once."""
    found = {(part.kind, part.path): part for part in _all_parts(experiment)}
    return tuple(found.values())


def needed_by(errand: Errand, parts: Iterable[Part]) -> tuple[Part, ...]:
    """Those of `parts` that one block needs."""
    libraries = {t.allocator.library for t in errand.treatments}
    files = set(_files(errand.program))
    return tuple(p for p in parts if p.kind == "native" or p.path in libraries or p.path in files)


def lay_out(parts: Iterable[Part], folder: Path) -> None:
    """Put copies of all that may have to travel into the shared folder. O(bytes), of new ones. OSError without room."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        copy = folder / part.sha256
        if part.kind != "system" and not copy.exists():
            partial = copy.with_suffix(f".{os.getpid()}.partial")
            shutil.copyfile(part.path, partial)
            partial.chmod(0o755)
            partial.replace(copy)


def fit(errand: Errand, parts: Iterable[Part], shared: Path, here: Path, node: str) -> tuple[Errand, list[str]]:
    """The errand with this node's paths, and sentences on what is another build here.

    What the node lacks is copied below `here`. Unfit when that cannot make up for it. O(bytes of the parts).
    """
    parts, moved, told = list(parts), dict[Path, Path](), list[str]()
    for part in parts:
        if part.kind == "native" or _there(part.path) == part.sha256:
            continue
        if part.kind == "system":
            if not part.path.exists():
                raise Unfit(f"{node} has no {part.path}", remedy="Install it there, or leave the node out with --constraint.")
            told.append(f"{part.path} is another build")
        elif part.path.name.startswith("libc.so"):
            raise Unfit(
                f"{node} has another {part.path.name} than the machine that the experiment began on",
                remedy="Results of two C libraries cannot be put together: name nodes of one kind with --constraint.",
            )
        else:
            moved[part.path] = _copied(part, shared, here / part.sha256 / part.path.name, node)
    if any(_there(_own(part)) != part.sha256 for part in parts if part.kind == "native"):
        for part in parts:
            if part.kind == "native":
                _copied(part, shared, here / "built" / _place(part), node)
        os.environ["HEAPYARD_BUILT"] = str(here / "built")
        told.append("the lab's native parts came with the block")
    treatments = tuple(_with_library(t, moved) for t in errand.treatments)
    return replace(errand, program=_with_files(errand.program, moved), treatments=treatments), told


def _all_parts(experiment: Experiment) -> Iterable[Part]:
    for name in _NATIVE:
        if (path := places.native(name)).exists():
            yield Part("native", path, digest_of(path))
    for path in (places.own_heaps(), places.mutators()):
        if path.exists():
            yield Part("native", path, digest_of(path))
    for treatment in experiment.treatments:
        if treatment.allocator.library is not None:
            yield Part("library", treatment.allocator.library, digest_of(treatment.allocator.library))
    for program in experiment.programs:
        for path in _files(program):
            yield Part("system" if str(path).startswith(_SYSTEM) else "file", path, digest_of(path))


def _files(program: Program) -> Iterable[Path]:
    """Regular files that the program's command lines name by absolute paths, and its standard input."""
    server = program.server
    served = (server.client, server.stop, server.ready, server.warm_up, *server.more_clients) if server else ()
    commands = [program.command, *served]
    words = (word for command in commands for word in command)
    paths = [Path(word) for word in words if word.startswith("/") and "\n" not in word and len(word) < 4096]
    return [path for path in (*paths, *([program.stdin] if program.stdin else [])) if path.is_file()]


def _there(path: Path) -> str:
    try:
        return digest_of(path)
    except OSError:
        return ""


def _place(part: Part) -> Path:
    """Of a native part below the folder of the build."""
    name = part.path.name
    return Path(name) if name.endswith(".json") else Path("lib" if name.endswith(".so") else "bin") / name


def _own(part: Part) -> Path:
    return places.built() / _place(part)


def _copied(part: Part, shared: Path, to: Path, node: str) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(shared / part.sha256, to)
    except FileNotFoundError:
        raise Unfit(f"{node} lacks {part.path}, and the shared folder {shared} has no copy of it") from None
    to.chmod(0o755)
    if digest_of(to) != part.sha256:
        raise Unfit(f"the copy of {part.path} in the shared folder {shared} is damaged", remedy=f"Remove {shared}, and resume.")
    return to


def _with_library(treatment: Treatment, moved: dict[Path, Path]) -> Treatment:
    allocator = treatment.allocator
    if allocator.library not in moved:
        return treatment
    return replace(treatment, allocator=replace(allocator, library=moved[allocator.library]))


def _with_files(program: Program, moved: dict[Path, Path]) -> Program:
    def there(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(moved.get(Path(word), word)) if word.startswith("/") else word for word in words)

    stdin, server = program.stdin and moved.get(program.stdin, program.stdin), program.server
    if server is not None:
        server = replace(
            server,
            client=there(server.client),
            stop=there(server.stop),
            ready=there(server.ready),
            warm_up=there(server.warm_up),
            more_clients=tuple(map(there, server.more_clients)),
        )
    return replace(program, command=there(program.command), stdin=stdin, server=server)
