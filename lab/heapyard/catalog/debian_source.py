# SPDX-License-Identifier: Apache-2.0
"""Source packages of Debian and Ubuntu, as apt verifies them, without a change of the system and without root.

Many systems list binary packages only. apt is given lists of its own, in which each archive of the system offers sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ..model.errors import SetupError

APT = Path("/etc/apt")


def fetch_source(package: str, folder: Path, report: Callable[[str], None]) -> str:
    """Unpacks the newest sources of `package`, with Debian's changes, into `folder`, new; their version.

    SetupError with apt's reason if that fails. `report` gets a line per step. Some 10 MB of lists.
    """
    for tool in ("apt-get", "dpkg-source"):
        if not shutil.which(tool):
            raise SetupError(f"the sources of {package} come by {tool}, which is not here", remedy="Install dpkg-dev and apt.")
    work = folder.with_name(f".unfinished-{folder.name}")
    shutil.rmtree(work, ignore_errors=True)
    lists = work / "sources"
    for path in (lists, work / "lists" / "partial", work / "cache" / "archives" / "partial", work / "got"):
        path.mkdir(parents=True)
    for file in [APT / "sources.list", *(APT / "sources.list.d").glob("*")]:
        if file.is_file() and file.suffix in (".list", ".sources"):
            (lists / file.name).write_text(source_entries(file.read_text(), deb822=file.suffix == ".sources"))
    options = [f"-oDir::Etc::SourceList={os.devnull}", f"-oDir::Etc::SourceParts={lists}", f"-oDir::State::Lists={work / 'lists'}",
               f"-oDir::Cache={work / 'cache'}", "-oAPT::Sandbox::User="]
    report(f"fetching the sources of {package} with apt")
    _run(["apt-get", *options, "update"], work)  # an archive without sources makes it fail, and does no harm
    failure = _run(["apt-get", *options, "source", "--only-source", "--download-only", package], work / "got")
    found = sorted((work / "got").glob("*.dsc"))
    if failure or not found:
        shutil.rmtree(work)
        raise SetupError(f"apt could not fetch the sources of {package}: {failure or 'there are none'}")
    failure = _run(["dpkg-source", "--no-check", "--extract", str(found[0]), str(work / "tree")], work)
    if failure:
        shutil.rmtree(work)
        raise SetupError(f"the sources of {package} could not be unpacked: {failure}")
    version = re.search(r"^Version: (\S+)", found[0].read_text(), re.MULTILINE)
    (work / "tree").replace(folder)
    shutil.rmtree(work)
    return version[1] if version else found[0].stem


def source_entries(text: str, deb822: bool) -> str:
    """The entries of a list of apt's, of sources in place of binary packages."""
    if deb822:
        return re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
    return "".join(f"deb-src {line.split(None, 1)[1]}\n" for line in text.splitlines() if re.match(r"deb\s", line))


def _run(command: list[str], folder: Path) -> str:
    """"" if it succeeded, else its reason in one line."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E:")]
    return (errors or lines or [f"exit code {done.returncode}"])[-1]
