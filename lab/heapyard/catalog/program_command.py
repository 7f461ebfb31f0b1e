# SPDX-License-Identifier: Apache-2.0
"""The user's own command as a program: found as a shell finds it, refused with the reason if it cannot be measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ..model.errors import UsageError
from ..model.program import Answer, Program
from .executable_check import Flaw, executable_flaw
from .server_command import Load, server_of
from .wrapped_command import program_name

# What the lab itself sets for every trial; a second value would quietly win or lose.
_RESERVED = ("LD_PRELOAD", "GLIBC_TUNABLES")

Check = Literal["output", "exit"]  # what decides whether a launch went well: what it printed, or its exit code alone


def program_from_command(argv: Sequence[str], *, stdin: Path | None = None, env: Mapping[str, str] = {},
                         cwd: Path | None = None, name: str | None = None, expect_exit: int = 0,
                         check: Check = "output", load: Load | None = None,
                         flaw_of: Callable[[Path], Flaw | None] = executable_flaw) -> Program:
    """`argv` as a Program that inherits the environment; nothing in it is replaced, braces stay braces.

    With a `load` it is a server: {port} and {dir} are replaced, and the load's answer is what counts.

    `cwd` defaults to the current folder. `check` "exit": the exit code alone decides; "output": standard output must
    also be what it is under the baseline. UsageError, in one sentence, for what cannot be launched or not be measured.
    """
    if not argv or not argv[0]:
        raise UsageError("there is no command after --; write for example: heapyard compare -- ./my_program input.txt")
    folder = _folder(cwd)
    path = _find(argv[0], folder)
    flaw = flaw_of(path)
    if flaw:
        raise UsageError(flaw[0], remedy=flaw[1])
    reserved = next((variable for variable in _RESERVED if variable in env), None)
    if reserved:
        raise UsageError(f"{reserved} is set by heapyard itself; name a library with --allocator NAME=LIBRARY instead")
    return Program(
        name=name or program_name(argv),
        title=" ".join(argv),
        command=(str(path), *argv[1:]),
        stdin=_input(stdin),
        env=dict(env),
        cwd=folder,
        inherit_env=True,
        literal=load is None,
        argv0=argv[0],
        answer=Answer(exit_code=expect_exit, output="ignore" if check == "exit" or load else "consistent"),
        server=server_of(load, argv, env) if load else None,
        provenance=f"user's command {path}",
    )


def _folder(cwd: Path | None) -> Path:
    folder = Path(cwd or Path.cwd()).absolute()
    if not folder.is_dir():
        raise UsageError(f"the working folder '{folder}' {'is not a folder' if folder.exists() else 'does not exist'}")
    return folder


def _find(word: str, folder: Path) -> Path:
    """As execvp would from `folder`; symbolic links stay, since many programs look at the name they are called by."""
    if "/" in word:
        path = folder / word
        if not os.path.lexists(path):
            raise UsageError(f"there is no file '{word}'")
        return path
    found = shutil.which(word)
    if found:
        return Path(found).absolute()
    here = folder / word
    remedy = f"To run the one in {folder}, write ./{word}." if here.is_file() else None
    raise UsageError(f"no program '{word}' in PATH", remedy=remedy)


def _input(stdin: Path | None) -> Path | None:
    if stdin is None:
        return None
    path = Path(stdin).absolute()
    if path.is_dir():
        raise UsageError(f"standard input '{path}' is a folder")
    if not os.access(path, os.R_OK):
        reason = "cannot be read" if path.exists() else "does not exist"
        raise UsageError(f"standard input '{path}' {reason}")
    return path
