# SPDX-License-Identifier: Apache-2.0
"""Inputs of the real programs: generated once, by scripts of their own, and checked before every use.

An input's folder is named by its generator and a digest of all that determines it (the generator's source and its
options), so that a changed generator makes a new folder. A folder is complete or absent: it is made under another name.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..model import places
from ..model.damage import DAMAGE, object_of
from ..model.errors import HeapyardError, UsageError

_MANIFEST = "manifest.json"
_UNFINISHED = ".unfinished-"


def generators() -> Path:
    """Folder of the generators: one script each, and what they share."""
    return places.root() / "programs" / "generators"


def ensure_input(generator: str, options: Mapping[str, int], report: Callable[[str], None]) -> Path:
    """Folder with the files `generator` writes under `options`; generated if it is absent or damaged.

    O(files) when it is there and untouched. UsageError for an unknown generator, HeapyardError if it fails.
    """
    folder = places.inputs() / f"{generator}-{input_key(generator, options)[:16]}"
    if _intact(folder):
        return folder
    with _only_one():
        if not _intact(folder):
            report(f"generating the input {generator} ({_in_words(options)})")
            _generate(generator, options, folder)
    return folder


def input_key(generator: str, options: Mapping[str, int]) -> str:
    """Digest of what determines the input: the generator's source, what all generators share, the options."""
    digest = hashlib.sha256()
    try:
        for source in (generators() / f"{generator}.py", generators() / "dice.py"):
            digest.update(source.read_bytes())
    except OSError:
        raise UsageError(f"there is no generator '{generator}' in {generators()}") from None
    digest.update(json.dumps(dict(options), sort_keys=True).encode())
    return digest.hexdigest()


def input_digest(folder: Path) -> str:
    """Digest over names and contents of the input's files, as recorded when it was generated."""
    return json.loads((folder / _MANIFEST).read_text())["digest"]


def run_generator(generator: str, options: Mapping[str, int], folder: Path) -> None:
    """Let `generator` write its files into `folder`; HeapyardError with its own last words if it fails."""
    arguments = [word for name, value in sorted(options.items()) for word in (f"--{name}", str(value))]
    script = generators() / f"{generator}.py"
    # -E -s: nothing of the user's Python; -B: the checkout may be read-only.
    done = subprocess.run([sys.executable, "-E", "-s", "-B", str(script), *arguments], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise HeapyardError(f"the generator of the input {generator} failed: {words[-1]}")


def _in_words(options: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items()) or "its own defaults"


@contextmanager
def _only_one() -> Iterator[None]:
    """One process generates at a time; whoever held the lock before and left something unfinished is dead."""
    try:
        places.inputs().mkdir(parents=True, exist_ok=True)
        lock = open(places.inputs() / ".lock", "w")
    except OSError as error:
        raise HeapyardError(f"cannot write inputs to {places.inputs()}: {error.strerror}",
                            remedy="Make it writable, or set HEAPYARD_STATE to a folder that is.") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in places.inputs().glob(f"{_UNFINISHED}*"):
            shutil.rmtree(stale, ignore_errors=True)
        yield


def _generate(generator: str, options: Mapping[str, int], folder: Path) -> None:
    try:
        work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=places.inputs()))
        run_generator(generator, options, work)
        files = {str(path.relative_to(work)): _facts(path) for path in sorted(work.rglob("*")) if path.is_file()}
        whole = hashlib.sha256("".join(f"{name}\0{facts[2]}\n" for name, facts in files.items()).encode()).hexdigest()
        manifest = {"generator": generator, "options": dict(options), "digest": whole, "files": files}
        (work / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)  # damaged
        os.rename(work, folder)
    except OSError as error:
        raise HeapyardError(f"cannot write the input {generator} to {places.inputs()}: {error.strerror}") from None


def _facts(path: Path) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, _sha256(path)]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _intact(folder: Path) -> bool:
    """Every file as it was generated. Contents are read again only where size or time of change say they may differ."""
    try:
        manifest = object_of((folder / _MANIFEST).read_bytes())
        files = manifest["files"]
        return isinstance(manifest["digest"], str) and all(_unchanged(folder / name, facts) for name, facts in files.items())
    except (OSError, *DAMAGE):
        return False


def _unchanged(path: Path, facts: list[int | str]) -> bool:
    size, changed, digest = facts
    status = path.stat()
    return status.st_size == size and (status.st_mtime_ns == changed or _sha256(path) == digest)
