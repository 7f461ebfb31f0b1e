# SPDX-License-Identifier: Apache-2.0
"""Documents name what is there: an index without gaps, links that lead somewhere, paths that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
KIT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = ("base", "heap", "lab", "mutators", "peers", "programs", "setup", "soak", "studies", "tests", "tracer")
PATH = re.compile(rf"`((?:{'|'.join(ROOMS)})/[\w./-]*)`")


def pages() -> list[Path]:
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in KIT)]


def broken_links(page: Path, text: str) -> list[str]:
    """Links of a page to files or headings that are not there; addresses of the web are not followed."""
    return [target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target) and not leads_somewhere(page, target)]


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    file = page.parent / name if name else page
    return file.exists() and (not anchor or anchor in anchors(file.read_text()))


def anchors(text: str) -> set[str]:
    """Those of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def absent(text: str) -> list[str]:
    """Paths in backticks that the checkout has not, and that no example on the page makes."""
    made = re.findall(r" >(\S+)", text)
    return [path for path in PATH.findall(text) if path not in made and not (ROOT / path).exists()]


def test_the_index_lists_every_page_once() -> None:
    listed = [target for target in LINK.findall((DOCS / "README.md").read_text()) if not target.startswith("..")]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != DOCS / "README.md")


def test_links_lead_somewhere() -> None:
    broken = {page.name: found for page in pages() if (found := broken_links(page, page.read_text()))}
    assert broken == {}


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    text = page.read_text()
    assert len(PATH.findall(text)) > 10
    assert absent(text) == []


def test_the_picture_names_every_room_of_the_lab_in_the_order_of_imports() -> None:
    from test_imports import ORDER

    picture = (DOCS / "architecture.md").read_text().split("```")[1]
    assert [word for word in re.findall(r"\w+", picture.split("lab/heapyard")[1]) if word in ORDER][: len(ORDER)] == list(ORDER)


def test_the_glossary_explains_each_word_once_and_all_it_refers_to() -> None:
    text = (DOCS / "glossary.md").read_text()
    sections = [re.findall(r"^\| ([^|]+?) \|", part, re.MULTILINE)[1:] for part in text.split("\n## ")[1:]]
    known = [word for words in sections for entry in words for word in re.split(r", (?!or )", entry)]
    assert len(known) > 50
    assert {word for words in sections for word in words if words.count(word) > 1} == set()
    referred = set(re.findall(r"\*([\w ]+?)\*", text)) - {"italics"}
    assert {word for word in referred if word not in known and word.removesuffix("s") not in known} == set()


def test_the_law_sees_what_is_not_there() -> None:
    page = DOCS / "README.md"
    text = "[a](nothing.md) [b](guide.md#x) [c](https://example.net/x) [d](guide.md#study-files)"
    assert broken_links(page, text) == ["nothing.md", "guide.md#x"]
    assert absent("    cat >heap/made.hpp\n`heap/made.hpp`, `heap/nothing.hpp` and `heap/os/pages.hpp`") == ["heap/nothing.hpp"]


def test_the_change_log_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = re.search(r'__version__ = "(.+)"', (ROOT / "lab" / "heapyard" / "__init__.py").read_text())
    assert version and headings[0] == version[1]


def test_contributing_names_what_the_test_command_offers() -> None:
    told = subprocess.run([ROOT / "heapyard", "test", "--help"], capture_output=True, text=True, check=True).stdout
    text = (ROOT / "CONTRIBUTING.md").read_text()
    areas = re.search(r"only the tests of: (.+)", told)
    assert areas and all(f"./heapyard test {area}" in text for area in areas[1].split())
    assert "./heapyard test --quick" in text
