# SPDX-License-Identifier: Apache-2.0
"""The shared folder of a run: where what travels lies. Pure path arithmetic; docs/fleet_files.md describes the files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Room:
    """`folder` is seen by the controller and by all nodes under this path."""

    folder: Path

    @property
    def parts(self) -> Path:
        """Libraries and programs by their content."""
        return self.folder / "parts"

    @property
    def jobs(self) -> Path:
        """What the engine writes: submissions, and what jobs said."""
        return self.folder / "jobs"

    @property
    def standing(self) -> Path:
        """What agents need not run any more."""
        return self.folder / "standing.json"

    @property
    def due(self) -> Path:
        """Which blocks are out."""
        return self.folder / "due.json"

    @property
    def had(self) -> Path:
        """How many blocks of each workload a kind of machine, and a node, has had."""
        return self.folder / "had"

    @property
    def blocks(self) -> Path:
        return self.folder / "blocks"

    def block(self, index: int) -> Path:
        return self.blocks / f"{index:06}"

    def warm(self, node: str, workload: str) -> Path:
        """There once the node has run the workload."""
        return self.folder / "warm" / f"{node}-{workload.replace('/', '_')}"


def around(block: Path) -> Room:
    """The room in which a block's folder lies."""
    return Room(block.parent.parent)


def room_of(experiment_folder: Path, fleet: Fleet) -> Room:
    """Of an experiment: in its own folder, or below the shared one that the user named, under the experiment's id."""
    if fleet.shared:
        return Room(Path(fleet.shared).absolute() / f"heapyard-{experiment_folder.name}")
    return Room(experiment_folder.absolute() / "fleet")
