# SPDX-License-Identifier: Apache-2.0
"""The import law of the lab: each room imports only what stands left of it, and heavy packages load late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2] / "lab" / "heapyard"
ORDER = ("model", "catalog", "design", "execute", "store", "stats", "report", "profile", "api", "cli")
HEAVY = {"altair", "duckdb", "numpy", "pandas", "plotext", "rich", "scipy", "vl_convert"}
ENTRY = {"__init__", "__main__"}  # the package's own two files: they stand above every room


def imported(source: str, package: tuple[str, ...], *, late: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a module of `package` imports; with `late` also inside functions."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)  # what only a type checker reads is not imported
            if late:
                pending.extend(node.body)
        elif late or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


def room_breaches(source: str, package: tuple[str, ...]) -> list[str]:
    """What a module of heapyard.<room> imports from rooms to its right, even inside functions."""
    place = ORDER.index(package[1])
    found = []
    for line, name in imported(source, package, late=True):
        parts = name.split(".")
        if parts[0] == "heapyard" and len(parts) > 1 and parts[1] in ORDER[place + 1:]:
            found.append(f"line {line}: {package[1]} imports {parts[1]}")
    return found


def heavy_imports(source: str, package: tuple[str, ...]) -> list[str]:
    """Heavy packages that merely importing the module would load."""
    return [
        f"line {line}: {name}"
        for line, name in imported(source, package, late=False) if name.split(".")[0] in HEAVY
    ]


def modules() -> list[Path]:
    return sorted(path for path in LAB.rglob("*.py"))


def package_of(path: Path) -> tuple[str, ...]:
    return ("heapyard", *path.relative_to(LAB).parent.parts)


def test_every_module_lies_in_a_room():
    loose = [str(p.relative_to(LAB)) for p in modules() if p.parent == LAB and p.stem not in ENTRY]
    foreign = [p.name for p in LAB.iterdir() if p.is_dir() and p.name not in (*ORDER, "__pycache__")]
    assert (loose, foreign) == ([], [])


@pytest.mark.parametrize("room", ORDER)
def test_rooms_import_only_leftwards(room):
    files = [p for p in modules() if p.relative_to(LAB).parts[0] == room]
    assert files, f"room {room} is empty"
    breaches = {str(p.relative_to(LAB)): found for p in files if (found := room_breaches(p.read_text(), package_of(p)))}
    assert breaches == {}


def test_what_help_loads_is_light():
    light = [p for p in modules() if p.relative_to(LAB).parts[0] in ("model", "catalog")] + [LAB / "cli" / "main.py"]
    loaded = {str(p.relative_to(LAB)): found for p in light if (found := heavy_imports(p.read_text(), package_of(p)))}
    assert loaded == {}


@pytest.mark.parametrize("source, count", [
    ("from ..report import html", 2),  # the room and the name in it
    ("from .. import report", 1),
    ("import heapyard.report.html", 1),
    ("def f():\n    from heapyard.cli import main", 2),
    ("from ..model import units\nfrom . import analyse\nimport report", 0),
])
def test_the_law_sees_every_way_to_import(source, count):
    assert len(room_breaches(source, ("heapyard", "stats"))) == count


@pytest.mark.parametrize("source, heavy", [
    ("import numpy as np", True),
    ("from scipy.stats import t", True),
    ("class C:\n    import rich", True),
    ("try:\n    import duckdb\nexcept ImportError:\n    pass", True),
    ("def f():\n    import numpy", False),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy", False),
])
def test_the_law_tells_late_imports_from_early_ones(source, heavy):
    assert bool(heavy_imports(source, ("heapyard", "model"))) is heavy
