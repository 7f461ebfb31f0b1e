# SPDX-License-Identifier: Apache-2.0
"""Tracing a process that runs already, from now on until told to stop; the process goes on."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..catalog.elf import exported
from ..execute.collector import Collector, Plan
from ..model import places
from ..model.errors import HeapyardError, SetupError, UsageError
from ..model.shared import TRACE_SUFFIX
from .tracing import Traced

_PATIENCE = 60  # seconds for the injector, which gives up by itself sooner
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
    return Traced(0, took, tuple(sorted(folder.glob(f"*{TRACE_SUFFIX}"))))


def check(pid: int) -> str:
    """The program of a process that can be attached to; UsageError else."""
    here = Path(f"/proc/{pid}")
    if not here.exists():
        raise UsageError(f"there is no process {pid}")
    try:
        program = str((here / "exe").readlink())
        with (here / "exe").open("rb") as file:
            head = file.read(20)
        same_files = (here / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
    except PermissionError:
        raise UsageError(
            f"process {pid} may not be read by this user", remedy="Attach as its user, or as root."
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
    """The library of the process that reports its pages, if any. O(loaded libraries)."""
    return next(map(Path, _libraries_with(pid, "heapyard_observe_pages")), None)


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
    """Has the process load the library and name the collector to it (tracer/injector)."""
    answer = inject(pid, collector.library, "heapyard_trace_attach", collector.wish)
    who = f"process {pid} ({Path(program).name})"
    text = answer["text"]
    match answer["ending"]:
        case "called" if answer["result"] == "1":
            raise UsageError(f"{who} is being traced already")
        case "called" if answer["result"] != "0":
            raise HeapyardError(f"{who} did not find the collector")
        case "called":
            return
        case "not-permitted" if "holds it" in text:
            raise HeapyardError(f"{who}: {text}", remedy="Only one debugger or tracer can hold a process: end that one.")
        case "not-permitted":
            raise HeapyardError(
                f"{who}: the system does not permit attaching: {text}",
                remedy="Attach as root, or allow it: sysctl kernel.yama.ptrace_scope=0; in a container: --cap-add SYS_PTRACE.",
            )
        case "refused":
            raise HeapyardError(f"{who} was left untouched: {text}")
        case "busy":
            raise HeapyardError(f"{who} was left untouched: {text}, at {answer['looks']} looks", remedy="Try again.")
        case "gone":
            raise HeapyardError(f"{who}: {text}")
        case "not-loaded":
            raise HeapyardError(f"{who} could not load the tracer: {text}")
        case _:
            raise HeapyardError(f"{who}: {text}")


def inject(pid: int, library: Path, entry: str, argument: str) -> dict[str, str]:
    """Has a thread of the process load `library` and call `int entry(const char* argument)` of it.

    Returns what the injector tells: "ending", "result", "text", "thread", "looks", "stopped-ns", "longest-look-ns",
    "mended" (tracer/injector/injection.hpp). Errors: SetupError if it is not built, HeapyardError if it does not answer.
    """
    binary = places.native("injector")
    if not binary.exists():
        raise SetupError(f"the native part {binary} is missing", remedy=places.repair())
    words = [str(binary), "--pid", str(pid), "--library", str(library), "--entry", entry, "--argument", argument]
    # In a session of its own: Ctrl-C must not end it half-way, though the process would go on even then.
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as injector:
        try:
            out, errors = injector.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            injector.kill()
            raise HeapyardError(f"process {pid}: no answer within {_PATIENCE} s") from None
        except KeyboardInterrupt:
            injector.communicate()
            raise
    answer = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    if "ending" not in answer:
        last = (errors.strip().splitlines() or [f"it ended with {injector.returncode}"])[-1]
        raise HeapyardError(f"process {pid}: the injector could not attach: {last}")
    return answer
