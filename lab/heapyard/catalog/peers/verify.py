# SPDX-License-Identifier: Apache-2.0
"""Does a library really serve malloc when it is preloaded? Asked of two small programs, once after an installation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# A pointer from one library must never reach another's free: each of these has to come from the library under test.
_FAMILY = ("malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign")
_TIMEOUT = 60

# Prints, from inside the process, which object provides each function, after some work. No threads: a library that
# crashes now and then is not broken but unreliable, and the trials count how often.
_PROBE = """
import ctypes, json, sys
from ctypes import c_char_p, c_void_p
class Place(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("at", c_void_p)]
process = ctypes.CDLL(None)
def provider(name):
    place = Place()
    found = process.dladdr(ctypes.cast(getattr(process, name), c_void_p), ctypes.byref(place))
    return place.file.decode() if found else ""
kept = [bytes(size) for size in range(1, 20000, 7)]
del kept[::2]
kept += [bytearray(1 << 20) for _ in range(4)]
print(json.dumps({name: provider(name) for name in sys.argv[1:]}))
"""


def verify(library: Path, env: Mapping[str, str]) -> str:
    """Why the preloaded `library` does not serve malloc and its family, in words that follow its path; "" if it does.

    Two launches, together about 50 ms.
    """
    own = {**os.environ, **env, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"}
    for command in (["/bin/true"], [sys.executable, "-I", "-S", "-c", _PROBE, *_FAMILY]):
        try:
            done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return f"makes {Path(command[0]).name} hang for over {_TIMEOUT} seconds"
        ignored = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ld.so")]
        if ignored:
            return f"was not loaded: {ignored[0].removeprefix('ERROR: ld.so: ')}"
        if done.returncode != 0:
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return f"makes {Path(command[0]).name} end with {how}: {last}"
    providers = {name: Path(file).resolve() for name, file in json.loads(done.stdout).items()}
    program = Path(sys.executable).resolve()
    if program in providers.values():
        # Not position-independent: it answers for what it imports with stubs of its own. The loader knows better.
        bound = _bindings(own)
        providers = {n: bound.get(n, file) if file == program else file for n, file in providers.items()}
    foreign = [f"{name} from {file}" for name, file in providers.items() if file != library.resolve()]
    return f"was loaded, yet the program takes {', '.join(foreign)}" if foreign else ""


def _bindings(env: Mapping[str, str]) -> dict[str, Path]:
    """Which file the dynamic linker bound each function of the family to for the program itself, in its own words."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ""],
        env={**env, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    line = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")
    found = (match.groups() for match in map(line.search, done.stderr.splitlines()) if match)
    program = Path(sys.executable).resolve()
    places = ((name, Path(to).resolve()) for by, to, name in found if Path(by).resolve() == program)
    return {name: place for name, place in places if place != program}  # a stub's address is bound to the program itself
