# SPDX-License-Identifier: Apache-2.0
"""Laws of the house that hold for the tree as a whole: what may stand in a file, and lists that must agree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 132  # characters of a line: code is kept to 120, a word more in prose does no harm
SOURCES = {".py", ".c", ".cpp", ".h", ".hpp", ".cmake", ".mk"}

# Assembled, so that this file obeys the law it checks.
HOSTS = [".".join(parts) for parts in (
    ("pypi", "org"), ("pythonhosted", "org"), ("crates", "io"), ("npmjs", "org"), ("proxy", "golang", "org"),
    ("deb", "debian", "org"), ("archive", "ubuntu", "com"),
)]
FORBIDDEN = {
    "a registry's host": re.compile("|".join(re.escape(host) for host in HOSTS)),
    "an index line": re.compile(r"^\s*--(extra-)?index-url|^\s*--find-links", re.MULTILINE),
    "a resolved address": re.compile(r"^\s*\"resolved\"\s*:", re.MULTILINE),
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home/(?!me/)\w+)/(?=\w)"),
    "an unfinished thought": re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"),
}
# Cargo's own name of its default registry: a lock file without it would not be one.
CARGO_SOURCE = re.compile(r'^source = "registry\+[^"]*"$', re.MULTILINE)


def tracked() -> list[Path]:
    """Every file of the checkout that is, or is about to be, under version control."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    """Contents, "" for what is not text."""
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def faults_in(name: str, text: str) -> list[str]:
    """The forbidden things a file of that name holds."""
    if name == "Cargo.lock":
        text = CARGO_SOURCE.sub("", text)
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text)]


def test_no_file_holds_what_belongs_to_one_machine_or_registry():
    faults = {str(p.relative_to(ROOT)): found for p in tracked() if (found := faults_in(p.name, text_of(p)))}
    assert faults == {}


@pytest.mark.parametrize("name, text, fault", [
    ("a.txt", f"see https://{HOSTS[0]}/simple", "a registry's host"),
    ("requirements.txt", "--index-" + "url https://example.net", "an index line"),
    ("package-lock.json", '  "resol' + 'ved": "https://example.net"', "a resolved address"),
    ("notes.md", "see /wo" + "rk/main", "a path of one machine"),
    ("a.py", "# TO" + "DO: later", "an unfinished thought"),
    ("a.md", 'source = "registry+https://github.com/rust-lang/' + HOSTS[2] + '-index"', "a registry's host"),
])
def test_the_law_sees(name, text, fault):
    assert faults_in(name, text) == [fault]


def test_no_download_is_under_version_control():
    archives = (".whl", ".gz", ".tgz", ".zip", ".xz", ".zst", ".deb", ".so", ".a", ".o", ".hytrace")
    assert [str(path.relative_to(ROOT)) for path in tracked() if path.name.endswith(archives)] == []


def test_lines_fit():
    long = [
        f"{path.relative_to(ROOT)}:{number}" for path in tracked() if path.suffix in SOURCES
        for number, line in enumerate(text_of(path).splitlines(), 1) if len(line) > LONGEST
    ]
    assert long == []


def test_scripts_are_executable_and_clean():
    scripts = [ROOT / name for name in ("heapyard", "setup/relock", ".ci/run")]
    assert [s.name for s in scripts if not os.access(s, os.X_OK)] == []
    checked = subprocess.run(
        ["shellcheck", "--external-sources", *map(str, scripts), *map(str, sorted((ROOT / "setup").glob("*.sh")))],
        cwd=ROOT, capture_output=True, text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


# Lists of packages -----------------------------------------------------------------------------------------------------


def system_packages(name: str = "debian-packages") -> list[frozenset[str]]:
    """The lines of a list in setup/, each as the set of its alternatives."""
    lines = [line.split("#")[0].strip() for line in (ROOT / "setup" / name).read_text().splitlines()]
    return [frozenset(line.removeprefix("?").split("|")) for line in lines if line]


def toml_tables(folder: str) -> dict[str, dict]:
    return {path.stem: tomllib.loads(path.read_text()) for path in sorted((ROOT / folder).glob("*.toml"))}


def test_set_up_installs_every_default_allocator():
    lines = system_packages()
    peers = {name: table for name, table in toml_tables("peers").items() if table.get("default")}
    assert len(peers) >= 6
    absent = {
        name: table["packages"] for name, table in peers.items()
        if table.get("origin") == "debian" and frozenset(table["packages"]) not in lines
    }
    assert absent == {}


def test_set_up_installs_every_quick_program():
    known = set().union(*system_packages())
    programs = {name: table for name, table in toml_tables("programs").items() if table.get("quick")}
    assert len(programs) >= 6
    absent = {
        name: missing for name, table in programs.items()
        if (missing := [p for p in table.get("packages", []) if known.isdisjoint(p.split("|"))])
    }
    assert absent == {}


def test_lists_name_each_package_once():
    names = [name for line in system_packages() + system_packages("debian-packages-test") for name in line]
    assert sorted(names) == sorted(set(names))


# Locks -----------------------------------------------------------------------------------------------------------------


def locked(name: str) -> dict[tuple[str, str], bool]:
    """{(package, version): has a hash} of a lock file."""
    blocks = re.split(r"\n(?=\S)", (ROOT / "setup" / name).read_text().replace("\\\n", " "))
    pins = [(re.match(r"([\w.-]+)==(\S+)", block), "--hash=sha256:" in block) for block in blocks if block.strip()]
    assert all(pin for pin, _ in pins), f"{name}: a line is not a pin"
    return {(pin[1], pin[2]): hashed for pin, hashed in pins if pin}


def test_locks_pin_by_hash_and_agree():
    used, with_tests = locked("requirements.txt"), locked("requirements-test.txt")
    assert all(used.values()) and all(with_tests.values())
    assert set(used) <= set(with_tests)


def declared() -> set[str]:
    """Import names of what pyproject.toml depends on at run time, and of what it says that a user may add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["frames"]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}
    return {{"vl-convert-python": "vl_convert", "pydoe3": "pyDOE3"}.get(name, name).replace("-", "_") for name in names}


