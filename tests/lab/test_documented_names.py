# SPDX-License-Identifier: Apache-2.0
"""Names in documents are names in the tree: files, identifiers, options, verbs, heaps and cases of `check`.

A name that only a comment mentions does not count: the code may have lost it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from test_documents import ROOT, pages
from test_house import tracked, text_of

from heapyard.cli.main import cli

# Names of others, which documents mention and no code of ours uses.
OF_OTHERS = {"MAP_HUGETLB", "bash_source", "fish_source", "getSize", "perf_event_open", "zsh_source"}
FILE = re.compile(r"[\w./+-]+\.(?:hpp|cpp|py|c|S|js|sql|gp|in)")
NAME = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
HEAP = re.compile(r"(?:bfm|scalloc|elfmalloc)-[a-z0-9-]+")
GROUPS = "conformance|c\\+\\+|process|stress|limits|memory|system|latency|detection"
CASE = re.compile(rf"({GROUPS})/([a-z-]+)")
OPTION = re.compile(r"--[a-z][a-z0-9-]+")
COMMENT = {**dict.fromkeys((".cpp", ".hpp", ".c", ".S", ".js"), r"//.*"), ".py": r"#.*"}


@cache
def sources() -> dict[Path, str]:
    """Every tracked file but documents and this one, without comments to the end of a line."""
    kept = (path for path in tracked() if path.suffix != ".md" and ROOT / "docs" not in path.parents and path != Path(__file__))
    found = {path: text_of(path) for path in kept}
    return {path: re.sub(COMMENT.get(path.suffix, r"(?!)"), "", text) for path, text in found.items()}


@cache
def words() -> set[str]:
    return {word for text in sources().values() for word in re.findall(r"[A-Za-z_]\w*", text.replace("\\n", " "))}


@cache
def path_ends() -> set[str]:
    """`heap/os/pages.hpp`, `os/pages.hpp` and `pages.hpp` of each file."""
    parts = (path.relative_to(ROOT).parts for path in tracked())
    return {"/".join(names[i:]) for names in parts for i in range(len(names))}


@cache
def options() -> set[str]:
    """Options that some source names, those of mutators among them: {'n', "threads", ...}."""
    native = re.compile(r"\{(?:'.'|0), \"([a-z0-9-]+)\"")
    found = {option for text in sources().values() for option in OPTION.findall(text)}
    return found | {f"--{name}" for path, text in sources().items() if path.suffix in COMMENT for name in native.findall(text)}


def is_there(token: str) -> bool:
    """Whether what looks like a name of ours is one; a token that does not look like one is there as well."""
    if FILE.fullmatch(token):
        return token in path_ends()
    if option := OPTION.match(token):
        return option[0] in options()
    if HEAP.fullmatch(token):
        return f"add_heap({token} " in sources()[ROOT / "heap" / "CMakeLists.txt"]
    if case := CASE.fullmatch(token):
        native = (text for path, text in sources().items() if path.is_relative_to(ROOT / "lab" / "native" / "check"))
        return any(f'{{"{case[1]}", "{case[2]}"' in text for text in native)
    if NAME.fullmatch(token) and ("_" in token or re.search(r"[a-z0-9][A-Z]", token)):
        return all(word in words() or word in OF_OTHERS for word in token.split("::"))
    return True


def absent_names(text: str) -> list[str]:
    """Names in backticks, outside of blocks of code, that the tree has not."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    tokens = (word.strip(".,;:()<>\"'") for span in spans for word in re.split(r"[\s,;=]+", span))
    return sorted({token for token in tokens if not is_there(token)})


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_names_exist(page: Path) -> None:
    assert absent_names(page.read_text()) == []


@pytest.mark.parametrize(
    "gone",
    ["`LocalCache`", "`heap/os/nothing.hpp`", "`nothing.py`", "`compare --never-written 3`", "`scalloc-no-such`",
     "`limits/no-such`", "`no_such_call()`", "`kit::NoSuchClass`"],
)  # fmt: skip
def test_a_name_that_is_gone_is_found(gone: str) -> None:
    assert len(absent_names(f"The page names {gone}.")) == 1


# Command lines --------------------------------------------------------------------------------------------------------


def command_lines(text: str) -> Iterator[list[str]]:
    """The words after `heapyard`, up to a comment, a pipe, or the command of the user after --; not a row of a table, and not
    what stands in quotes, such as a load."""
    for code in re.findall(r"(?:^    .*$|`[^`\n]+`|^(?:HEAPYARD_\w+=\S+ )*(?:\./)?heapyard .*$)", text, re.MULTILINE):
        for line in re.findall(r"(?:^|[\s`/])heapyard (?! )([^#`|]+)", code):
            yield re.sub(r"'[^']*(?:'|$)", "...", line).split(" -- ")[0].removesuffix(" --").split()


def fault(command: list[str]) -> str | None:
    """What a command line has that the command line of Heapyard has not."""
    if not command or not re.fullmatch(r"[a-z]+", command[0]) or command[0] == "test":
        return None
    group: click.Command = cli
    known = {"--help"} | {option for param in cli.params for option in param.opts}
    rest = list(command)
    while rest and isinstance(group, click.Group) and re.fullmatch(r"[a-z]+", rest[0]):
        inner = group.get_command(click.Context(group), rest[0])
        if inner is None:
            return f"no {rest[0]}"
        group, rest = inner, rest[1:]
        known |= {option for param in group.params for option in (*param.opts, *param.secondary_opts)}
    wrong = [word for word in rest if word.startswith("--") and OPTION.fullmatch(word) and word not in known]
    return f"{' '.join(command)}: {wrong}" if wrong else None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_command_lines_are_ours(page: Path) -> None:
    assert [found for line in command_lines(page.read_text()) if (found := fault(line))] == []


def test_command_lines_are_found_and_judged() -> None:
    told = [line for page in pages() for line in command_lines(page.read_text())]
    assert len(told) > 100 and {line[0] for line in told if line} >= {"compare", "run", "profile", "check", "doctor"}
    text = "    ./heapyard compare --no-such 3 -- jq --mine\n`heapyard nosuch`\n`heapyard profile show --at end`\nheapyard   none\n"
    assert [fault(line) for line in command_lines(text)] == ["compare --no-such 3: ['--no-such']", "no nosuch", None]
