# SPDX-License-Identifier: Apache-2.0
"""What a block brings back from another machine: a file per trial, then the closing record; docs/fleet_files.md.

The agent writes them into the block's folder of the run's shared folder, the controller takes them into the experiment's file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..model.damage import DAMAGE
from ..model.errors import HeapyardError
from ..model.experiment import TrialOutcome
from .codec import decode, encode
from .results import FOLDER as RESULTS
from .results import write_result
from .sealed import Damaged, seal, unseal
from .blobs import read_blob
from .series import read_series, write_series

CLOSING = "closing.json"

# "done": all ran that had to. "tripped": a guard ended it. "stopped": by a signal, in the middle of it. "refused": the node
# cannot run it. "full": there is no room left. "released": none of it is wanted any more.
Ended = Literal["done", "tripped", "stopped", "refused", "full", "released"]


@dataclass(frozen=True, slots=True)
class ReturnedTrial:
    """One trial. Times in seconds of the node's monotonic clock, since the block began there."""

    position: int
    began: float
    seconds: float  # from its launch to the next thing the agent did, or its share of the time that all took
    outcome: TrialOutcome  # without series and result, which lie beside
    series: str = ""  # sha256
    result: str = ""  # sha256


@dataclass(frozen=True, slots=True)
class Closing:
    """The last that is written of a block."""

    token: str  # of the lease
    ended: Ended
    node: str
    reason: str = ""
    seconds: float = 0.0  # from the lease to now
    warm_up: float = 0.0  # seconds of it in a launch that is not counted, the node's first of this workload
    positions: tuple[int, ...] = ()  # whose trials are there
    events: tuple[tuple[str, str], ...] = ()  # kind, text
    snapshot: dict[str, object] = field(default_factory=dict)  # the node's state (execute.environment), and how it differs


@dataclass(frozen=True, slots=True)
class Returned:
    """What lies in a block's folder. `damage`: a sentence for the first file that is missing or not whole."""

    trials: tuple[ReturnedTrial, ...] = ()
    closing: Closing | None = None
    damage: str = ""


def write_trial(folder: Path, position: int, began: float, seconds: float, outcome: TrialOutcome) -> None:
    """Store one trial in the block's folder. OSError when there is no room."""
    series = write_series(folder, outcome.series) if outcome.series else ""
    result = write_result(folder, outcome.result) if outcome.result else ""
    fields = dataclasses.asdict(outcome)
    del fields["series"], fields["result"]
    plain = {"position": position, "began": began, "seconds": seconds, "outcome": fields, "series": series, "result": result}
    seal(_of_trial(folder, position), encode(plain))


def write_closing(folder: Path, closing: Closing) -> None:
    """Store the block's last record. OSError when there is no room."""
    seal(folder / CLOSING, encode(closing))


def read_returned(folder: Path) -> Returned:
    """What has come back so far, with series and results. O(bytes)."""
    damage: list[str] = []
    closing = _read(folder / CLOSING, Closing, damage) if (folder / CLOSING).exists() else None
    paths = sorted(folder.glob("trial-*.json"))
    if closing is not None:
        paths = [_of_trial(folder, position) for position in closing.positions]
    found = (_whole(folder, trial, damage) for path in paths if (trial := _read(path, ReturnedTrial, damage)) is not None)
    return Returned(tuple(trial for trial in found if trial is not None), closing, damage[0] if damage else "")


def _of_trial(folder: Path, position: int) -> Path:
    return folder / f"trial-{position:04}.json"


def _read(path: Path, kind: Any, damage: list[str]) -> Any:
    try:
        return decode(kind, unseal(path))
    except Damaged as error:
        damage.append(error.message)
    except FileNotFoundError:
        damage.append(f"{path}: is missing")
    except OSError as error:
        damage.append(f"{path}: cannot be read ({error.strerror})")
    except DAMAGE as error:
        damage.append(f"{path}: is not what it should be ({error})")
    return None


def _whole(folder: Path, trial: ReturnedTrial, damage: list[str]) -> ReturnedTrial | None:
    """With its series and result."""
    try:
        series = read_series(folder, trial.series) if trial.series else []
        result = read_blob(folder / RESULTS, trial.result, "result") if trial.result else b""
    except HeapyardError as error:
        damage.append(error.message)
        return None
    return dataclasses.replace(trial, outcome=dataclasses.replace(trial.outcome, series=series, result=result))
