# SPDX-License-Identifier: Apache-2.0
"""Who interrupts set-up reads how to go on, although what a step says goes to the log."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SET_UP = """
. "$1/setup/progress.sh"
log=$2
installing=
stop_test_packages() { :; }
exec 8>&2
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
compile() { echo compiling; sh -c 'echo ready >"$1"; exec sleep 60' sh "$log.ready"; }
step "Native parts" "no remedy" compile
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_step_says_so_on_the_screen(tmp_path: Path, number: signal.Signals, code: int) -> None:
    log = tmp_path / "setup.log"
    log.touch()
    ready = tmp_path / "setup.log.ready"
    os.mkfifo(ready)
    running = subprocess.Popen(["sh", "-c", SET_UP, "sh", str(ROOT), str(log)], stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    assert ready.read_text() == "ready\n"  # waits for the step
    os.killpg(running.pid, number)
    _, told = running.communicate(timeout=30)
    assert running.returncode == code
    assert told.splitlines()[-1] == "heapyard: set-up interrupted; start again to go on"
    assert log.read_text().startswith("compiling\n")
