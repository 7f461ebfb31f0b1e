# SPDX-License-Identifier: Apache-2.0
"""The trace file as a sequence of chunks (docs/trace-format.md). Reads what is whole; a file cut off anywhere opens."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import UsageError
from ..model.shared import CHUNK_HEAD, CHUNK_MAGIC, INDEX_MAGIC, TRACE_MAGIC, ChunkHead, ChunkKind

if TYPE_CHECKING:
    import numpy as np

MAGIC = TRACE_MAGIC.encode()
_INDEX = INDEX_MAGIC.encode()
_TAIL = 8 + len(_INDEX)  # what follows the index: its place, and that
_MOST = 1 << 28  # bytes of a chunk; a collector's have a few MiB
_LONGEST = 10  # bytes of a number: 64 bits, seven a byte


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: its kind (a letter), its bytes, and the microseconds it is about."""

    kind: str
    data: bytes
    begin: int
    end: int


def chunks_of(path: Path) -> tuple[list[Chunk], bool]:
    """Every whole chunk, and whether the file was finished. O(bytes).

    UsageError when it is no trace, and when one that was finished is not as it was written: checksums and index tell.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not data.startswith(MAGIC):
        raise UsageError(f"{path} is not a trace of heapyard profile")
    found: list[Chunk] = []
    places: list[int] = []
    end = len(MAGIC)
    for at, head, body in _whole(data):
        content = _decompressed(head, body)
        if content is None:
            break
        found.append(Chunk(head.kind.decode("ascii", "replace"), content, head.begin, head.end))
        places += (head.kind[0], at, head.begin, head.end)
        end = at + CHUNK_HEAD.size + head.stored
    if not data.endswith(_INDEX):
        return found, False
    if end != len(data) - _TAIL or not _as_indexed(found, places):
        raise UsageError(f"{path}: is damaged, at byte {end} or before: a checksum or its index says so")
    return found, True


def _as_indexed(found: Sequence[Chunk], places: Sequence[int]) -> bool:
    """Whether the index at the end tells of the chunks before it, each with its kind, place and times.

    That of a file which was cut off may tell of the symbols alone, which were added later.
    """
    try:
        index = numbers(found[-1].data).tolist()
    except (IndexError, ValueError):
        return False
    before = list(places[:-4])
    return found[-1].kind == ChunkKind.INDEX and (index == before or (
        before[-4:] == index and not any(chunk.kind == ChunkKind.END for chunk in found)))


def _decompressed(head: ChunkHead, body: bytes) -> bytes | None:
    """What a chunk holds; None when it is not of the length that the head tells. Takes no more memory than that."""
    import zstandard

    if head.raw > _MOST:
        return None
    try:
        told = zstandard.frame_content_size(body)
        if told not in (head.raw, -1):
            return None
        content = zstandard.ZstdDecompressor().decompress(body, max_output_size=head.raw) if head.raw else b""
    except zstandard.ZstdError:
        return None
    return content if len(content) == head.raw else None


def _whole(data: bytes) -> Iterator[tuple[int, ChunkHead, bytes]]:
    """(place, head, what is stored) of each chunk, up to the first that was cut off or is not what its checksum says."""
    at = len(MAGIC)
    while at + CHUNK_HEAD.size <= len(data):
        head = ChunkHead._make(CHUNK_HEAD.unpack_from(data, at))
        body = data[at + CHUNK_HEAD.size : at + CHUNK_HEAD.size + head.stored]
        if head.magic != CHUNK_MAGIC.encode() or len(body) < head.stored or zlib.crc32(body) != head.crc:
            return
        yield at, head, body
        at += CHUNK_HEAD.size + head.stored


def append_symbols(path: Path, symbols: Any) -> None:
    """Adds what addresses mean to a trace: before its index, which is written anew."""
    data = path.read_bytes()
    index, place = b"", len(MAGIC)
    for at, head, _ in _whole(data):
        if head.kind == ChunkKind.INDEX.encode():
            break
        index += b"".join(map(_varint, (head.kind[0], at, head.begin, head.end)))
        place = at + CHUNK_HEAD.size + head.stored
    kept = data[:place] + _chunk(ChunkKind.SYMBOLS, json.dumps(symbols, separators=(",", ":")).encode())
    index += b"".join(map(_varint, (ord(ChunkKind.SYMBOLS), place, 0, 0)))
    offset = len(kept)
    kept += _chunk(ChunkKind.INDEX, index) + struct.pack("<Q", offset) + _INDEX
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(kept)
    os.replace(partial, path)


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
    """Base-128 numbers, all of them: uint64. ValueError when the last is cut off, or one has more than 64 bits.

    O(bytes), without a loop over numbers.
    """
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > _LONGEST or (len(raw) and raw[-1] >= 0x80) or (longest == _LONGEST and raw[ends[lengths == _LONGEST]].max() > 1):
        raise ValueError("a number is cut off or too long")
    values = np.zeros(len(ends), np.uint64)
    for place in range(longest):
        longer = lengths > place
        values[longer] |= (raw[starts[longer] + place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return values


def signed(values: np.ndarray) -> np.ndarray:
    """Zigzag numbers as int64."""
    import numpy as np

    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


class Fields:
    """Numbers and texts one after the other, where a chunk mixes them. O(1) each. ValueError beyond the end."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def more(self) -> bool:
        return self.at < len(self.data)

    def number(self) -> int:
        value = shift = 0
        for byte in self.data[self.at : self.at + _LONGEST]:
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 and value < 1 << 64:
                return value
        raise ValueError("a number is cut off or too long")

    def text(self) -> str:
        length = self.number()
        if length > len(self.data) - self.at:
            raise ValueError("a text is cut off")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def rest(self) -> bytes:
        return self.data[self.at :]
