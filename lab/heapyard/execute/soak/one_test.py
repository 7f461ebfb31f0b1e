# SPDX-License-Identifier: Apache-2.0
"""One run of one test of a suite under one malloc library."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ...catalog.end_with_parent import end_with_parent
from ...model import places
from ...model.allocator import Allocator
from ...model.soak import Run
from ..bounded_process import end_session, output_within
from ..scratch import ScratchFolder
from ..trial_environment import WITNESS
from ..witness import TOGETHER, read_testimonies
from .workshop import Workshop

KEEPER = Path(__file__).with_name("keeper.py")
LAST_WORDS = 10.0  # seconds that the keeper has to end all of a test that hangs
SKIPPED = "skipped"
MOST_MARKS = 200  # of one run; more say nothing new


def run_test(
    shop: Workshop, test: str, allocator: Allocator, limit: float, slot: int, stop: threading.Event, keep: Path,
) -> Run:
    """Its marks, in a folder of its own that is gone afterwards; what it wrote is in `keep`.

    `slot`: which of the tests that run at the same time, for ports. KeyboardInterrupt if `stop` is set before its end.
    """
    suite = shop.suite
    with ScratchFolder() as folder:
        (folder / "tmp").mkdir()
        (folder / "work").mkdir()
        witness = folder / "witness"
        witness.touch()  # it only appends
        preload = [str(places.native(WITNESS)), *([str(allocator.library)] if allocator.library else [])]
        env = {
            **shop.environment(), **allocator.env, "HOME": str(folder), "TMPDIR": str(folder / "tmp"), "USER": getpass.getuser(),
            "SOAK_TEST": test, "SOAK_SLOT": str(slot), "HEAPYARD_WITNESS": str(witness), "LD_PRELOAD": ":".join(preload),
        }
        # The keeper is not under the library: `env` sets the variables for what comes after it.
        words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "sh", "-uc", suite.run]
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(KEEPER), str(keep), *words], cwd=folder / "work", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": env["PATH"]}, start_new_session=True,
            preexec_fn=_prepare,
        )
        try:
            written = output_within(process, limit, stop)
            seconds = time.monotonic() - began
            if written is None:
                process.terminate()
                output_within(process, LAST_WORDS)
        except KeyboardInterrupt:
            process.terminate()
            output_within(process, LAST_WORDS)
            raise
        finally:
            end_session(process)
        served, elsewhere = _served(witness, allocator)
    text = keep.read_bytes() if keep.exists() else b""
    marks, cases = _read(shop, text, None if written is None else int(written[0] or b"0"))
    return Run(test, frozenset(marks), cases, seconds, served, elsewhere, str(keep))


def _prepare() -> None:
    end_with_parent()
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def _read(shop: Workshop, output: bytes, status: int | None) -> tuple[list[str], int]:
    """The marks of a run with this wait status, None if it did not end, and how many cases it counts."""
    suite, text = shop.suite, output.decode(errors="replace")
    failed = list(dict.fromkeys(_plain(m[1]) for m in re.finditer(suite.failed, text, re.MULTILINE))) if suite.failed else []
    marks = failed[:MOST_MARKS]
    found = re.finditer(suite.cases, text, re.MULTILINE) if suite.cases else iter(())
    cases = sum(int(m[1]) if m.re.groups else 1 for m in found) or 1
    if status is None:
        return [*marks, "hangs"], cases
    code = os.waitstatus_to_exitcode(status)
    if code < 0 or code > 128 and code - 128 in signal.Signals._value2member_map_:
        marks.append(f"dies of {signal.Signals(-code if code < 0 else code - 128).name}")
    elif code in suite.skipped:
        marks.append(SKIPPED)
    elif code:
        marks.append(f"exit code {code}")
    if suite.answer and not code:
        marks.append(f"output {hashlib.sha256(output).hexdigest()[:12]}")
    return marks, cases


def _plain(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name[:200]).strip()


def _served(witness: Path, allocator: Allocator) -> tuple[int, tuple[str, ...]]:
    """How many programs the library served, and those that another object served, with that object."""
    library = os.path.realpath(allocator.library) if allocator.library else ""
    served, elsewhere = 0, set[str]()
    for told in read_testimonies(witness):
        others = {told.providers.get(symbol, "") for symbol in TOGETHER} - {library}
        if others and library:
            named = ", ".join(sorted("itself" if o == told.executable else Path(o).name for o in others))
            elsewhere.add(f"{Path(told.executable).name} ({named})")
        else:
            served += 1
    return served, tuple(sorted(elsewhere))


def move_output(path: str, to: Path) -> str:
    """Keeps what a run wrote under another name."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, to)
    return str(to)
