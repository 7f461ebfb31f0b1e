# SPDX-License-Identifier: Apache-2.0
"""Kills a command of the lab at an instant and tells what it left: `python killed.py SECONDS COMMAND...`, an answer as JSON.

Whatever the command started and lost becomes a child of this process, so nothing escapes the look.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
PATIENCE = 20.0  # seconds in which what the command left must have ended


def below(root: int) -> dict[int, str]:
    """Processes below `root`, zombies left out, with their state and command line."""
    parents: dict[int, int] = {}
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        parents[int(path.name)] = int(parent)
        if state not in "ZX":
            found[int(path.name)] = f"{state} {words}"
    def is_below(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == root:
                return True
        return False
    return {pid: words for pid, words in found.items() if is_below(pid)}


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        process.wait(timeout=float(sys.argv[1]))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    while (left := below(os.getpid())) and time.monotonic() - began < PATIENCE:
        reap()
        time.sleep(0.02)
    print(json.dumps({"killed": process.returncode == -signal.SIGKILL, "code": process.returncode,
                      "left": sorted(left.values()), "seconds": round(time.monotonic() - began, 3)}))
    for pid in left:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
