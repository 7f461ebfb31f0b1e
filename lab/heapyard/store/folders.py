# SPDX-License-Identifier: Apache-2.0
"""Experiments on disk: one folder each, under a name that a person can type, found by any unambiguous part of it."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from ..model import places
from ..model.errors import HeapyardError, UsageError
from .database import FILE_NAME

LAST = "last"

_WORDS = """
ant auk bat bee boar bream carp cat clam cod colt cow crab crane crow cub deer dingo dodo dog dove duck eagle
eel elk emu ewe falcon fawn finch fish flea fly fox frog gecko gnat gnu goat goose grouse gull hare hawk hen
heron hippo hog horse hound ibex ibis jackal jay kite kiwi koala lamb lark lemur lion llama lynx mink mole moose
moth mouse mule newt okapi orca oryx otter owl ox panda perch pike pig pony puma quail ram rat raven ray robin
rook seal shark sheep shrew skunk sloth slug snail snake sole squid stag stoat stork swan tapir tiger toad trout
tuna turtle viper vole wasp whale wolf wombat worm wren yak zebra
""".split()


def new_folder(parent: Path | None = None, *, now: float | None = None) -> Path:
    """Make an empty folder for a new experiment, such as 261120-1432-otter; HeapyardError when that is not possible."""
    parent = parent or places.results()
    day = time.strftime("%y%m%d-%H%M", time.localtime(now))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for _ in range(len(_WORDS)):
            folder = parent / f"{day}-{secrets.choice(_WORDS)}"
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                continue
        folder = parent / f"{day}-{secrets.token_hex(4)}"
        folder.mkdir()
        return folder
    except OSError as error:
        raise HeapyardError(
            f"{parent}: results cannot be stored there ({error.strerror})",
            remedy="--output FOLDER stores them elsewhere.",
        ) from None


def experiment_folders(parent: Path | None = None) -> list[Path]:
    """Folders that hold an experiment, newest first. Empty when there are none. O(folders log folders)."""
    parent = parent or places.results()
    found = []
    try:
        with os.scandir(parent) as entries:
            for entry in entries:
                file = os.path.join(entry.path, FILE_NAME)
                if entry.is_dir() and os.path.exists(file):
                    found.append((os.stat(entry.path).st_ctime_ns, entry.name, Path(entry.path)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HeapyardError(f"{parent}: cannot be read ({error.strerror})") from None
    # The name begins with the minute the experiment was made in; within a minute the file system's own time decides.
    return [path for *_, path in sorted(found, key=lambda f: (f[1][:11], f[0]), reverse=True)]


def find_folder(reference: str, parent: Path | None = None) -> Path:
    """The folder of an experiment, named by a path, `last`, its id, or the beginning or the last word of its id.

    UsageError when there is none, or more than one.
    """
    path = Path(reference)
    if "/" in reference or path.suffix == ".sqlite":
        folder = path.parent if path.name == FILE_NAME else path
        if (folder / FILE_NAME).exists():
            return folder
        raise UsageError(f"{reference}: there is no experiment here")
    folders = experiment_folders(parent)
    if reference == LAST:
        if not folders:
            raise UsageError("there are no experiments yet", remedy="heapyard compare makes one.")
        return folders[0]
    exact = [f for f in folders if f.name == reference]
    found = exact or [f for f in folders if f.name.startswith(reference) or f.name.rsplit("-", 1)[-1] == reference]
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(f.name for f in found[:4])
        raise UsageError(f"'{reference}' fits {len(found)} experiments ({some}{', ...' if len(found) > 4 else ''})")
    raise UsageError(f"there is no experiment '{reference}'", remedy="heapyard results lists them.")
