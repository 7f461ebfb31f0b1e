# SPDX-License-Identifier: Apache-2.0
"""Can a library be injected into this file, an allocator or the tracer? Every reason why not is a sentence, and a remedy if any."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from .elf import NotElfError, elf_facts, own_machine

Flaw = tuple[str, str | None]  # the sentence, and what to do about it

_SHEBANG_LIMIT = 256  # bytes of a script's first line the kernel looks at
_SHEBANG_DEPTH = 4  # scripts whose interpreter is a script again; the kernel gives up thereafter
_GO = 'Go allocates by itself. profile can see what it maps if cgo builds it: import "C" in one of its files.'


def executable_flaw(path: Path, depth: int = 0) -> Flaw | None:
    """Why the file cannot be launched with an injected library, None if it can. Reads its head only.

    A file that may be run but not read is given the benefit of the doubt: the trial itself proves the injection.
    """
    shown = f"'{path}'"
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return f"{shown} cannot be run: {(error.strerror or 'unknown reason').lower()}", None
    if path.is_dir():
        return f"{shown} is a folder, not a program", None
    if not path.is_file():
        return f"{shown} is not a regular file", None
    if not mode & 0o111:
        return f"{shown} is not executable", f"Run: chmod +x {shlex.quote(str(path))}"
    if not os.access(path, os.X_OK):
        return f"{shown} may not be run by you, or its file system is mounted noexec", None
    return _privileged(path, mode) or _content_flaw(path, depth)


def _privileged(path: Path, mode: int) -> Flaw | None:
    bits = [name for name, bit in (("setuid", 0o4000), ("setgid", 0o2000)) if mode & bit]
    try:
        os.getxattr(path, "security.capability")
        bits.append("given file capabilities")
    except OSError:
        pass  # it has none, or the file system cannot hold any
    if not bits:
        return None
    copy = shlex.quote(f"./{path.name}.plain")
    return (f"'{path}' is {' and '.join(bits)}: the dynamic linker injects no library into it",
            f"Measure a copy without that: cp {shlex.quote(str(path))} {copy}")


def _content_flaw(path: Path, depth: int) -> Flaw | None:
    try:
        with open(path, "rb") as file:
            head = file.read(_SHEBANG_LIMIT)
    except OSError:
        return None
    if head.startswith(b"#!"):
        return _script_flaw(path, head, depth)
    try:
        facts = elf_facts(path)
    except NotElfError as error:
        if head.startswith(b"\x7fELF"):
            return f"'{path}' {error}", None
        return f"'{path}' is neither an ELF program nor a script that begins with #!", None
    bits, machine = own_machine()
    if (facts.bits, facts.machine) != (bits, machine):
        theirs = f"{facts.bits}-bit {facts.machine}"
        return f"'{path}' is a {theirs} program; the libraries here are {bits}-bit {machine}", None
    if facts.static:
        return f"'{path}' is statically linked: no library can be injected into it", _GO if facts.go else "Link it dynamically."
    if not facts.interpreter:
        return f"'{path}' is a library, not a program", None
    if not Path(facts.interpreter).exists():
        return f"'{path}' asks for the dynamic linker {facts.interpreter}, which does not exist", None
    return None


def _script_flaw(path: Path, head: bytes, depth: int) -> Flaw | None:
    line = head[2:].split(b"\n", 1)[0]
    if line.endswith(b"\r"):
        remedy = f"Run: sed -i 's/\\r$//' {shlex.quote(str(path))}"
        return f"'{path}' has Windows line ends, so its interpreter is not found", remedy
    words = line.decode(errors="replace").split(maxsplit=1)
    if not words:
        return f"'{path}' begins with #! but names no interpreter", None
    interpreter = Path(words[0])
    if not interpreter.exists():
        return f"'{path}' asks for the interpreter {interpreter}, which does not exist", None
    if depth >= _SHEBANG_DEPTH:
        return f"'{path}' is a script whose interpreters are scripts in a circle", None
    if interpreter.name == "env" and len(words) > 1:
        named = next((word for word in words[1].split() if not word.startswith("-") and "=" not in word), None)
        found = shutil.which(named) if named else None
        if named and not found:
            return f"'{path}' asks env for the interpreter {named}, which is not in PATH", None
        if found:
            interpreter = Path(found)
    flaw = executable_flaw(interpreter, depth + 1)
    return (f"'{path}' is run by an interpreter that cannot be measured: {flaw[0]}", flaw[1]) if flaw else None
