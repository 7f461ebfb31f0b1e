# SPDX-License-Identifier: Apache-2.0
"""The account of a trace, by what the bytes of its chunk say."""

from __future__ import annotations

from heapyard.model.shared import ChunkKind
from heapyard.profile.account import account_of
from heapyard.profile.chunks import Chunk


def chunk_of(*numbers: int) -> Chunk:
    """All below 128, so that a byte is a number."""
    return Chunk(ChunkKind.ACCOUNT, bytes(numbers), 2_000_000, 2_000_000)


HEAD = (10, 60, 5, 1, 2, 11, 12)  # live, resident, shared, swapped; two parts


def test_an_account_of_the_first_format_has_no_kinds_of_mappings() -> None:
    account = account_of(chunk_of(*HEAD, 3, 40, 50, 1, 4, 8, 9, 2), 1)
    assert account.time == 2 and (account.live, account.shared, account.swapped) == (10, 5, 1)
    assert account.nodes.tolist() == [3, 4] and account.mapped_resident.tolist() == [40, 8]
    assert account.pieces.tolist() == [1, 2] and account.mapped_as.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_an_account_tells_what_of_mappings_is_shared_huge_or_swapped() -> None:
    account = account_of(chunk_of(*HEAD, 3, 40, 50, 1, 7, 20, 6), 2)
    assert account.nodes.tolist() == [3] and account.mapped_as.tolist() == [[7, 20, 6]]
    shown = account.of_mappings().mapped_as
    assert shown is not None and shown.tolist() == [[7, 20, 6]]
