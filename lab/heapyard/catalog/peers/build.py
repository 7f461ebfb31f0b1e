# SPDX-License-Identifier: Apache-2.0
"""Building an allocator from the sources a crate carries: fetched by Cargo, compiled by upstream's own rules.

Cargo alone fetches: it knows the registry, verifies the checksum in the lock file and keeps its own cache. The library
is then compiled by upstream's build system: it is what upstream would have shipped, and not a wrapper around it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ...model import places
from ...model.damage import DAMAGE, object_of
from ...model.errors import HeapyardError
from .. import debian
from ..elf import exported
from ..end_with_parent import end_with_parent
from .files import Peer, Recipe
from .verify import verify

# Flags of the user's shell must not leak into a library that is to be upstream's own.
_FLAG_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "CMAKE_BUILD_TYPE")
_FAMILY = ("malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "malloc_usable_size",
           "_Znwm", "_ZdlPv", "_ZdlPvm", "_ZnwmSt11align_val_t")


# Debian 12's own Cargo is too old for the crates; the one it keeps for browsers is not. Ubuntu has the one name only.
CARGO_PACKAGES = "cargo-web|cargo"
# A network that swallows packets must not hold up a first comparison: one attempt more, ten seconds each.
_PATIENCE = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "10"}
RECORD = "provenance.json"  # beside each library built here: what it was made from, and how


class BuildError(HeapyardError):
    """A build that failed, in one sentence; the log says the rest."""


class UnreachableError(BuildError):
    """The sources could not be fetched; nothing is known to be wrong with them."""


@dataclass(frozen=True, slots=True)
class _Source:
    folder: Path
    version: str
    checksum: str  # sha256 of the crate, from the lock file


def build_peer(peer: Peer, report: Callable[[str], None]) -> None:
    """Build `peer` into places.peers()/NAME, replacing an earlier build only by a verified one. Minutes at most.

    Cargo is installed first where there is none. BuildError says what is missing or went wrong and where the log is; it
    is kept, for `heapyard allocators` to show. SetupError when only an administrator can install Cargo.
    """
    recipe = peer.recipe
    assert recipe is not None
    failure = places.peers() / f"{peer.name}.failed"
    with _workplace(peer.name) as (work, waited):
        if waited and up_to_date(peer):  # another start of Heapyard has built it meanwhile
            return
        log = places.peers() / "logs" / f"{peer.name}.log"
        log.parent.mkdir(exist_ok=True)
        try:
            _install_cargo(report)
            _check_tools(recipe)
            with open(log, "w") as output:
                report(f"fetching crate {recipe.crate}")
                source = _fetch(recipe, output)
                report(f"compiling {recipe.crate} {source.version}")
                library = _compile(recipe, source, work, output)
            report("checking that it serves malloc")
            _publish(peer, source, library, log, work)
        except BuildError as error:
            if log.exists() and log.stat().st_size:
                error.message += f"; log: {log}"
            if isinstance(error, UnreachableError):
                raise  # it says nothing of the allocator
            failure.write_text(error.message + "\n")
            raise
        failure.unlink(missing_ok=True)


def up_to_date(peer: Peer) -> bool:
    """Whether what stands built is what the recipe and the lock file ask for now."""
    recipe = peer.recipe
    assert recipe is not None
    try:
        folder = places.peers() / peer.name
        record = object_of((folder / RECORD).read_bytes())
        wanted = (_written(recipe), _locked(recipe)["checksum"], _own_files(recipe))
        made = (record["steps"], record["crate_sha256"], record.get("own_files_sha256", ""))
        return made == wanted and (folder / record["library"]).exists()
    except (OSError, *DAMAGE):
        return False


@contextmanager
def _workplace(name: str) -> Iterator[tuple[Path, bool]]:
    """An empty folder for one build, of a fixed path so that libraries come out the same; one builder at a time.

    And whether another one had to be waited for.
    """
    work = places.peers() / ".build" / name
    work.parent.mkdir(parents=True, exist_ok=True)
    with open(work.with_suffix(".lock"), "w") as lock:
        waited = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work, waited
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _install_cargo(report: Callable[[str], None]) -> None:
    """Only where apt is and no Cargo: one that the user brought is never doubled."""
    if shutil.which("cargo") or not shutil.which("apt-get") or os.environ.get("HEAPYARD_SYSTEM_PACKAGES") == "skip":
        return
    debian.install([CARGO_PACKAGES], report)


def _check_tools(recipe: Recipe) -> None:
    wanted = ".".join(map(str, recipe.cargo))
    where = "take it from rustup, or from the package cargo (on Debian 12: cargo-web)"
    if not shutil.which("cargo"):
        raise BuildError(f"needs cargo >= {wanted}, found none; {where}")
    said = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"(\d+)\.(\d+)", said)
    if not number or (int(number[1]), int(number[2])) < recipe.cargo:
        raise BuildError(f"needs cargo >= {wanted}, found {number[0] if number else 'none that runs'}; {where}")
    missing = [tool for tool in recipe.tools if not shutil.which(tool)]
    if missing:
        packages = "build-essential, cmake and ninja-build"
        raise BuildError(f"needs {' and '.join(missing)}, found none; install the packages {packages}")


def _fetch(recipe: Recipe, output: TextIO) -> _Source:
    manifest = ["--locked", "--manifest-path", str(recipe.lock / "Cargo.toml")]
    try:
        _run(["cargo", "fetch", *manifest], recipe.lock, output, "could not fetch its crate")
    except BuildError as error:
        raise UnreachableError(error.message) from None
    asked = ["cargo", "metadata", "--format-version", "1", "--offline", *manifest]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
    if done.returncode != 0:
        raise BuildError("cargo could not read the crate's manifest")
    package = next(entry for entry in json.loads(done.stdout)["packages"] if entry["name"] == recipe.crate)
    return _Source(Path(package["manifest_path"]).parent, package["version"], _locked(recipe)["checksum"])


def _locked(recipe: Recipe) -> dict[str, str]:
    """The crate's entry in the lock file."""
    packages = tomllib.loads((recipe.lock / "Cargo.lock").read_text())["package"]
    return next(entry for entry in packages if entry["name"] == recipe.crate)


