"""Debian's packages: which are installed, in which version, and installing one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


def installed_packages(packages: Iterable[str]) -> dict[str, str]:
    """Version of each of `packages` that is installed; one launch of dpkg-query, {} where there is none."""
    if not shutil.which("dpkg-query"):
        return {}
    fields = "${Package} ${db:Status-Status} ${Version}\n"
    done = subprocess.run(["dpkg-query", "-W", "-f", fields, *packages], capture_output=True, text=True, check=False)
    rows = (line.split(" ") for line in done.stdout.splitlines())
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


def owner(file: Path, packages: Iterable[str]) -> str:
    """The one of `packages` that `file` came from, "" if none; reads dpkg's own lists, a few kilobytes each."""
    names = {str(file), str(file).removeprefix("/usr")}  # older packages list /lib where /usr/lib is meant
    for package in packages:
        for listing in sorted(Path("/var/lib/dpkg/info").glob(f"{package}*.list")):
            exact = listing.name.removesuffix(".list").split(":")[0] == package
            if exact and not names.isdisjoint(listing.read_text(errors="replace").splitlines()):
                return package
    return ""


def upstream_version(version: str) -> str:
    """Upstream's part of a Debian version: `5.3.0` of `1:5.3.0+ds-1~deb12u1`."""
    return re.sub(r"[+~](ds|dfsg|really).*", "", version.split(":", 1)[-1].rsplit("-", 1)[0])


def has_apt() -> bool:
    return shutil.which("apt-get") is not None


def administrator() -> list[str] | None:
    """What to put before a command that needs root: nothing, sudo, or None when we may not (sudo would ask for a password)."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0:
        return [sudo, "-n"]
    return None


def install_command(packages: Iterable[str]) -> list[str]:
    """The apt-get command that installs `packages`, without the word that makes it run as root."""
    return ["apt-get", "install", "-y", "--no-install-recommends", *packages]


def choose_package(alternatives: Iterable[str]) -> str:
    """The first of `alternatives` that the machine's package lists carry, "" if none. Takes about 0.3 s."""
    for package in alternatives:
        done = subprocess.run(["apt-cache", "show", "--no-all-versions", package], capture_output=True, check=False)
        if done.returncode == 0 and done.stdout:
            return package
    return ""


def install_package(alternatives: tuple[str, ...]) -> str:
    """Install the first available alternative as root or through sudo. Returns "" or, in words, why it failed."""
    prefix = administrator()
    if prefix is None:
        return f"needs root; run: sudo {' '.join(install_command(alternatives[:1]))}"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    package = choose_package(alternatives)
    if not package:  # perhaps the lists were never fetched
        subprocess.run([*prefix, "apt-get", "update", "-qq"], capture_output=True, env=env, check=False)
        package = choose_package(alternatives)
    if not package:
        return f"this distribution has no package {' or '.join(alternatives)}"
    done = subprocess.run([*prefix, *install_command([package])], capture_output=True, text=True, env=env, check=False)
    if done.returncode == 0:
        return ""
    complaints = [line for line in done.stderr.splitlines() if line.startswith("E:")] or done.stderr.splitlines()[-1:]
    return f"apt-get could not install {package}: {' '.join(complaints)}"