def test_the_lab_imports_only_what_it_declares():
    foreign = set()
    for path in (ROOT / "lab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])
            foreign |= {name.split(".")[0] for name in names}
    assert foreign - set(sys.stdlib_module_names) - {"heapyard"} <= declared()


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cmake = re.search(r"project\(heapyard VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    lab = re.search(r'__version__ = "(.+)"', (ROOT / "lab" / "heapyard" / "__init__.py").read_text())[1]
    assert project == cmake == lab


def test_tests_that_documents_name_exist() -> None:
    """A table of what is shown by which test is worth what its names are worth."""
    there = "\n".join(path.read_text() for path in tracked() if path.suffix == ".py" and "tests" in path.parts)
    named = {
        name for path in (ROOT / "docs").rglob("*.md") for name in re.findall(r"`(test_\w+)`", path.read_text())
    }
    assert len(named) > 10 and {name for name in named if f"def {name}(" not in there} == set()


# Licence ---------------------------------------------------------------------------------------------------------------

LICENSED = {*SOURCES, ".sh", ".S", ".js", ".mjs", ".css", ".in"}
LICENCE = "SPDX-License-" + "Identifier: Apache-2.0"


def is_source(path: Path) -> bool:
    return path.suffix in LICENSED or path.name == "CMakeLists.txt" or text_of(path).startswith("#!")


def says_its_licence(text: str) -> bool:
    """On the first line, or the second after a shebang."""
    return LICENCE in "".join(text.splitlines()[: 2 if text.startswith("#!") else 1])


def test_every_source_file_says_its_licence() -> None:
    sources = [path for path in tracked() if is_source(path)]
    assert len(sources) > 700
    assert [str(path.relative_to(ROOT)) for path in sources if not says_its_licence(text_of(path))] == []


def test_the_licence_is_seen_where_it_belongs_only() -> None:
    assert says_its_licence(f"// {LICENCE}\nint x;\n") and says_its_licence(f"#!/bin/sh\n# {LICENCE}\n")
    assert not says_its_licence("int x;\n") and not says_its_licence(f"int x;\n// {LICENCE}\n")
