# SPDX-License-Identifier: Apache-2.0
"""What addresses mean: functions, files and lines, inlined ones too, by elfutils' eu-addr2line.

A file is believed only if its build-id is still the one that ran; otherwise debuginfod is asked when DEBUGINFOD_URLS is
set, and else the frame keeps its module and offset.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalog.elf import NotElfError, elf_facts
from ..model.shared import SCRIPT_PLACES
from .perf_map import of_no_file

if TYPE_CHECKING:
    from .trace import Module, Trace

_RUST_CODES = {"$LT$": "<", "$GT$": ">", "$C$": ", ", "$RF$": "&", "$BP$": "*", "$LP$": "(", "$RP$": ")", "$SP$": "@"}
_AT_ONCE = 4096  # addresses of one call
# Offsets in module 0 that are no addresses: what stands for frames that are not there.
_MISSING = {1: "[outer frames, beyond --depth]", 2: "[outer frames, no unwind tables]",
            3: "[all frames, beyond the collector's limit]"}
_LINE = re.compile(r"^(?:0x[0-9a-f]+: )?(?P<inlined> \(inlined by\) )?(?P<function>.*?) at (?P<file>.*?):(?P<line>\d+)(?::\d+)?$")


@dataclass(frozen=True, slots=True)
class Frame:
    """A function of a call chain. `file` is "" and `line` 0 when the module carries no debug information."""

    function: str
    file: str
    line: int
    module: str

    @property
    def place(self) -> str:
        """`file.c:12`, `script.py` where no line is known, or the module's name."""
        if not self.file:
            return Path(self.module).name
        return f"{Path(self.file).name}:{self.line}" if self.line else Path(self.file).name

    @property
    def is_script(self) -> bool:
        """Whether it is a function of a script, which a runtime has named (perf_map.py)."""
        return bool(self.file) and not self.module


def frames_of(trace: Trace) -> dict[tuple[int, int], list[Frame]]:
    """(module, offset) -> its frames, innermost inlined function first; every address of the tree."""
    import numpy as np

    wanted: dict[int, list[int]] = defaultdict(list)
    if len(trace.parent) > 1:
        pairs = np.unique(np.stack([trace.module[1:], trace.offset[1:]]), axis=1)
        for module, offset in pairs.T.tolist():
            wanted[module].append(offset)
    stored = trace.symbols or {}
    found: dict[tuple[int, int], list[Frame]] = {}
    for index, offsets in wanted.items():
        module = trace.modules[index] if index < len(trace.modules) else trace.modules[0]
        known = stored.get(str(index), {})
        missing = [offset for offset in offsets if str(offset) not in known]
        fresh: Mapping[int, list[tuple[str, str, int]]] = {}
        if missing and not stored:
            fresh = _resolve(module, missing) if module.path else of_no_file(trace, missing)
        if not module.path:
            fresh = {**fresh, **_places(trace, missing)}
        for offset in offsets:
            raw = known.get(str(offset)) or fresh.get(offset)
            found[index, offset] = (
                [Frame(f, file, line, module.path) for f, file, line in raw] if raw else [_unnamed(module, offset)]
            )
    return found


def _places(trace: Trace, offsets: Sequence[int]) -> dict[int, list[tuple[str, str, int]]]:
    """Of those that are places of a script."""
    return {at: [trace.scripts[at - SCRIPT_PLACES]] for at in offsets if at - SCRIPT_PLACES in trace.scripts}


def symbols_to_store(trace: Trace) -> dict[str, dict[str, list[tuple[str, str, int]]]]:
    """The same in the form that the trace keeps, so that it can be read on another machine."""
    kept: dict[str, dict[str, list[tuple[str, str, int]]]] = defaultdict(dict)
    for (module, offset), frames in frames_of(trace).items():
        kept[str(module)][str(offset)] = [(f.function, f.file, f.line) for f in frames]
    return dict(kept)


