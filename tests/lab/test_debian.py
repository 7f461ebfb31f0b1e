# SPDX-License-Identifier: Apache-2.0
"""Installing packages: played against a make-believe apt whose archive, index and privileges each test chooses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from heapyard.catalog import debian
from heapyard.model.errors import EXIT_SETUP, SetupError

# One script plays every tool. Files beside it hold its world: what is installed, in the index, in the archive, done.
TOOL = """#!{python} -S
import os, sys
here = os.path.dirname(os.path.abspath(sys.argv[0]))
tool, words = os.path.basename(sys.argv[0]), sys.argv[1:]
def lines(name):
    path = os.path.join(here, name)
    return open(path).read().split() if os.path.exists(path) else []
def add(name, text):
    with open(os.path.join(here, name), "a") as file:
        file.write(text + "\\n")
if tool == "sudo":
    if lines("password"):
        sys.exit(1)
    words = words[1:] if words[0] == "-n" else words
    add("log", "sudo")
    os.execvp(words[0], words)
if tool == "dpkg-query":
    known = [word for word in words[2:] if word in lines("installed")]
    for word in known:
        print("installed", word, "1.0-1")
    print("not-installed", "gone", "")
    sys.exit(len(known) < len(words[2:]))
if tool == "apt-cache":
    for word in words[1:]:
        if word in lines("index"):
            print(word + ":\\n  Installed: (none)\\n  Candidate: 1.0-1\\n  Version table:\\n     1.0-1 500")
        elif word.startswith("virtual"):
            print(word + ":\\n  Installed: (none)\\n  Candidate: (none)\\n  Version table:")
if tool == "apt-get":
    add("log", " ".join(word for word in words if not word.startswith("-") and "=" not in word))
    assert os.environ["DEBIAN_FRONTEND"] == "noninteractive"
    if words[0] == "update":
        for word in lines("archive"):
            add("index", word)
    else:
        wanted = words[words.index("--no-install-recommends") + 1:]
        if lines("stale") and "update" not in lines("log"):
            sys.exit("E: Failed to fetch a file  404  Not Found")
        if lines("broken"):
            sys.exit("Reading lists\\nE: dpkg was interrupted")
        for word in wanted:
            add("installed", word)
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Writes a file of the make-believe world; the tools are the only ones in PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dpkg-query", "apt-cache", "apt-get", "sudo"):
        (tools / name).write_text(TOOL.replace("{python}", sys.executable))
        (tools / name).chmod(0o755)
    (tools / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def write(**files: str) -> Path:
        for name, text in files.items():
            (tools / name).write_text(text + "\n")
        return tools

    return write


def log(tools: Path) -> list[str]:
    return (tools / "log").read_text().splitlines() if (tools / "log").exists() else []


def test_what_is_missing_and_which_version_is_there(world):
    world(installed="one four")
    assert debian.missing(["one", "two", "three|four", "five|six", "two", "gone"]) == ["two", "five|six", "gone"]
    assert (debian.version("one"), debian.version("three|four"), debian.version("two")) == ("1.0-1", "1.0-1", "")


def test_without_dpkg_everything_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.missing(["one"]) == ["one"] and debian.version("one") == ""
    with pytest.raises(SetupError, match="this system has no apt; install what Debian calls one or two by hand"):
        debian.install(["one|two"], print)


def test_the_alternative_the_release_carries_is_installed(world):
    tools, said = world(index="b c"), []
    debian.install(["a|b", "c"], said.append)
    assert log(tools) == ["install b c"] and said == ["installing with apt: b c"]
    debian.install(["a|b", "c"], said.append)
    assert log(tools) == ["install b c"]


def test_an_index_that_lacks_a_package_is_refreshed_first(world):
    tools = world(archive="a")
    debian.install(["a"], lambda line: None)
    assert log(tools) == ["update", "install a"]


def test_an_index_older_than_the_archive_is_refreshed_and_the_installation_repeated(world):
    tools = world(index="a", stale="yes")
    debian.install(["a"], lambda line: None)
    assert log(tools) == ["install a", "update", "install a"]


def test_what_the_release_does_not_carry_is_named_after_the_rest_was_installed(world):
    tools = world(index="a")
    with pytest.raises(SetupError, match="this distribution has no package virtual-x or y"):
        debian.install(["virtual-x|y", "a"], lambda line: None)
    assert log(tools) == ["update", "install a"]


def test_apts_own_reason_is_passed_on_with_the_command(world):
    world(index="a", broken="yes")
    with pytest.raises(SetupError) as caught:
        debian.install(["a"], lambda line: None)
    assert caught.value.message == "apt-get could not install a: dpkg was interrupted"
    assert caught.value.remedy == "Run: sudo apt-get install --yes a"


def test_a_user_with_sudo_installs_through_it(world, monkeypatch):
    tools = world(index="a")
    (tools / "true").symlink_to("/bin/true")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian.install(["a"], lambda line: None)
    assert log(tools) == ["sudo", "sudo", "install a"]


def test_a_user_without_sudo_is_told_the_one_command(world, monkeypatch):
    tools = world(index="b", password="needed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError) as caught:
        debian.install(["a|b", "c"], lambda line: None)
    assert caught.value.exit_code == EXIT_SETUP and log(tools) == []
    assert caught.value.message == "only an administrator can install a or b, c"
    assert caught.value.remedy == "Run: sudo apt-get install --yes b c"
