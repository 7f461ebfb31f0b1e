# SPDX-License-Identifier: Apache-2.0
"""The trace file as a sequence of chunks (docs/trace-format.md). Reads what is whole; a file cut off anywhere opens."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from ..model.shared import CHUNK_HEAD, CHUNK_MAGIC, INDEX_MAGIC, TRACE_MAGIC, ChunkHead, ChunkKind

if TYPE_CHECKING:
    import numpy as np

MAGIC = TRACE_MAGIC.encode()
_INDEX = INDEX_MAGIC.encode()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: its kind (a letter), its bytes, and the microseconds it is about."""

    kind: str
    data: bytes
    begin: int
    end: int


def chunks_of(path: Path) -> tuple[list[Chunk], bool]:
    """Every whole chunk, and whether the file was finished. UsageError when it is no trace. O(bytes)."""
    import zstandard

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not data.startswith(MAGIC):
        raise UsageError(f"{path} is not a trace of heapyard profile")
    found: list[Chunk] = []
    decompressor = zstandard.ZstdDecompressor()
    for kind, raw, body, crc, begin, end in _bodies(data):
        if zlib.crc32(body) != crc:
            return found, False
        try:
            found.append(Chunk(kind, decompressor.decompress(body, max_output_size=raw) if raw else b"", begin, end))
        except zstandard.ZstdError:
            return found, False
    return found, data.endswith(_INDEX)


def _bodies(data: bytes) -> Iterator[tuple[str, int, bytes, int, int, int]]:
    at = len(MAGIC)
    while at + CHUNK_HEAD.size <= len(data):
        head = ChunkHead._make(CHUNK_HEAD.unpack_from(data, at))
        if head.magic != CHUNK_MAGIC.encode() or at + CHUNK_HEAD.size + head.stored > len(data):
            return
        body = data[at + CHUNK_HEAD.size : at + CHUNK_HEAD.size + head.stored]
        yield head.kind.decode("ascii", "replace"), head.raw, body, head.crc, head.begin, head.end
        at += CHUNK_HEAD.size + head.stored


def append_symbols(path: Path, symbols: Any) -> None:
    """Adds what addresses mean to a finished trace: before the index, which is written anew."""
    import zstandard

    data = path.read_bytes()
    if not data.endswith(_INDEX):
        kept = data[: _whole(data)]
        index = b""
    else:
        (offset,) = struct.unpack_from("<Q", data, len(data) - 16)
        kept, index = data[:offset], zstandard.ZstdDecompressor().decompress(
            data[offset + CHUNK_HEAD.size : -16], max_output_size=1 << 30
        )
    place = len(kept)
    kept += _chunk(ChunkKind.SYMBOLS, json.dumps(symbols, separators=(",", ":")).encode())
    index += b"".join(_varint(value) for value in (ord(ChunkKind.SYMBOLS), place, 0, 0))
    offset = len(kept)
    kept += _chunk(ChunkKind.INDEX, index) + struct.pack("<Q", offset) + _INDEX
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(kept)
    os.replace(partial, path)


def _whole(data: bytes) -> int:
    return len(MAGIC) + sum(CHUNK_HEAD.size + len(body) for _, _, body, crc, _, _ in _bodies(data) if zlib.crc32(body) == crc)


def _chunk(kind: str, raw: bytes) -> bytes:
    import zstandard

    body = zstandard.ZstdCompressor(level=9).compress(raw)
    head = ChunkHead(CHUNK_MAGIC.encode(), kind.encode(), b"", len(raw), len(body), zlib.crc32(body), 0, 0, 0)
    return CHUNK_HEAD.pack(*head) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def numbers(data: bytes) -> np.ndarray:
    """Base-128 numbers, all of them: uint64. O(bytes), without a loop over numbers."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        values[longer] |= (raw[starts[longer] + place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return values


def signed(values: np.ndarray) -> np.ndarray:
    """Zigzag numbers as int64."""
    import numpy as np

    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


class Fields:
    """Numbers and texts one after the other, where a chunk mixes them. O(1) each."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def more(self) -> bool:
        return self.at < len(self.data)

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        length = self.number()
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def rest(self) -> bytes:
        return self.data[self.at :]
