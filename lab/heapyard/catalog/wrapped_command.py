# SPDX-License-Identifier: Apache-2.0
"""The program that a command runs in the end: behind `env`, `taskset`, `sudo` and the like, and behind `sh -c`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .server_words import BUILTINS, GRAMMAR


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """`valued`: options whose value is the next word. `words`: of its own, before the program. `line`: options that hold a
    line for a shell."""

    valued: str = ""
    words: int = 0
    line: str = ""


_AS_USER = "u g G s w user group supp-group shell whitelist-environment"
# As their manual pages have them; none replaces itself by anything but the command that follows.
_WRAPPERS = {
    "chroot": _Wrapper(words=1),
    "chrt": _Wrapper("T P D sched-runtime sched-period sched-deadline", 1),
    "dumb-init": _Wrapper("r rewrite"),
    "eatmydata": _Wrapper(),
    "env": _Wrapper("u C S unset chdir split-string"),
    "flock": _Wrapper("w E timeout wait conflict-exit-code", 1, "c command"),
    "gosu": _Wrapper(words=1),
    "ionice": _Wrapper("c n class classdata"),
    "nice": _Wrapper("n adjustment"),
    "nohup": _Wrapper(),
    "numactl": _Wrapper("i w p P m N C interleave weighted-interleave preferred preferred-many membind cpunodebind physcpubind"),
    "prlimit": _Wrapper(),
    "runuser": _Wrapper(_AS_USER, line="c command session-command"),
    "setpriv": _Wrapper("ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups securebits pdeathsig "
                        "selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter"),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper("i o e input output error"),
    "su": _Wrapper(_AS_USER, 1, "c command session-command"),
    "sudo": _Wrapper("C D g h p R r t T U u close-from chdir group host prompt chroot role type command-timeout other-user user"),
    "taskset": _Wrapper(words=1),
    "time": _Wrapper("f o format output"),
    "timeout": _Wrapper("k s kill-after signal", 1),
    "tini": _Wrapper("p e"),
}
_SHELLS = frozenset("sh bash dash ash ksh mksh zsh".split())
# In a line with several programs these are not what it is about.
_HELPERS = frozenset("cat chmod chown cp head install ln mkdir mktemp mv rm sed sleep tail tee touch".split())
_SKIPPED = frozenset(("for", "case", "function"))  # what follows them is no program
_ASSIGNMENT = re.compile(r"\w+=")


def program_name(command: Sequence[str]) -> str:
    """The name that answers give to a command: that of the program behind wrappers and a shell, without its folder.

    Of a shell's line it is what `exec` runs, or else the last program that is no helper such as `tee`. Where nothing can be
    found, the command's first word names it. O(length).
    """
    return _behind(command) or Path(command[0]).name


def _behind(command: Sequence[str]) -> str:
    """"" where there is no program, or a variable that only the shell knows."""
    if not command:
        return ""
    name = Path(command[0]).name
    if name in _SHELLS:
        return _of_shell(command[1:]) or name
    if name in _WRAPPERS:
        return _of_wrapper(_WRAPPERS[name], command[1:]) or name
    return name if re.fullmatch(r"[\w.+@:-]+", name) else ""


def _of_wrapper(wrapper: _Wrapper, words: Sequence[str]) -> str:
    """The options, its own words and assignments left out."""
    valued, line, at = wrapper.valued.split(), wrapper.line.split(), 0
    own = wrapper.words
    while at < len(words):
        word = words[at]
        option = _option(word)
        if option in line and at + 1 < len(words):
            return _of_line(words[at + 1], ())
        if option:
            at += 1 + (option in valued)
        elif word in ("-", "--") or _ASSIGNMENT.match(word):
            at += 1
        elif own:
            own, at = own - 1, at + 1
        else:
            return _behind(words[at:])
    return ""


def _option(word: str) -> str:
    """The name of the option that a following word may belong to; `attached` of one that has its value; "" of no option."""
    if not word.startswith("-") or word in ("-", "--"):
        return ""
    if word.startswith("--"):
        return "attached" if "=" in word else word[2:]
    return word[-1] if word[1:].isalpha() else "attached"


def _of_shell(words: Sequence[str]) -> str:
    """Of `-c LINE`, or the name of the script."""
    for at, word in enumerate(words):
        if not word.startswith("-"):
            return Path(word).name
        if not word.startswith("--") and word.endswith("c"):
            return _of_line(words[at + 1], words[at + 2 :]) if at + 1 < len(words) else ""
    return ""


def _of_line(line: str, arguments: Sequence[str]) -> str:
    """`arguments`: what $0, $1, ... are."""
    found = list(_commands(line, arguments))
    executed = [words[1:] for words in found if words[0] == "exec" and len(words) > 1]
    if executed:
        return _behind(executed[0][2:] if executed[0][0] == "-a" else executed[0])
    named = [name for words in found if words[0] not in BUILTINS and (name := _behind(words))]
    return next((name for name in reversed(named) if name not in _HELPERS), named[-1] if named else "")


def _commands(line: str, arguments: Sequence[str]) -> Iterator[list[str]]:
    """The words of each simple command, without redirections, assignments and grammar; none where quotes do not close."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    words: list[str] = []
    aim = False  # the next word is where a redirection goes
    try:
        tokens = [*lexer, ";"]
    except ValueError:
        return
    for token in tokens:
        if set(token) & set("<>") and not set(token) - set("<>&|"):
            aim = True
            if words and words[-1].isdigit():
                words.pop()
        elif not set(token) - set("();|&\n"):
            if words and words[0] not in _SKIPPED:
                yield words
            words, aim = [], False
        elif aim:
            aim = False
        elif words or not (_ASSIGNMENT.match(token) or (token in GRAMMAR and token not in _SKIPPED)):
            words += _expanded(token, arguments)


def _expanded(token: str, arguments: Sequence[str]) -> Sequence[str]:
    if token in ("$@", "$*"):
        return arguments[1:]
    if re.fullmatch(r"\$\d", token) and int(token[1]) < len(arguments):
        return (arguments[int(token[1])],)
    return (token,)