def _unnamed(module: Module, offset: int) -> Frame:
    if not module.path and offset in _MISSING:
        return Frame(_MISSING[offset], "", 0, "")
    if not module.path and offset >= SCRIPT_PLACES:
        return Frame("[function of a script, beyond the collector's limit]", "", 0, "")
    name = Path(module.path).name if module.path else "code of no file"
    return Frame(f"{name}+{offset:#x}", "", 0, module.path)


def frames_at(file: Path, offsets: Sequence[int]) -> dict[int, list[Frame]]:
    """Frames of places in a file that has not changed since it ran, as frames_of gives them; of a place in its data the
    variable's name. What has no name is absent. Some milliseconds."""
    return {at: [Frame(f, source, line, str(file)) for f, source, line in raw] for at, raw in _asked(file, offsets).items()}


def _resolve(module: Module, offsets: Sequence[int]) -> Mapping[int, list[tuple[str, str, int]]]:
    file = _file_of(module)
    return {} if file is None else _asked(file, offsets)


def _asked(file: Path, offsets: Sequence[int]) -> Mapping[int, list[tuple[str, str, int]]]:
    if shutil.which("eu-addr2line") is None:
        return {}
    found: dict[int, list[tuple[str, str, int]]] = {}
    for begin in range(0, len(offsets), _AT_ONCE):
        some = offsets[begin : begin + _AT_ONCE]
        told = subprocess.run(
            ["eu-addr2line", "-e", str(file), "-f", "-i", "-C", "-a", "--pretty-print", *map(hex, some)],
            capture_output=True, text=True, errors="replace",
        ).stdout
        found |= _parse(told)
    names = rust_names({function for frames in found.values() for function, _, _ in frames})
    return {at: [(names.get(f, f), file, line) for f, file, line in frames] for at, frames in found.items()}


def rust_names(names: Iterable[str]) -> dict[str, str]:
    """Names of Rust as its programmers write them, of those that eu-addr2line leaves mangled; without the hashes that
    change with every build. Rust's legacy mangling ends in ::h and 16 digits, the present one begins with _R."""
    found = {}
    for name in names:
        if re.search(r"::h[0-9a-f]{16}$", name):
            plain = name[:-19]
            for code, text in _RUST_CODES.items():
                plain = plain.replace(code, text)
            plain = re.sub(r"\$u([0-9a-f]{2,4})\$", lambda match: chr(int(match[1], 16)), plain)
            found[name] = re.sub(r"(^|::|\.\.|<)_(?=[<{])", r"\1", plain).replace("..", "::")
    mangled = sorted(name for name in names if name.startswith("_R"))
    if mangled and shutil.which("c++filt"):
        told = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True).stdout.splitlines()
        if len(told) == len(mangled):
            found |= {name: re.sub(r"\[[0-9a-f]{16}\]", "", plain) for name, plain in zip(mangled, told, strict=True)}
    return found


def _parse(text: str) -> dict[int, list[tuple[str, str, int]]]:
    found: dict[int, list[tuple[str, str, int]]] = {}
    at = 0
    for line in text.splitlines():
        address = re.match(r"0x([0-9a-f]+): ", line)
        if address:
            at = int(address[1], 16)
        parts = _LINE.match(line)
        function = parts["function"] if parts else re.sub(r"^0x[0-9a-f]+: ", "", line).split(" at ")[0]
        if function in ("", "??"):
            continue
        file, number = (parts["file"], int(parts["line"])) if parts and parts["file"] != "??" else ("", 0)
        found.setdefault(at, []).append((function, file, number))
    return found


def _file_of(module: Module) -> Path | None:
    """The file itself if it is still the one that ran, else what debuginfod has of it, else None."""
    path = Path(module.path)
    try:
        if module.path and elf_facts(path).build_id == module.build_id:
            return path
    except (OSError, NotElfError):
        pass
    if module.build_id and os.environ.get("DEBUGINFOD_URLS") and shutil.which("debuginfod-find"):
        asked = subprocess.run(["debuginfod-find", "debuginfo", module.build_id], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.strip():
            return Path(asked.stdout.strip())
    return None
