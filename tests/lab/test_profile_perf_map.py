# SPDX-License-Identifier: Apache-2.0
"""Names of code that runtimes make: the map that they write for perf, and what people read of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heapyard.profile import perf_map
from heapyard.profile.chains import short
from heapyard.profile.perf_map import frame_of, map_of, of_no_file
from heapyard.profile.symbols import Frame


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process 4711 that began at second 1,000 and ran for ten."""
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    meta = {"pid": 4711, "started": 1000.0, "attached": False}
    return SimpleNamespace(meta=meta, scripts={}, duration=10.0, path=tmp_path / "perf-4711.map")


def write(traced: Any, text: str, at: float = 1010) -> None:
    traced.path.write_text(text)
    os.utime(traced.path, (at, at))


def test_an_address_has_the_name_of_the_place_that_it_lies_in(traced: Any) -> None:
    write(traced, "1000 b py::build:/srv/a b.py\n2000 10 py::Tree.grow:/srv/tree.py\n2000 10 py::again:/srv/tree.py\nbroken\n30")
    assert of_no_file(traced, [0xfff, 0x1000, 0x100a, 0x100b, 0x200f, 0x2010]) == {
        0x1000: [("build", "/srv/a b.py", 0)], 0x100a: [("build", "/srv/a b.py", 0)], 0x200f: [("again", "/srv/tree.py", 0)]}


@pytest.mark.parametrize("at", [990, 1100])
def test_the_map_of_another_process_with_the_same_number_is_not_read(traced: Any, at: float) -> None:
    write(traced, "1000 b py::build:/srv/a.py\n", at)
    assert map_of(traced) is None and of_no_file(traced, [0x1000]) == {}


def test_who_is_attached_to_may_have_written_it_before(traced: Any) -> None:
    write(traced, "1000 b py::build:/srv/a.py\n", 500)
    traced.meta["attached"] = True
    assert of_no_file(traced, [0x1000]) == {0x1000: [("build", "/srv/a.py", 0)]}


def test_trampolines_of_functions_that_were_read_are_not_functions_once_more(traced: Any) -> None:
    write(traced, "1000 b py::build:/srv/a.py\n2000 b LazyCompile:~f /srv/b.js:7:3\n")
    traced.scripts[1] = ("build", "/srv/a.py", 3)
    assert of_no_file(traced, [0x1000, 0x2000]) == {0x1000: [("py::build:/srv/a.py", "", 0)], 0x2000: [("f", "/srv/b.js", 7)]}


def test_no_map_names_nothing(traced: Any) -> None:
    assert map_of(traced) is None and of_no_file(traced, [0x1000]) == {}


@pytest.mark.parametrize(("name", "frame"), [
    ("py::Tree.grow:/srv/tree.py", ("Tree.grow", "/srv/tree.py", 0)),
    ("py::<module>:<string>", ("<module>", "<string>", 0)),
    ("JS:*grow /srv/tree.js:12:7", ("grow", "/srv/tree.js", 12)),
    ("LazyCompile:~ /srv/tree.js:3:1", ("(anonymous)", "/srv/tree.js", 3)),
    ("Builtin:ArrayPrototypePush", ("Builtin:ArrayPrototypePush", "", 0)),
    ("Ljava/util/ArrayList;::grow", ("Ljava/util/ArrayList;::grow", "", 0)),
])
def test_names_of_several_runtimes(name: str, frame: tuple[str, str, int]) -> None:
    assert frame_of(name) == frame


def test_a_script_has_a_place_without_a_line() -> None:
    assert Frame("grow", "/srv/tree.py", 0, "").place == "tree.py"
    assert Frame("grow", "/srv/tree.js", 12, "").place == "tree.js:12"
    assert Frame("grow", "/srv/tree.py", 0, "").is_script and not Frame("grow", "/srv/tree.c", 3, "/bin/tree").is_script


@pytest.mark.parametrize("name", ["<module>", "<lambda>", "build.<locals>.<genexpr>"])
def test_pythons_own_brackets_stay(name: str) -> None:
    assert short(name) == name
