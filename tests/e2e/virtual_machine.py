# SPDX-License-Identifier: Apache-2.0
"""A small virtual machine under an emulated processor: a kernel, busybox, and programs of this build with their libraries."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

_CLOSING = "the-script-ended-with"


def kernel() -> Path:
    """The newest kernel of this machine that may be read, or the one that HEAPYARD_KERNEL names; else the test is not run."""
    if named := os.environ.get("HEAPYARD_KERNEL"):
        return Path(named)
    found = [path for path in Path("/boot").glob("vmlinuz-*") if os.access(path, os.R_OK)]
    if not found:
        pytest.skip("this machine has no kernel to read in /boot; HEAPYARD_KERNEL may name one")
    return max(found, key=lambda path: path.stat().st_mtime)


def _tool(name: str) -> str:
    if (path := shutil.which(name)) is None:
        pytest.skip(f"this machine has no {name}")
    return path


def _libraries(program: Path) -> Iterable[Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return (Path(word) for line in listed.splitlines() for word in line.split() if word.startswith("/"))


def file_system(folder: Path, programs: Iterable[Path], script: str) -> Path:
    """An archive that a kernel unpacks as its root: `programs` in /bin with all that they load, `script` run by busybox.

    Libraries among `programs` are found at their own place, /bin. O(bytes).
    """
    busybox, cpio = _tool("busybox"), _tool("cpio")
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for program in programs:
        shutil.copy(program, root / "bin")
        for library in _libraries(program):
            (root / library.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.relative_to("/"))
    begin = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
export PATH=/bin
"""
    (root / "script").write_text(f"{begin}{script}")
    (root / "init").write_text(f"{begin}sh /script 2>&1\necho {_CLOSING} $?\npoweroff -f\n")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in root.rglob("*"))
    packed = subprocess.run([cpio, "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), capture_output=True, check=True)
    archive = folder / "root.gz"
    archive.write_bytes(gzip.compress(packed.stdout, 1))
    return archive


def boot(archive: Path, processor: str, count: int, seconds: float) -> list[str]:
    """Lines that the script wrote on `count` emulated processors of this model. Fails if it did not end with 0."""
    command = [_tool("qemu-system-x86_64"), "-accel", "tcg", "-cpu", processor, "-smp", str(count), "-m", "2G", "-nographic",
               "-no-reboot", "-nic", "none", "-kernel", str(kernel()), "-initrd", str(archive),
               "-append", "console=ttyS0 quiet panic=-1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    lines = done.stdout.decode(errors="replace").replace("\r", "").splitlines()
    assert f"{_CLOSING} 0" in lines, "\n".join(lines[-40:])
    return lines
