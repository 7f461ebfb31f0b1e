# SPDX-License-Identifier: Apache-2.0
"""What can be seen in the words of a server and its load before anything is started: placeholders misspelt, programs not there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from ..model.errors import UsageError

PLACEHOLDERS = ("port", "dir", "rate")
_CLOSE = 0.8  # `prt` and `ports` are near to `port`; `print`, as awk has it, and `part` are not
BUILTINS = frozenset(
    "[ . : alias break cd command continue echo eval exec exit export false getopts hash kill printf pwd read readonly return set "
    "shift test times trap true type ulimit umask unset wait".split()
)
_ENDS = ("|", "||", "&&", ";", "&")  # after these a shell takes the next word for a program
GRAMMAR = frozenset("! { } case do done elif else esac fi for function if in then until while".split())


class LoadError(UsageError):
    """What cannot be carried out: a complaint about the option, or the key of a study, that is called `field`."""

    def __init__(self, field: str, complaint: str, *, remedy: str | None = None):
        super().__init__(f"--{field.replace('_', '-')}: {complaint}", remedy=remedy)
        self.field, self.complaint = field, complaint


def misspelt(words: Iterable[str]) -> str:
    """A complaint about the first that looks like {port} or {dir} and is neither, "" if there is none."""
    for word in words:
        for match in re.finditer(r"(\$?)\{(\w+)\}", word):
            shell, name = match.groups()
            near = _near(name.lower())
            if shell and name in PLACEHOLDERS:
                return f"'{match[0]}' is a variable of the shell; write {{{name}}} without the dollar sign"
            if near and not shell and name not in PLACEHOLDERS:
                return f"'{match[0]}' is replaced by nothing; did you mean {{{near}}}?"
    return ""


def _near(name: str) -> str:
    """The placeholder that was meant, its letters in another order perhaps; "" for none."""
    shuffled = next((known for known in PLACEHOLDERS if sorted(known) == sorted(name)), "")
    return shuffled or next(iter(get_close_matches(name, PLACEHOLDERS, n=1, cutoff=_CLOSE)), "")


def missing_program(line: str) -> str:
    """The first program that a shell line runs and that is not installed, "" if there is none. A line that only a shell
    understands is left to it."""
    for name in _programs(line):
        if re.fullmatch(r"[\w./+-]+", name) and name not in BUILTINS | GRAMMAR and shutil.which(name) is None:
            return name
    return ""


def _programs(line: str) -> Iterator[str]:
    """What the line runs: of a line with grammar, substitutions or a path of its own, the first word alone."""
    words = _split(line)
    alone = not words or set(words) & GRAMMAR or re.search(r"[`()]|\bPATH=|\bcd\b", line)
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
