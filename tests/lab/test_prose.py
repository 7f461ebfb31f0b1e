# SPDX-License-Identifier: Apache-2.0
"""No sentence of a document is so long that a reader loses its beginning. Tables, code and lists of literature are exempt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_documents import pages

MOST_WORDS = 30
APART = re.compile(r"^(?: {4,}\S.*|\s*\|.*|#.*|!\[.*|<!--.*)$")  # code, tables, headings, pictures, marks
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")


def paragraphs(text: str) -> Iterator[str]:
    """Running text and items of lists, each as one line."""
    text = re.sub(r"<!-- measured: begin -->.*?<!-- measured: end -->", "", text, flags=re.DOTALL)  # a command's words
    text = re.sub(r"```.*?```", "", text.partition("\n## Literature")[0], flags=re.DOTALL)
    parts: list[str] = []
    in_item = False
    for line in [*text.splitlines(), ""]:
        item = ITEM.match(line)
        if item or not line.strip() or (APART.match(line) and not (in_item and line.startswith("    "))):
            yield " ".join(parts)
            parts = []
        in_item = bool(item) or (in_item and line.startswith(" "))
        if item or in_item or not APART.match(line):
            parts.append(ITEM.sub("", line).strip())
    yield " ".join(parts)


def sentences(text: str) -> Iterator[str]:
    for paragraph in paragraphs(text):
        plain = re.sub(r"`[^`]*`", "CODE", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph))
        yield from re.split(r"(?<=[.!?])[\"')*]*\s+|(?<=:)\s+(?=[A-Z*])", plain)


def words_of(sentence: str) -> int:
    """Words; a row of links counts as so many sentences."""
    return max(sum(1 for word in part.split() if re.search(r"\w", word)) for part in sentence.split("·"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_sentence_is_too_long(page: Path) -> None:
    assert [told for told in sentences(page.read_text()) if words_of(told) > MOST_WORDS] == []


def test_long_sentences_are_found_wherever_they_stand() -> None:
    long = "word " * 40 + "end."
    for text in (long, f"- {long}", f"1. {long}", f"Short. {long} Short.", "Two lines\n" + long, f"- item\n  {long}"):
        assert [words_of(told) for told in sentences(text) if words_of(told) > MOST_WORDS], text
    for text in (f"| {long} |", f"```\n{long}\n```", f"text\n\n    {long}\n", f"## Literature\n\n- {long}"):
        assert not [told for told in sentences("\n" + text) if words_of(told) > MOST_WORDS], text
