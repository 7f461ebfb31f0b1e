# SPDX-License-Identifier: Apache-2.0
"""Facts about ELF files, read the way the dynamic linker does: program headers and hash tables, never a whole file.

The file is mapped, so that a question costs the pages it touches. Section headers are not used: a stripped file may
lack them.
"""

from __future__ import annotations

import mmap
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_ET_EXEC, _ET_DYN = 2, 3
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_SONAME, _DT_FLAGS_1, _DT_GNU_HASH = (
    1,
    4,
    5,
    6,
    14,
    0x6FFFFFFB,
    0x6FFFFEF5,
)
_DF_1_PIE = 0x08000000
_NT_GNU_BUILD_ID = 3

_MOST_SEGMENTS = 1170  # the kernel takes 64 KiB of headers
_LONGEST_NAME = 1 << 12  # bytes of a library's name

_MACHINES = {3: "i386", 21: "ppc64", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv", 258: "loongarch"}


class NotElfError(ValueError):
    """The file is not ELF, or is cut short; the message ends a sentence that begins with the file's name."""


@dataclass(frozen=True, slots=True)
class ElfFacts:
    """What an ELF file says of itself. `machine` is a name such as x86_64; `build_id` is hex, "" if there is none."""

    bits: int
    machine: str
    executable: bool  # meant to be run: ET_EXEC or position-independent executable
    interpreter: str  # the dynamic linker it asks for, "" if none
    soname: str
    build_id: str
    needed: tuple[str, ...] = ()  # names of the libraries it asks for itself
    go: bool = False  # built by Go's tool chain

    @property
    def static(self) -> bool:
        """An executable no dynamic linker loads: LD_PRELOAD cannot reach it."""
        return self.executable and not self.interpreter


def elf_facts(path: Path) -> ElfFacts:
    """Facts of one file in O(program headers + notes). NotElfError or OSError when it cannot be read as ELF."""
    with _Image(path) as image:
        return ElfFacts(
            bits=image.bits,
            machine=_MACHINES.get(image.machine, f"machine {image.machine}"),
            executable=image.kind == _ET_EXEC or bool(image.dynamic.get(_DT_FLAGS_1, 0) & _DF_1_PIE),
            interpreter=image.interpreter(),
            soname=image.string(image.dynamic[_DT_SONAME]) if _DT_SONAME in image.dynamic else "",
            build_id=next((data.hex() for name, note, data in image.notes() if (name, note) == (b"GNU", _NT_GNU_BUILD_ID)), ""),
            needed=tuple(image.string(value) for tag, value in image.entries if tag == _DT_NEEDED),
            go=any(name == b"Go" for name, _, _ in image.notes()),
        )


def exported(path: Path, names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that the file defines for the dynamic linker; O(1) expected for each name."""
    with _Image(path) as image:
        return frozenset(name for name in names if image.defines(name.encode()))


def own_machine() -> tuple[int, str]:
    """(bits, machine) of the programs this machine's Python is one of, as `ElfFacts` spells them."""
    bits = 64 if sys.maxsize > 2**32 else 32
    machine = platform.machine()
    if bits == 32 and machine in ("x86_64", "i486", "i586", "i686"):
        machine = "i386"
    return bits, {"ppc64le": "ppc64", "riscv64": "riscv", "loongarch64": "loongarch"}.get(machine, machine)


class _Image:
    """A mapped ELF file; every read is checked, so that a truncated file gives NotElfError instead of a traceback."""

    def __init__(self, path: Path):
        self._file = open(path, "rb")
        try:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            self._file.close()
            raise NotElfError("is empty") from None
        try:
            self._read_header()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> _Image:
        return self

    def __exit__(self, *_: object) -> None:
        self._map.close()
        self._file.close()

    def _read_header(self) -> None:
        ident = self._map[:16]
        if ident[:4] != b"\x7fELF" or len(ident) < 16 or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise NotElfError("is not an ELF file")
        self.bits = 32 * ident[4]
        self._order = "<" if ident[5] == 1 else ">"
        self._word = "Q" if self.bits == 64 else "I"
        self.kind, self.machine = self._unpack("HH", 16)
        # e_entry, e_phoff, e_shoff are words; then flags, header size, and size and number of program headers.
        _, table, _, _, _, size, count = self._unpack(f"3{self._word}I3H", 24)
        if count > _MOST_SEGMENTS:
            raise NotElfError(f"is a damaged ELF file: it has {count} segments")
        self._segments = [self._segment(table + i * size) for i in range(count)]
        self.entries = list(self._dynamic())
        self.dynamic = dict(self.entries)

    def _unpack(self, layout: str, at: int) -> tuple[int, ...]:
        if at + struct.calcsize(self._order + layout) > len(self._map):
            raise NotElfError("is a truncated ELF file")
        return struct.unpack_from(self._order + layout, self._map, at)

    def _segment(self, at: int) -> tuple[int, int, int, int]:
        """(type, file offset, address, size in the file) of one program header."""
        if self.bits == 64:
            kind, _, offset, address, _, size = self._unpack("II4Q", at)
        else:
            kind, offset, address, _, size = self._unpack("5I", at)
        return kind, offset, address, size

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        width = struct.calcsize("=" + self._word)
        for kind, offset, _, size in self._segments:
            if kind == _PT_DYNAMIC:
                for at in range(offset, offset + size, 2 * width):
                    tag, value = self._unpack(f"2{self._word}", at)
                    if tag == 0:
                        break
                    yield tag, value
                return  # there is one

    def _offset(self, address: int) -> int:
        for kind, offset, start, size in self._segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise NotElfError("is a damaged ELF file: a table lies outside its segments")

    def _table(self, tag: int) -> int:
        """Where the file has a table that its dynamic section names."""
        if tag not in self.dynamic:
            raise NotElfError("is a damaged ELF file: a table is missing")
        return self._offset(self.dynamic[tag])

    def _text(self, at: int) -> bytes:
        end = self._map.find(b"\0", at, at + _LONGEST_NAME) if at < len(self._map) else -1
        if end < 0:
            raise NotElfError("is a damaged ELF file: a name does not end")
        return self._map[at:end]

    def string(self, index: int) -> str:
        """An entry of the dynamic string table."""
        return self._text(self._table(_DT_STRTAB) + index).decode(errors="replace")

    def interpreter(self) -> str:
        for kind, offset, _, _ in self._segments:
            if kind == _PT_INTERP:
                return self._text(offset).decode(errors="replace")
        return ""

    def notes(self) -> Iterator[tuple[bytes, int, bytes]]:
        """(name of its author, type, data) of each note."""
        left = len(self._map)
        for kind, at, _, size in self._segments:
            left -= size if kind == _PT_NOTE else 0
            if left < 0:
                raise NotElfError("is a damaged ELF file: its notes are larger than the file")
            end = at + size
            while kind == _PT_NOTE and at + 12 <= end:
                name_size, data_size, note = self._unpack("3I", at)
                data = at + 12 + (name_size + 3 & ~3)
                yield self._map[at + 12 : at + 12 + name_size].rstrip(b"\0"), note, self._map[data : data + data_size]
                at = data + (data_size + 3 & ~3)

    def defines(self, name: bytes) -> bool:
        if _DT_GNU_HASH in self.dynamic:
            candidates = self._gnu_chain(name)
        elif _DT_HASH in self.dynamic:
            candidates = self._sysv_chain(name)
        else:
            return False
        return any(self._is_definition(index, name) for index in candidates)

    def _gnu_chain(self, name: bytes) -> Iterator[int]:
        table = self._table(_DT_GNU_HASH)
        buckets, first, bloom, _ = self._unpack("4I", table)
        hashed = 5381
        for byte in name:
            hashed = hashed * 33 + byte & 0xFFFFFFFF
        start = table + 16 + bloom * self.bits // 8
        (index,) = self._unpack("I", start + 4 * (hashed % buckets)) if buckets else (0,)
        while index >= first > 0:
            (link,) = self._unpack("I", start + 4 * (buckets + index - first))
            if link | 1 == hashed | 1:
                yield index
            if link & 1:
                return
            index += 1

    def _sysv_chain(self, name: bytes) -> Iterator[int]:
        table = self._table(_DT_HASH)
        buckets, chains = self._unpack("2I", table)
        self._unpack("I", table + 4 + 4 * (buckets + chains))  # the last of the chains
        hashed = 0
        for byte in name:
            hashed = (hashed << 4) + byte
            high = hashed & 0xF0000000
            hashed = (hashed ^ high >> 24) & ~high & 0xFFFFFFFF
        (index,) = self._unpack("I", table + 8 + 4 * (hashed % buckets)) if buckets else (0,)
        for _ in range(chains):  # a damaged chain may be a circle
            if index == 0:
                return
            yield index
            (index,) = self._unpack("I", table + 8 + 4 * (buckets + index))

    def _is_definition(self, index: int, name: bytes) -> bool:
        table = self._table(_DT_SYMTAB)
        if self.bits == 64:
            text, _, _, section = self._unpack("IBBH", table + 24 * index)
        else:
            text, _, _, _, _, section = self._unpack("3IBBH", table + 16 * index)
        at = self._table(_DT_STRTAB) + text
        return section != 0 and self._map[at : at + len(name) + 1] == name + b"\0"
