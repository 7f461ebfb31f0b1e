# SPDX-License-Identifier: Apache-2.0
"""The process around a throw-away Slurm: it starts everything, and ends everything when the command that it serves is gone.

`python -m heapyard.execute.fleet_try.keeper PLAN`: an answer as a line of JSON on standard output, then silence. The other end of
standard input is the command's: it closes when the command ends, however that ends, even by kill -9. Where the machine has name
spaces this is process 1 of one, so that whatever a job has started ends here; elsewhere it adopts orphans.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from ...model.errors import HeapyardError
from ..orphans import adopt_orphans
from .daemons import Daemons
from .plan import Plan
from .quota import remove_group

_REAP_EVERY = 1000  # milliseconds
_INSIST = 5.0  # seconds in which what was killed must have ended


def main(file: Path) -> None:
    """Returns when everything has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the command decides when the end is, by closing its end of the pipe
    plan = Plan.read(file)
    alone = os.getpid() == 1
    if alone:
        import socket

        socket.sethostname(plan.head)
    else:
        adopt_orphans()
    daemons = Daemons(plan)
    try:
        daemons.start(_command_is_gone)
        _answer({"ready": True})
        while not _command_is_gone(_REAP_EVERY):
            _reap()
    except KeyboardInterrupt:
        pass
    except HeapyardError as error:
        _answer({"failed": error.message, "remedy": error.remedy})
    except (OSError, subprocess.CalledProcessError) as error:
        _answer({"failed": str(error), "remedy": None})
    finally:
        _end_all(alone)
        for group in daemons.groups:
            remove_group(group)
        if plan.temporary:
            shutil.rmtree(plan.folder, ignore_errors=True)


def _command_is_gone(milliseconds: int = 0) -> bool:
    """Nothing is ever written to our standard input: what can be read is its end."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _answer(told: object) -> None:
    try:
        print(json.dumps(told), flush=True)
    except OSError:
        pass  # the command is gone, which the next look tells


def _end_all(alone: bool) -> None:
    """Kills every process of the name space, or every child, those that we adopt included. O(processes) per round."""
    until = time.monotonic() + _INSIST
    while time.monotonic() < until:
        try:
            if alone:
                os.kill(-1, signal.SIGKILL)
            else:
                for pid in _children():
                    os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not _reap():
            return
        time.sleep(0.005)


def _children() -> list[int]:
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _reap() -> bool:
    """Whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
