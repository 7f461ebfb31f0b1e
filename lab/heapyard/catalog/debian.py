# SPDX-License-Identifier: Apache-2.0
"""Packages of Debian and Ubuntu: which are missing, and installing them through apt as root or with sudo.

A package is written as its name, or as alternatives `a|b` of which any one will do (names change between releases).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..model.errors import SetupError

Report = Callable[[str], None]

_INSTALL = ("apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "--yes", "--no-install-recommends")


def missing(packages: Iterable[str]) -> list[str]:
    """Those of `packages` of which no alternative is installed, in order; all if there is no dpkg. One dpkg-query."""
    wanted = list(dict.fromkeys(packages))
    installed = _installed_versions(name for entry in wanted for name in entry.split("|"))
    return [entry for entry in wanted if not any(name in installed for name in entry.split("|"))]


def version(package: str) -> str:
    """Version of the installed package (the first installed of alternatives), "" if it is not installed."""
    names = package.split("|")
    installed = _installed_versions(names)
    return next((installed[name] for name in names if name in installed), "")


def install_command(packages: Iterable[str]) -> str:
    """What a person types to have `packages`: the alternative this release carries, else the first one."""
    found = candidates(packages)
    return "sudo apt-get install --yes " + " ".join(found.get(entry) or entry.split("|")[0] for entry in packages)


def install(packages: Sequence[str], report: Report, *, at_rest: bool = False) -> None:
    """Install those of `packages` that are missing; `report` gets a line per step. What can be had is always installed.

    With `at_rest`, services that come with them are stopped again, and do not start with the system.

    SetupError with the one command to run when neither root nor sudo is at hand; when the release carries no such
    package; or when apt fails (with apt's own reason).
    """
    needed = missing(packages)
    if not needed:
        return
    if not shutil.which("apt-get"):
        raise SetupError(f"this system has no apt; install what Debian calls {_in_words(needed)} by hand")
    privilege = _privilege(needed)
    found = candidates(needed)
    refreshed = len(found) < len(needed)
    if refreshed:
        report("refreshing apt's package index")
        _run([*privilege, "apt-get", "update"])
        found = candidates(needed)
    chosen = list(found.values())
    if chosen:
        report(f"installing with apt: {' '.join(chosen)}")
        failure = _run([*privilege, *_INSTALL, *chosen])
        if failure and not refreshed:  # an index older than the archive names files that are gone
            _run([*privilege, "apt-get", "update"])
            failure = _run([*privilege, *_INSTALL, *chosen])
        if failure:
            raise SetupError(f"apt-get could not install {' '.join(chosen)}: {failure}",
                             remedy=f"Run: {install_command(needed)}")
        if at_rest:
            _lay_to_rest(chosen, privilege)
    absent = [entry for entry in needed if entry not in found]
    if absent:
        raise SetupError(f"this distribution has no package {_in_words(absent)}")


def _lay_to_rest(packages: Sequence[str], privilege: Sequence[str]) -> None:
    """Debian starts a package's service when it is installed; by convention it has the package's name."""
    for name in packages:
        if any(Path(folder, unit).exists() for folder, unit in (("/etc/init.d", name), ("/lib/systemd/system", f"{name}.service"))):
            _run([*privilege, "invoke-rc.d", name, "stop"])
            _run([*privilege, "update-rc.d", name, "disable"])


def _in_words(packages: Iterable[str]) -> str:
    return ", ".join(entry.replace("|", " or ") for entry in packages)


def _installed_versions(names: Iterable[str]) -> dict[str, str]:
    if not shutil.which("dpkg-query"):
        return {}
    query = ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\n", *dict.fromkeys(names)]
    rows = (line.split() for line in _output(query).splitlines())
    return {row[1]: row[2] for row in rows if row[0] == "installed"}  # others may carry no version


def candidates(packages: Iterable[str]) -> dict[str, str]:
    """By entry, the first alternative apt's index can install; entries without one are left out."""
    entries = list(packages)
    names = [name for entry in entries for name in entry.split("|")]
    if not shutil.which("apt-cache") or not names:
        return {}
    policy = _output(["apt-cache", "policy", *dict.fromkeys(names)])
    exist = {m[1] for m in re.finditer(r"^(\S+):\n(?:  .*\n)*?  Candidate: (?!\(none\))", policy, re.MULTILINE)}
    found = {entry: next((name for name in entry.split("|") if name in exist), "") for entry in entries}
    return {entry: name for entry, name in found.items() if name}


def _privilege(needed: Sequence[str]) -> list[str]:
    """What makes a command run as root; may ask for sudo's password on a terminal."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True).returncode == 0:
        return [sudo]
    if sudo and sys.stdin.isatty() and sys.stderr.isatty() and subprocess.run([sudo, "-v"]).returncode == 0:
        return [sudo]
    raise SetupError(f"only an administrator can install {_in_words(needed)}", remedy=f"Run: {install_command(needed)}")


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def _output(command: list[str]) -> str:
    # dpkg-query exits 1 when one of several names is unknown and still lists the others.
    return subprocess.run(command, capture_output=True, text=True, env=_environment()).stdout


def _run(command: list[str]) -> str:
    """Run one apt command; "" if it succeeded, else its reason in one line."""
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"]
    split = 1 if command[0].endswith("sudo") else 0
    done = subprocess.run([*command[:split], *quiet, *command[split:]], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment())
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E:")]
    return (errors or lines or [f"exit code {done.returncode}"])[-1]
