# SPDX-License-Identifier: Apache-2.0
"""Malloc libraries as words of a command line: names of the catalog, and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model.errors import UsageError

if TYPE_CHECKING:
    from ..model.allocator import Allocator


def named_libraries(libraries: Sequence[str], all_: bool) -> list[Allocator]:
    """The catalog's and the user's own; each loads into /bin/true and serves malloc there, or UsageError."""
    from ..catalog.allocators import find_allocators, installed_allocators
    from ..execute.preflight import check
    from ..model.experiment import Settings, Treatment

    if not libraries and not all_:
        raise UsageError("name allocators or libraries, or give --all")
    own = {_label(Path(text)): Path(text).absolute() for text in libraries if _is_path(text)}
    names = [_label(Path(text)) if _is_path(text) else text for text in libraries]
    if all_:
        names += [a.name for a in installed_allocators()]
    try:
        allocators = find_allocators(list(dict.fromkeys(names)), own)
    except UsageError as error:
        # What is said of an option of other verbs, said of an argument of this one.
        for name, path in own.items():
            error.message = error.message.replace(f"--allocator {name}={path}: ", f"{path}: ")
        raise
    for allocator in allocators:
        if allocator.library is None:
            raise UsageError(f"'{allocator.name}' means the malloc that a program is linked with; name a library")
        check([Treatment(allocator.name, allocator)], Settings())
    return allocators


def _is_path(text: str) -> bool:
    return "/" in text or ".so" in text


def _label(path: Path) -> str:
    """libmine.so as `mine.so`: a name that no allocator of the catalog has."""
    return path.name.removeprefix("lib")
