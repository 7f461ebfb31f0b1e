# SPDX-License-Identifier: Apache-2.0
"""What native parts and the lab agree on. Made by base/write_shared.py from base/shared.toml."""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import NamedTuple

# A trace begins with it (docs/trace-format.md).
TRACE_MAGIC = "heapyard-trace 1\n"
# A chunk begins with it.
CHUNK_MAGIC = "HYCK"
# A finished trace ends with it.
INDEX_MAGIC = "HYINDEX1"
# Of a trace's file name.
TRACE_SUFFIX = ".hytrace"
# The smallest limit of a trace's size.
LEAST_TRACE_BYTES = 65536
# The longest call chain that is kept.
MOST_FRAMES = 256
# 2^56: an offset in no module from here on is a place of a script, by its number.
SCRIPT_PLACES = 72057594037927936
# The largest mean distance between two samples, as a power of two.
MOST_LOG2_INTERVAL = 40
# Environment: how a program is to be traced, and by which collector.
WISH_VARIABLE = "HEAPYARD_TRACE"
# Environment: who may hand memory to the collector.
TOKEN_VARIABLE = "HEAPYARD_TOKEN"


class TracerMode(IntEnum):
    """What a traced program records."""

    OFF = 0  # nothing any more: the collector has gone
    SAMPLED = 1  # allocations by Poisson's process over bytes; frees of sampled blocks
    EXACT = 2  # every allocation and every free
    PAGES = 3  # page records and spans that a heap takes and gives back


class Resident(IntEnum):
    """What resident memory is that no mapping of the program's own explains; in the order of an account's numbers."""

    ALLOCATOR = 0  # what malloc has from the system
    STACKS = 1  # of threads
    CHANGED = 2  # the program's and its libraries' own data, as far as it was written
    AS_IN_FILES = 3  # the program and its libraries as their files are
    OTHER_FILES = 4  # mapped by nobody who was seen: shared memory, locales
    TRACER = 5  # the tracer's own
    UNKNOWN = 6  # anonymous, and of no other kind
    ROUNDING = 7  # bytes of malloc's blocks beyond those asked for
    HUGE = 8  # of malloc's memory what lies in huge pages; counted already
    LAZY = 9  # given back by MADV_FREE, and still there; counted already


class ChunkKind(StrEnum):
    """What a chunk of a trace holds; a letter in the file."""

    META = "M"  # JSON: what was traced, how
    MODULES = "O"  # files mapped into the program
    SCRIPTS = "P"  # places of scripts: number, line, function, file
    NODES = "N"  # call tree: parent, module, offset
    CHANGES = "C"  # memory of nodes over time
    TOTALS = "T"  # of the whole process over time
    SNAPSHOT = "S"  # exact composition of an instant
    ACCOUNT = "A"  # what the resident memory of an instant is
    CHAINS = "H"  # per chain: allocations over the whole run
    THREADS = "R"  # what each thread allocated
    SIZES = "Z"  # histogram of sizes
    END = "E"  # JSON: how it ended, what was lost
    SYMBOLS = "Y"  # JSON: what addresses mean; added by the lab
    INDEX = "I"  # where the other chunks lie


class ChunkHead(NamedTuple):
    """What stands before a chunk's bytes. raw, stored: bytes before and after compression; crc: CRC-32 of what is
    stored; begin, end: the microseconds that the chunk is about.
    """

    magic: bytes
    kind: bytes
    reserved: bytes
    raw: int
    stored: int
    crc: int
    reserved_too: int
    begin: int
    end: int


CHUNK_HEAD = struct.Struct("<4sc3sIIIIQQ")
