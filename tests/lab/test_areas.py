# SPDX-License-Identifier: Apache-2.0
"""`./heapyard test`: which tests an area, --quick and pytest's own arguments lead to; with make-believe runners."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AREAS = ("heap", "lab", "tracer", "mutators")

# Each writes down its arguments, one to a line, and leaves a report of one test that passed.
RUNNER = """#!/bin/sh
printf '%s\\n' "{name}" "$@" END >>"{calls}"
for word in "$@"; do
  case $word in
    */closing_line.py) exec {python} "$@" ;;
  esac
done
report=$(printf '%s\\n' "$@" | sed -n 's/^--junitxml=//p; /^--output-junit$/{{n;p;}}')
echo '<testsuite><testcase name="one"/></testsuite>' >"$report"
case " $* " in *" {barren} "*) exit 5 ;; esac
"""
SCRIPT = """
set -eu
state={state} build={state}/build python={state}/python setup={root}/setup log={state}/log
. "$setup/progress.sh"
. "$setup/tests.sh"
choose_tests "$@"
run_tests "$@"
"""


@dataclass
class Ran:
    code: int
    said: str
    calls: list[list[str]]

    @property
    def native(self) -> list[str]:
        [call] = [call for call in self.calls if call[0] == "ctest"]
        return call

    @property
    def python(self) -> list[list[str]]:
        return [call for call in self.calls if "pytest" in call]

    @property
    def files(self) -> set[str]:
        return {word for call in self.python for word in call if word.startswith("tests/")}


@pytest.fixture
def run(tmp_path: Path):
    import sys

    def run(*arguments: str, barren: str = "nothing") -> Ran:
        calls = tmp_path / "calls"
        calls.unlink(missing_ok=True)
        for name in ("ctest", "python"):
            runner = tmp_path / name
            runner.write_text(RUNNER.format(name=name, calls=calls, python=sys.executable, barren=barren))
            runner.chmod(0o755)
        done = subprocess.run(
            ["sh", "-c", SCRIPT.format(state=tmp_path, root=ROOT), "test", *arguments], capture_output=True, text=True,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HEAPYARD_ROOT": str(ROOT)}, check=False,
        )
        words = calls.read_text().split("\n") if calls.exists() else []
        ends = [-1, *(at for at, word in enumerate(words) if word == "END")]
        made = [words[a + 1 : b] for a, b in zip(ends, ends[1:], strict=False)]
        return Ran(done.returncode, done.stdout + done.stderr, made)

    return run


def files(*folders: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")}


def test_every_test_file_is_in_one_area_and_is_run_there(run) -> None:
    of = {area: run(area).files for area in AREAS}
    assert set().union(*of.values()) == files("lab", "e2e")
    assert sum(map(len, of.values())) == len(files("lab", "e2e"))
    assert all(len(found) >= 4 for found in of.values())
    assert {"tests/lab/test_heap_includes.py", "tests/e2e/test_heap_forks.py"} <= of["heap"]
    assert {"tests/lab/test_larson.py", "tests/lab/test_acdc.py", "tests/e2e/test_mutator_cost.py"} <= of["mutators"]
    assert "tests/e2e/test_profile_attach.py" in of["tracer"] and "tests/lab/test_house.py" in of["lab"]


def test_every_native_test_is_in_one_area(run) -> None:
    wanted = {area: run(area).native[run(area).native.index("--tests-regex") + 1] for area in AREAS}
    lists = [path for folder in ("mutators", "tests/native") for path in (ROOT / folder).rglob("CMakeLists.txt")]
    text = "\n".join(path.read_text() for path in lists)
    names = re.findall(r"TEST_PREFIX (\w+\.)|add_test\(NAME ([\w.]+)", text)
    assert len(names) >= 8
    for name in (prefix or test for prefix, test in names):
        assert len([area for area, pattern in wanted.items() if re.search(pattern, name)]) == 1, name


def test_without_arguments_everything_runs(run) -> None:
    ran = run()
    assert "--tests-regex" not in ran.native and "--exclude-regex" not in ran.native
    alone, beside = ran.python
    left_out = {word.removeprefix("--ignore=") for word in alone if word.startswith("--ignore=")}
    assert left_out and left_out == {word for word in beside if word.startswith("tests/e2e/")} < files("e2e")
    first = {word for word in beside if word.startswith("tests/lab/")}
    assert first < files("lab") and "tests/lab" in beside and "tests/e2e" in alone
    assert ran.files == {"tests/e2e", "tests/lab"} | first | left_out
    assert ran.code == 0 and "no test failed" in ran.said


def test_quick_leaves_out_what_is_slow(run) -> None:
    ran = run("--quick")
    assert "--exclude-regex" in ran.native and "--tests-regex" not in ran.native
    [call] = ran.python
    assert "not slow and not browser and not on_request" in call
    assert ran.files < files("lab") and len(ran.files) > len(files("lab")) / 2
    assert "tests/lab/test_house.py" in ran.files and "tests/lab/test_check.py" not in ran.files
    assert run("--quick", "heap").files == run("heap", "--quick").files == run("heap").files & ran.files


def test_what_is_named_as_slow_is_there() -> None:
    text = (ROOT / "setup" / "test-areas.sh").read_text()
    for which in ("slow_python", "longest_lab"):
        names = re.search(rf'{which}="([^"]+)"', text)
        assert names and {f"tests/lab/test_{name}.py" for name in names[1].split()} <= files("lab")


def test_areas_are_joined_and_the_rest_is_pytests(run) -> None:
    ran = run("heap", "tracer", "-k", "fork")
    assert ran.files == run("heap").files | run("tracer").files
    assert all(call[-2:] == ["-k", "fork"] for call in ran.python)
    assert ran.native[-1] == r"^heap\.|^(tracer|injector)\."


@pytest.mark.parametrize("arguments", [
    ["tests/lab/test_store.py"], ["tests/lab/test_store.py::test_x", "-q"], ["-k", "heap"], ["setup"],
])
def test_paths_and_options_go_to_pytest_as_they_are(run, arguments: list[str]) -> None:
    ran = run(*arguments)
    [call] = ran.python
    assert call[-len(arguments) :] == arguments
    assert "--tests-regex" not in ran.native


def test_a_path_takes_the_place_of_an_areas_python(run) -> None:
    ran = run("--quick", "lab", "tests/lab/test_store.py")
    assert ran.files == {"tests/lab/test_store.py"} and "--tests-regex" in ran.native


def test_a_part_with_nothing_to_run_is_no_failure_but_nothing_at_all_is(run) -> None:
    assert run("heap", barren="tests/e2e/test_heap_forks.py").code == 0
    assert run("heap", "-x", barren="-x").code == 1


@pytest.mark.parametrize("word", ["heaps", "quick", "heap\ttracer"])
def test_an_unknown_area_is_one_sentence_and_runs_nothing(run, word: str) -> None:
    ran = run("lab", word)
    assert ran.code == 2 and not ran.calls
    assert ran.said == f"heapyard: there is no area or path '{word}'; the areas are heap, lab, tracer, mutators\n"


def test_the_command_line_is_understood_before_set_up(tmp_path: Path) -> None:
    env = {**os.environ, "HEAPYARD_STATE": str(tmp_path / "state")}
    told = subprocess.run([ROOT / "heapyard", "test", "--help"], env=env, capture_output=True, text=True, check=True)
    assert all(word in told.stdout for word in ("--quick", *AREAS, "tests/lab/test_store.py"))
    wrong = subprocess.run([ROOT / "heapyard", "test", "nothing"], env=env, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and not (tmp_path / "state").exists()