def _written(recipe: Recipe) -> list[str]:
    return [" ".join(step) for step in recipe.steps]


def _own_files(recipe: Recipe) -> str:
    """Digest of our files that the steps build by; "" where upstream's own are enough. O(bytes of them)."""
    words = (word for step in recipe.steps for word in step)
    paths = [_recipes() / word.split("{recipes}/")[1] for word in words if "{recipes}/" in word]
    files = sorted(file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    if not files:
        return ""
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def _recipes() -> Path:
    return places.root() / "peers" / "recipes"


def _compile(recipe: Recipe, source: _Source, work: Path, output: TextIO) -> Path:
    holes = {
        "source": str(source.folder),
        "recipes": str(_recipes()),
        "build": str(work),
        "jobs": str(len(os.sched_getaffinity(0))),
        "crate_version": source.version,
    }
    for step in recipe.steps:
        _run([word.format(**holes) for word in step], work, output, f"could not be compiled: {step[0]} failed")
    library = Path(recipe.library.format(**holes))
    if not library.exists():
        raise BuildError(f"its build made no {library.name}")
    return library.resolve()


def _run(command: list[str], folder: Path, output: TextIO, complaint: str) -> None:
    env = _PATIENCE | {name: value for name, value in os.environ.items() if name not in _FLAG_VARIABLES}
    output.write(f"$ {' '.join(command)}\n")
    output.flush()
    done = subprocess.run(
        command, cwd=folder, env=env, check=False, preexec_fn=end_with_parent,
        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise BuildError(complaint)


def _publish(peer: Peer, source: _Source, library: Path, log: Path, work: Path) -> None:
    """Verify, describe and move into place: nobody ever sees half a build."""
    recipe = peer.recipe
    assert recipe is not None
    aside = work / "result"
    aside.mkdir()
    own = aside / f"lib{peer.name}.so"
    shutil.copyfile(library, own)
    own.chmod(0o755)
    flaw = verify(own, peer.env)
    if flaw:
        raise BuildError(f"was built, but the library {flaw}")
    (aside / RECORD).write_text(json.dumps({
        "name": peer.name,
        "version": _upstream_version(recipe, source),
        "library": own.name,
        "crate": recipe.crate,
        "crate_version": source.version,
        "crate_sha256": source.checksum,
        "compiler": {tool: _first_line(tool) for tool in ("cc", "c++")},
        "steps": _written(recipe),
        "own_files_sha256": _own_files(recipe),
        "flags": _flags(log),
        "exports": sorted(exported(own, _FAMILY)),
        "built": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }, indent=1) + "\n")
    final, old = places.peers() / peer.name, work / "old"
    if final.exists():
        final.rename(old)
    aside.rename(final)


def _upstream_version(recipe: Recipe, source: _Source) -> str:
    if not recipe.version_pattern:
        return source.version
    text = (source.folder / recipe.version_file).read_text() if recipe.version_file else source.version
    found = re.search(recipe.version_pattern, text)
    if not found:
        where = recipe.version_file or "the crate's version"
        raise BuildError(f"its version is not where it should be, in {where}")
    return ".".join(str(int(group)) if group.isdigit() else group for group in found.groups())


def _first_line(tool: str) -> str:
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def _flags(log: Path) -> str:
    """Options of the last compilation in the log that optimises, without folders, files and dependency lists."""
    compilations = (line.split() for line in log.read_text(errors="replace").splitlines() if " -c " in line)
    optimised = [words for words in compilations if any(re.fullmatch(r"-O\w+", word) for word in words)]
    return " ".join(word for word in optimised[-1] if re.match(r"-(?!I|i|M|[co]$)", word)) if optimised else ""
