# SPDX-License-Identifier: Apache-2.0
"""A block is claimed once: by the agent that runs it, or by the controller, after which nobody runs it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ...model.damage import DAMAGE, object_of
from ...model.errors import HeapyardError

LEASE = "lease"
CONTROLLER = "the controller"


@dataclass(frozen=True, slots=True)
class Lease:
    """Who claimed a block. `since`: seconds of the Unix clock, for people only."""

    holder: str
    job: str
    since: float


def take(folder: Path, holder: str, job: str, now: float) -> bool:
    """Claim the block in this folder; False when somebody has it. O_EXCL decides, on network folders too."""
    try:
        file = os.open(folder / LEASE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    except OSError as error:
        raise HeapyardError(f"{folder / LEASE}: the block cannot be claimed ({error.strerror})") from None
    try:
        os.write(file, json.dumps({"holder": holder, "job": job, "since": now}).encode())
    except OSError:
        pass  # the name is for people; the file itself is the claim
    finally:
        os.close(file)
    return True


def holder_of(folder: Path) -> Lease | None:
    """None while nobody has claimed the block."""
    try:
        told = object_of((folder / LEASE).read_bytes())
        return Lease(str(told["holder"]), str(told["job"]), float(told["since"]))
    except FileNotFoundError:
        return None
    except (OSError, *DAMAGE):
        return Lease("somebody", "", 0.0)
