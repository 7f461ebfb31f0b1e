"""Tracing a process that runs already, from now on until told to stop; the process goes on."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..catalog.elf import exported
from ..execute.collector import Collector, Plan
from ..model.errors import HeapyardError, SetupError, UsageError
from .tracing import Traced

_PATIENCE = 120  # seconds for gdb to read the symbols of a large program
_TRIES = 20
_TICK = 0.5


def attach(
    pid: int, plan: Plan, folder: Path, seconds: float | None = None, tick: Callable[[float], None] = lambda elapsed: None
) -> Traced:
    """Traces process `pid` until it ends, `seconds` have passed or Ctrl-C; its trace, and those of children it forks, in `folder`.

    `tick` is called twice a second with the seconds so far. UsageError or HeapyardError say why it cannot be.
    """
    program = check(pid)
    ended = os.pidfd_open(pid)
    try:
        collector = Collector(folder, replace(plan, attached=True))
        try:
            _load(pid, program, collector)
        except BaseException:
            collector.stop()
            raise
        began = time.monotonic()
        has_ended = False
        try:
            while not has_ended and (seconds is None or time.monotonic() - began < seconds):
                left = _TICK if seconds is None else min(_TICK, max(0.0, began + seconds - time.monotonic()))
                has_ended = bool(select.select([ended], [], [], left)[0])
                tick(time.monotonic() - began)
        except KeyboardInterrupt:
            pass  # asked to stop: what was recorded is kept
        took = time.monotonic() - began
        if has_ended:
            collector.close()
        else:
            collector.stop()
    finally:
        os.close(ended)
    return Traced(0, took, tuple(sorted(folder.glob("*.hytrace"))))


def check(pid: int) -> str:
    """The program of a process that can be attached to; UsageError else."""
    here = Path(f"/proc/{pid}")
    if not here.exists():
        raise UsageError(f"there is no process {pid}")
    if shutil.which("gdb") is None:
        raise SetupError("--attach works through gdb, which is not installed", remedy="apt-get install gdb")
    try:
        program = str((here / "exe").readlink())
        with (here / "exe").open("rb") as file:
            head = file.read(20)
        same_files = (here / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
    except PermissionError:
        raise UsageError(
            f"process {pid} may not be looked into by this user", remedy="Attach as its user, or as root."
        ) from None
    except OSError:
        raise UsageError(f"process {pid} runs no program: it is of the kernel, or has just ended") from None
    if head[:4] != b"\x7fELF" or head[4] != 2 or int.from_bytes(head[18:20], "little") != 62:
        raise UsageError(f"process {pid} ({program}) is not an x86-64 program")
    if not any(Path(path).name.startswith("ld-linux") for path in _mapped(pid)):
        raise UsageError(f"process {pid} ({program}) is a static program: no library can be loaded into it")
    if not same_files:
        raise UsageError(
            f"process {pid} ({program}) lives in a container, which does not see this machine's files",
            remedy="Run heapyard inside the container.",
        )
    return program


def observable_heap(pid: int) -> Path | None:
    """The library the process has loaded that tells of its pages, if any. O(loaded libraries)."""
    return next(map(Path, _libraries_with(pid, "heapyard_observe_pages")), None)


def _is_libc(path: str) -> bool:
    return Path(path).name.startswith("libc.so")


def _libraries_with(pid: int, symbol: str) -> list[str]:
    found = []
    for path in _mapped(pid):
        try:
            if ".so" in Path(path).name and exported(Path(path), [symbol]):
                found.append(path)
        except (OSError, HeapyardError, ValueError):
            continue
    return found


def _mapped(pid: int) -> list[str]:
    """The files that the process has mapped with code in them."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({fields[5] for line in lines if len(fields := line.split(None, 5)) == 6 and "x" in fields[1]})


def _load(pid: int, program: str, collector: Collector) -> None:
    """Has gdb load the library into the process and name the collector to it."""
    script = Path(__file__).with_name("attach_gdb.py")
    env = {
        **os.environ, "HEAPYARD_PID": str(pid), "HEAPYARD_LIBRARY": str(collector.library), "HEAPYARD_WISH": collector.wish,
        "HEAPYARD_WITH_MALLOC": "\n".join(path for path in _libraries_with(pid, "malloc") if not _is_libc(path)),
    }
    answer: dict[str, object] = {}
    for _ in range(_TRIES):
        answer = _ask_gdb(["gdb", "-nx", "-batch", "-x", str(script)], env)
        if answer.get("error") != "busy":
            break
        time.sleep(0.05)
    who = f"process {pid} ({Path(program).name})"
    text = str(answer.get("text", ""))
    if answer.get("error") == "attach":
        remedy = "Only one debugger or tracer can hold a process."
        if "not permitted" in text:
            remedy = "Attach as root, or allow it: sysctl kernel.yama.ptrace_scope=0; in a container: --cap-add SYS_PTRACE."
        raise HeapyardError(f"{who}: the system does not permit attaching: {text}", remedy=remedy)
    if answer.get("error") == "busy":
        raise HeapyardError(f"{who}: {text}, at {_TRIES} looks", remedy="Try again.")
    if "error" in answer:
        raise HeapyardError(f"{who}: gdb could not load the tracer: {text}")
    if answer.get("result") == 1:
        raise UsageError(f"{who} is being traced already")
    if answer.get("result") != 0:
        raise HeapyardError(f"{who} did not find the collector")


def _ask_gdb(words: list[str], env: dict[str, str]) -> dict[str, object]:
    gdb = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, start_new_session=True)
    try:
        out, errors = gdb.communicate(timeout=_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        gdb.send_signal(2)  # it puts the process back as it was
        try:
            gdb.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            gdb.kill()
            gdb.communicate()
        if isinstance(reason, KeyboardInterrupt):
            raise
        return {"error": "gdb", "text": f"no answer within {_PATIENCE} s"}
    for line in out.splitlines():
        if line.startswith("HEAPYARD "):
            found: dict[str, object] = json.loads(line.removeprefix("HEAPYARD "))
            return found
    return {"error": "gdb", "text": (errors.strip().splitlines() or ["it said nothing"])[-1]}
