# SPDX-License-Identifier: Apache-2.0
"""A block is claimed once: by the agent that runs it, or by the controller, after which nobody runs it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.damage import DAMAGE, object_of
from ...model.errors import HeapyardError

LEASE = "lease"
CONTROLLER = "the controller"


@dataclass(frozen=True, slots=True)
class Lease:
    """Who claimed a block. `since`: seconds of the Unix clock, for people only. `groups`: under which it is counted (dealing)."""

    holder: str
    job: str
    since: float
    groups: tuple[str, ...] = ()


def take(folder: Path, holder: str, job: str, now: float, groups: Sequence[str] = ()) -> bool:
    """Claim the block in this folder; False when somebody has it, or had and it is taken in. O_EXCL decides, on network folders
    too."""
    try:
        file = os.open(folder / LEASE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError as error:
        raise HeapyardError(f"{folder / LEASE}: the block cannot be claimed ({error.strerror})") from None
    try:
        os.write(file, json.dumps({"holder": holder, "job": job, "since": now, "groups": groups}).encode())
    except OSError:
        pass  # the name is for people; the file itself is the claim
    finally:
        os.close(file)
    return True


def holder_of(folder: Path) -> Lease | None:
    """None while nobody has claimed the block."""
    try:
        told = object_of((folder / LEASE).read_bytes())
        groups = tuple(str(group) for group in told.get("groups", ()))
        return Lease(str(told["holder"]), str(told["job"]), float(told["since"]), groups)
    except FileNotFoundError:
        return None
    except (OSError, *DAMAGE):
        return Lease("somebody", "", 0.0)
