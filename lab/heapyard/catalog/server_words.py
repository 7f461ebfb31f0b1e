# SPDX-License-Identifier: Apache-2.0
"""What can be seen in the words of a server and its load before anything is started: placeholders misspelt, programs not there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ..model.errors import UsageError

PLACEHOLDERS = ("port", "dir")
_CLOSE = 0.8  # `prt` and `ports` are near to `port`; `print`, as awk has it, and `part` are not
_BUILTINS = frozenset(
    "[ . : alias break cd command continue echo eval exec exit export false getopts hash kill printf pwd read readonly return set "
    "shift test times trap true type ulimit umask unset wait".split()
)
_ENDS = ("|", "||", "&&", ";", "&")  # after these a shell takes the next word for a program
_GRAMMAR = frozenset("! { } case do done elif else esac fi for function if in then until while".split())


def check_placeholders(option: str, words: Iterable[str]) -> None:
    """UsageError for what looks like {port} or {dir} and is neither. `option`: where the words stand."""
    for word in words:
        for match in re.finditer(r"(\$?)\{(\w+)\}", word):
            shell, name = match.groups()
            near = _near(name.lower())
            if shell and name in PLACEHOLDERS:
                raise UsageError(f"{option}: '{match[0]}' is a variable of the shell; write {{{name}}} without the dollar sign")
            if near and not shell and name not in PLACEHOLDERS:
                raise UsageError(f"{option}: '{match[0]}' is replaced by nothing; did you mean {{{near}}}?")


def _near(name: str) -> str:
    """The placeholder that was meant, its letters in another order perhaps; "" for none."""
    shuffled = next((known for known in PLACEHOLDERS if sorted(known) == sorted(name)), "")
    return shuffled or next(iter(get_close_matches(name, PLACEHOLDERS, n=1, cutoff=_CLOSE)), "")


def check_programs(option: str, line: str) -> None:
    """UsageError for a shell line that is empty, or runs a program that is not installed. A line that only a shell understands
    is left to it."""
    if not line.split():
        raise UsageError(f"{option} is empty; it must be a command")
    for name in _programs(line):
        if re.fullmatch(r"[\w./+-]+", name) and name not in _BUILTINS | _GRAMMAR and shutil.which(name) is None:
            raise UsageError(f"{option}: there is no program '{name}'", remedy="Install it, or give the path of it.")


def _programs(line: str) -> Iterator[str]:
    """What the line runs: of a line with grammar, substitutions or a path of its own, the first word alone."""
    words = _split(line)
    alone = not words or set(words) & _GRAMMAR or re.search(r"[`()]|\bPATH=|\bcd\b", line)
    expected = True
    for word in line.split()[:1] if alone else words:
        if word in _ENDS:
            expected = True
        elif expected and not re.match(r"\w+=", word):
            yield word
            expected = False


def _split(line: str) -> Sequence[str]:
    """Words and operators; none where quotes do not close."""
    try:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        return list(words)
    except ValueError:
        return ()
