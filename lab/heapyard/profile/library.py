# SPDX-License-Identifier: Apache-2.0
"""The profiles on this machine: one folder each, named so that they sort by time."""

from __future__ import annotations

from pathlib import Path

from ..model import places
from ..model.errors import UsageError
from ..model.shared import TRACE_SUFFIX
from .account import fullest
from .trace import Trace, load_trace


def folders() -> list[Path]:
    """Every profile's folder, the oldest first; of one second, as they were last written to."""
    try:
        found = [p for p in places.profiles().iterdir() if p.is_dir() and any(p.glob(f"*{TRACE_SUFFIX}"))]
        return sorted(found, key=lambda p: (p.name[:15], p.stat().st_mtime_ns))
    except OSError:
        return []


def traces_of(name: str) -> list[Path]:
    """The traces that a name means: a file, a folder, `last`, or a part of one profile's name. UsageError if none or several."""
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(path.glob(f"*{TRACE_SUFFIX}"))
        if found:
            return found
        raise UsageError(f"{name} holds no trace")
    known = folders()
    if not known:
        raise UsageError("there is no profile on this machine", remedy="heapyard profile -- COMMAND makes one.")
    matching = known[-1:] if name == "last" else [folder for folder in known if name in folder.name]
    if len(matching) != 1:
        what = "no profile is" if not matching else f"{len(matching)} profiles are"
        raise UsageError(f"{what} named '{name}'", remedy="heapyard profile list lists them.")
    return sorted(matching[0].glob(f"*{TRACE_SUFFIX}"))


def main_trace(traces: list[Path]) -> Path:
    """The process with most memory that it got itself. Only the largest files are looked into: much memory leaves much to
    record.
    """
    if len(traces) == 1:
        return traces[0]
    largest = sorted(traces, key=lambda path: -path.stat().st_size)[:8]
    return max(largest, key=lambda path: _got_itself(load_trace(path)))


def _got_itself(trace: Trace) -> int:
    """Bytes of blocks at their peak, and what of its own mappings was resident at the fullest."""
    account = fullest(trace.accounts)
    return trace.peak_bytes + (int(account.mapped_resident.sum()) if account else 0)


def load_main(name: str, process: int | None = None) -> Trace:
    """The main trace of a profile, or that of a process number."""
    traces = traces_of(name)
    if process is None:
        return load_trace(main_trace(traces))
    of_process = [path for path in traces if path.stem.endswith(f"-{process}")]
    if not of_process:
        raise UsageError(f"no trace of process {process} is in this profile", remedy="heapyard profile show --all lists them.")
    return max((load_trace(path) for path in of_process), key=lambda trace: trace.peak_bytes)
