# SPDX-License-Identifier: Apache-2.0
"""The environment that puts a program under an allocator, and the lines that set it for good in the places people have."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from .allocator import Allocator

_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@-]*")
_DEBIAN = re.compile(r"Debian (\S+) \S+")
IN_AN_IMAGE = "/usr/local/lib"


@dataclass(frozen=True, slots=True)
class Way:
    """One place that can set an environment. `lines` are pasted as they are; `place` and `undo` are sentences without a stop."""

    place: str
    lines: tuple[str, ...]
    undo: str


def environment_of(allocator: Allocator) -> dict[str, str]:
    """Variables that put a program under it. The libc that a program is linked with needs no preload, only its settings."""
    linked = allocator.library is None or allocator.base == "glibc"
    return ({} if linked else {"LD_PRELOAD": str(allocator.library)}) | allocator.env


def shell_words(environment: Mapping[str, str]) -> str:
    """`NAME=VALUE ...`, to be put before a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())


def ways(environment: Mapping[str, str], provenance: str = "") -> list[Way]:
    """The lines for a shell, systemd, a Dockerfile and Kubernetes. `provenance` as in Allocator: of a package of Debian's, the
    image installs the same one; any other library is copied into it. O(variables)."""
    image, first = _in_an_image(environment, provenance)
    return [
        Way("One command in a shell", (f"{shell_words(environment)} COMMAND",), "nothing is needed, for it ends with the command"),
        Way("A service of systemd (systemctl edit NAME, paste, systemctl restart NAME)",
            ("[Service]", *(f"Environment={_systemd(name, value)}" for name, value in environment.items())),
            "systemctl revert NAME (it takes your other changes too), then systemctl restart NAME"),
        Way("A Dockerfile, after its last FROM (an image with glibc, not Alpine)",
            (*first, *(f"ENV {name}={_docker(value)}" for name, value in image.items())),
            "take the lines out, and build again"),
        Way("Kubernetes (of the container, whose image holds the library)",
            ("env:", *(line for name, value in image.items() for line in (f"- name: {name}", f"  value: {json.dumps(value)}"))),
            "take the lines out, and apply again"),
    ]


def paste_lines(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """(place, line) for each variable, place by place: settings alone, for a program that has its library already."""
    return [
        *(("systemd", f"Environment={_systemd(name, value)}") for name, value in environment.items()),
        *(("Dockerfile", f"ENV {name}={_docker(value)}") for name, value in environment.items()),
        *(("Kubernetes", f"- {{name: {name}, value: {json.dumps(value)}}}") for name, value in environment.items()),
        *(("shell", f"export {name}={shlex.quote(value)}") for name, value in environment.items()),
    ]


NOT_FOR_ALL = (
    "Not /etc/ld.so.preload: it changes every process of the machine, gives no settings, and one bad library leaves no shell "
    "to repair it with"
)


def _in_an_image(environment: Mapping[str, str], provenance: str) -> tuple[dict[str, str], list[str]]:
    """The environment as it is in an image, and the lines that bring the library there."""
    library = environment.get("LD_PRELOAD")
    if library is None:
        return dict(environment), []
    if package := _DEBIAN.fullmatch(provenance):
        return dict(environment), [f"RUN apt-get update && apt-get install -y {package[1]}"]
    name = library.rsplit("/", 1)[-1]
    copied = f"{IN_AN_IMAGE}/{name}"
    return dict(environment) | {"LD_PRELOAD": copied}, [f"# Beside this file: a copy of {library}", f"COPY {name} {copied}"]


def _systemd(name: str, value: str) -> str:
    """systemd.exec(5): `%` begins a specifier, and a value with blanks or quotes stands in double quotes with C's escapes."""
    text = f"{name}={value}".replace("%", "%%")
    if _PLAIN.fullmatch(text.replace("%", "")):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _docker(value: str) -> str:
    """A Dockerfile replaces $NAME in values, unless a backslash stands before it."""
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
