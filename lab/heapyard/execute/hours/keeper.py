# SPDX-License-Identifier: Apache-2.0
"""A program of its own, around one server: it outlives a killed Heapyard, and what the server started ends with it.

Standard input holds one JSON object, see `kept.py`. The server's numbers go into the file `told`, its wait status into
`ended`. Where nobody holds the lock of `home` for `patience` seconds, nobody will come back, and the server is ended.
Only the standard library's lightest parts.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from typing import Any

_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_SET_DEATH_SIGNAL = 1
_LOOK = 1.0  # seconds between looks at the lock
_INSIST = 5.0  # seconds; a process that SIGKILL does not end by then is stuck in the kernel
_HEEDED = {signal.SIGCHLD, signal.SIGTERM}


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]


def _end_all() -> None:
    """Kills the children, then those they leave to us, and so on. O(processes) per generation."""
    until = time.monotonic() + _INSIST
    while (left := _children()) and time.monotonic() < until:
        for pid in left:
            os.kill(pid, signal.SIGKILL)  # not reaped, so the number is still its own
        for pid in left:
            os.waitpid(pid, 0)


def _write(path: str, what: dict[str, Any]) -> None:
    """The whole file or none."""
    with open(f"{path}.partial", "w") as file:
        json.dump(what, file)
    os.replace(f"{path}.partial", path)


def _is_held(home: int) -> bool:
    try:
        fcntl.flock(home, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(home, fcntl.LOCK_UN)
    return False


def _started(pid: int) -> int:
    """When the process began, in ticks since the machine started: with its number, a name that is never given twice."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def _become(spec: dict[str, Any], complaint: int) -> None:
    """The server, in place of this process; never returns."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEEDED)
        os.chdir(spec["cwd"])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        for number, path in ((1, spec["stdout"]), (2, spec["stderr"])):
            os.dup2(os.open(path, flags, 0o644), number)
        os.dup2(os.open(spec["stdin"], os.O_RDONLY), 0)
        os.execve(spec["command"][0], [spec["argv0"], *spec["command"][1:]], spec["env"])
    except OSError as error:
        os.write(complaint, f"{error.filename or spec['command'][0]}: {error.strerror}".encode())
    os._exit(127)


def main() -> int:
    spec = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEEDED)
    hear, complaint = os.pipe()  # closed by exec
    server = os.fork()
    if server == 0:
        _become(spec, complaint)
    os.close(complaint)
    if why := os.read(hear, 1000).decode(errors="replace"):
        os.waitpid(server, 0)
        _write(spec["told"], {"cannot": why})
        return 1
    numbers = {"pid": server, "began": _started(server), "keeper": os.getpid(), "keeper_began": _started(os.getpid())}
    _write(spec["told"], numbers)
    home = os.open(spec["home"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    alone_since = None
    while True:
        heard = signal.sigtimedwait(_HEEDED, _LOOK)
        while _children() and (found := os.waitpid(-1, os.WNOHANG))[0]:  # orphans of the server end here as well
            if found[0] == server:
                _end_all()
                _write(spec["ended"], {"status": found[1], "clock": time.time()})
                return 0
        if heard is None and _is_held(home):
            alone_since = None
        elif heard is None:
            alone_since = alone_since or time.monotonic()
        alone = alone_since is not None and time.monotonic() - alone_since > spec["patience"]
        if alone or (heard and heard.si_signo == signal.SIGTERM):
            _end_all()
            _write(spec["ended"], {"alone" if alone else "asked": True, "clock": time.time()})
            return 0


if __name__ == "__main__":
    sys.exit(main())
