# SPDX-License-Identifier: Apache-2.0
"""Can a program run on a simulated machine? Every reason why not is a sentence, with a remedy."""

from __future__ import annotations

import shlex
from pathlib import Path

from .elf import NotElfError, elf_facts, own_machine
from .executable_check import Flaw, executable_flaw


def simulation_flaw(path: Path, *, injected: bool) -> Flaw | None:
    """Why the file cannot run under the engine, None if it can. `injected`: a malloc library is to serve it. Reads its head only.

    The engine runs one program: a script's interpreter would have to be named, and what a program starts is not simulated.
    """
    flaw = executable_flaw(path)
    try:
        with path.open("rb") as file:
            is_script = file.read(2) == b"#!"
        facts = None if is_script else elf_facts(path)
    except (OSError, NotElfError):
        return flaw
    if is_script and not flaw:
        return (f"'{path}' is a script, and a simulated machine runs programs only",
                f"Name its interpreter, as in: heapyard simulate -- python3 {shlex.quote(str(path))}")
    if facts and facts.static and (facts.bits, facts.machine) == own_machine():
        if not injected:
            return None
        return flaw and (flaw[0], "Link it dynamically, or simulate it with its own malloc: --allocators system")
    return flaw
