# SPDX-License-Identifier: Apache-2.0
"""Which Debian package a library file came from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_LISTS = Path("/var/lib/dpkg/info")


def owner(file: Path, packages: Iterable[str]) -> str:
    """The one of `packages` that `file` came from, "" if none; reads dpkg's own lists, a few kilobytes each."""
    names = {str(file), str(file).removeprefix("/usr")}  # older packages list /lib where /usr/lib is meant
    for package in packages:
        for listing in sorted(_LISTS.glob(f"{package}*.list")):
            exact = listing.name.removesuffix(".list").split(":")[0] == package
            if exact and not names.isdisjoint(listing.read_text(errors="replace").splitlines()):
                return package
    return ""


def upstream_version(version: str) -> str:
    """Upstream's part of a Debian version: `2.0.9` of `1:2.0.9+ds-2~deb12u1`."""
    return re.sub(r"[+~](ds|dfsg|really).*", "", version.split(":", 1)[-1].rsplit("-", 1)[0])
