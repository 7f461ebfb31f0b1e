# SPDX-License-Identifier: Apache-2.0
"""Programs that read sources for faults: ruff over Python, mypy over the lab, clang-format and clang-tidy over what is native."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from heapyard.model import places

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "pyproject.toml"


def told(tool: str, *arguments: object) -> tuple[int, str]:
    """Exit code of the tool and all that it said."""
    kept = places.state() / f"{tool}-cache"
    done = subprocess.run(
        [sys.executable, "-I", "-m", tool, *map(str, arguments), f"--cache-dir={kept}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )
    return done.returncode, done.stdout + done.stderr


def ruff(*paths: object) -> tuple[int, str]:
    return told("ruff", "check", "--config", SETTINGS, "--output-format=concise", *paths)


def mypy(*paths: object) -> tuple[int, str]:
    return told("mypy", "--config-file", SETTINGS, "--no-pretty", *paths)


def test_ruff_finds_nothing() -> None:
    code, words = ruff(".")
    assert code == 0, words


def test_mypy_finds_nothing_in_the_lab() -> None:
    code, words = mypy()
    assert code == 0, words
    assert "no issues found in" in words


def layout(*sources: Path) -> tuple[int, str]:
    """Of native sources, as .clang-format has it; `clang-format -i FILE...` puts it right."""
    tool = Path(sys.executable).parent / "clang-format"
    done = subprocess.run([tool, "--dry-run", "-Werror", f"--style=file:{ROOT / '.clang-format'}", *sources],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stderr


def test_native_sources_are_laid_out_alike() -> None:
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True)
    sources = [ROOT / name for name in listed.stdout.split()]
    code, words = layout(*sources)
    assert len(sources) > 300 and code == 0, words[-4000:]


def test_another_layout_is_seen(tmp_path: Path) -> None:
    (tmp_path / "odd.cpp").write_text("int  f( ) {return 1 ;}\n")
    code, words = layout(tmp_path / "odd.cpp")
    assert code != 0 and "odd.cpp:1" in words


ROOMS = ("base", "heap", "lab/native", "mutators", "tracer")


def tidy(*sources: Path) -> tuple[int, str]:
    """What clang-tidy finds in compiled sources, by .clang-tidy: about a second of a processor each, several at once."""
    tool, build = Path(sys.executable).parent / "clang-tidy", places.state() / "build" / "release"

    def look(source: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([tool, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", "-p", build, source],
                              cwd=ROOT, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(look, sources))
    return max(one.returncode for one in done), "".join(one.stdout for one in done)


@pytest.mark.on_request
def test_clang_tidy_finds_nothing() -> None:
    commands = json.loads((places.state() / "build" / "release" / "compile_commands.json").read_text())
    rooms = [ROOT / room for room in ROOMS]
    sources = {path for entry in commands if (path := Path(entry["file"])).suffix == ".cpp" and set(path.parents) & set(rooms)}
    code, words = tidy(*sorted(sources))
    assert len(sources) > 100 and code == 0, words[-8000:]


def test_clang_tidy_sees(tmp_path: Path) -> None:
    (tmp_path / "odd.cpp").write_text("int f(int x) { return x == x; }\n")
    code, words = tidy(tmp_path / "odd.cpp")
    assert code != 0 and "misc-redundant-expression" in words


@pytest.mark.parametrize("source, rule", [
    ("import os\n", "F401"),
    ("def f(x=[]):\n    return x\n", "B006"),
    ("x = 1  # noqa: F401\n", "RUF100"),
])
def test_ruff_sees(tmp_path: Path, source: str, rule: str) -> None:
    faulty = tmp_path / "faulty.py"
    faulty.write_text(source)
    code, words = ruff(faulty)
    assert code == 1 and rule in words


@pytest.mark.parametrize("source, rule", [
    ("from heapyard.model.units import format_bytes\nformat_bytes('many')\n", "arg-type"),
    ("def f(x):\n    return x\n", "no-untyped-def"),
    ("x: int = 1  # type: ignore\n", "unused-ignore"),
])
def test_mypy_sees(tmp_path: Path, source: str, rule: str) -> None:
    faulty = tmp_path / "faulty.py"
    faulty.write_text(source)
    code, words = mypy(faulty)
    assert code == 1 and f"[{rule}]" in words
