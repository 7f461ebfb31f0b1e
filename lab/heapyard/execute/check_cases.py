# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of `heapyard check`, each as a process of its own under the library (lab/native/check)."""

from __future__ import annotations

import functools
import json
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from fnmatch import fnmatch
from typing import get_args

from ..catalog.end_with_parent import killed_with_parent
from ..model import places
from ..model.allocator import Allocator
from ..model.check import CheckCase, CheckVerdict, Found
from ..model.damage import DAMAGE, object_of
from ..model.errors import SetupError, UsageError
from .bounded_process import end_session, output_within
from .scratch import ScratchFolder
from .system_settings import changed

PROGRAM = "check_heap"
AMOUNTS = ("quick", "usual", "deep")
LIMIT = {"quick": 60.0, "usual": 240.0, "deep": 3600.0}  # seconds a case may take; the longest take a fifth of it
LIMIT_OF_INFORMATION = 15.0  # where a hang is an answer


@functools.cache
def all_cases() -> tuple[CheckCase, ...]:
    """Every case in its order, as the native program lists them. SetupError when it is not built. One launch."""
    path = places.native(PROGRAM)
    if not path.exists():
        raise SetupError(f"the native part {path} is missing", remedy=places.repair())
    listed = subprocess.run([path, "--list"], capture_output=True, text=True, check=True, timeout=20).stdout
    return tuple(CheckCase(**entry) for entry in json.loads(listed))


def chosen_cases(patterns: Sequence[str]) -> list[CheckCase]:
    """Those whose group, name or label a pattern names (`memory`, `fork*`, `limits/data`); all without patterns."""
    cases = all_cases()
    for pattern in patterns:
        if not any(_named(case, pattern) for case in cases):
            raise UsageError(f"there is no case '{pattern}'; heapyard check --list shows them")
    return [case for case in cases if not patterns or any(_named(case, pattern) for pattern in patterns)]


def _named(case: CheckCase, pattern: str) -> bool:
    return any(fnmatch(text, pattern) for text in (case.group, case.name, case.label))


def run_case(
    case: CheckCase, allocator: Allocator, amount: str, limit: float | None = None, stop: threading.Event | None = None,
    change_system: bool = False,
) -> Found:
    """One case under one library. A crash or a hang is a result: `fail`, or `information` where the case says so.

    It runs in a folder of its own, gone afterwards. With `change_system` the system has the case's setting meanwhile.

    KeyboardInterrupt ends the case's processes and goes on up; it is raised here when `stop` is set before the end.
    """
    seconds = limit or (LIMIT_OF_INFORMATION if case.information else LIMIT[amount])
    words = [str(places.native(PROGRAM)), case.label, *([] if amount == "usual" else [amount])]
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **allocator.env}
    if allocator.library:
        env["LD_PRELOAD"] = str(allocator.library)
    setting = changed(case.setting) if change_system and case.setting else nullcontext()
    with setting, ScratchFolder() as folder:
        began = time.monotonic()
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
            start_new_session=True, preexec_fn=_prepare,
        )
        try:
            written = output_within(process, seconds, stop)
        finally:
            end_session(process)
        took = time.monotonic() - began
    hung = written is None
    out, err = (text.decode(errors="replace") for text in written or (b"", b""))
    verdict, said, facts = _outcome(out, err, process.returncode, hung, seconds)
    if case.information:
        verdict = "information"
    elif verdict == "fail" and case.label in allocator.gives_up:
        verdict, said = "note", f"{said}; this is what the ablation gives up"
    return Found(case, verdict, said, facts, took)


def _prepare() -> None:
    killed_with_parent()
    _, most = resource.getrlimit(resource.RLIMIT_CORE)  # the case of cores raises it again for itself
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def _outcome(
    out: str, err: str, code: int, hung: bool, seconds: float
) -> tuple[CheckVerdict, str, dict[str, str | tuple[float, str]]]:
    last = next((line.strip() for line in reversed(err.splitlines()) if line.strip()), "")
    last = "".join(c if c.isprintable() else " " for c in last[:160]).strip()
    told = f": {last}" if last else ""
    if hung:
        return "fail", f"hangs: no answer after {seconds:g} s", {}
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"signal {-code}"
        return "fail", f"dies of {name}{told}", {}
    try:
        answer = object_of(out.splitlines()[-1])
        if answer["verdict"] not in get_args(CheckVerdict) or not isinstance(answer["said"], str):
            raise ValueError(answer["verdict"])
        facts = {
            name: value if isinstance(value, str) else (float(value[0]), str(value[1])) for name, value in answer["facts"].items()
        }
        return answer["verdict"], answer["said"], facts
    except DAMAGE:
        return "fail", f"ends with exit code {code} and no answer{told}", {}
