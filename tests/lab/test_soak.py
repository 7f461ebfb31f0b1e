# SPDX-License-Identifier: Apache-2.0
"""`heapyard soak` tells what a library does to a suite of tests from what the tests do by themselves.

The suite is a shell script. Its library refuses one size of request, and what it does to a test is known.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from heapyard.catalog.allocators import find_allocators
from heapyard.catalog.debian_source import source_entries
from heapyard.catalog.soak_suites import find_suites
from heapyard.execute.soak import campaign as campaign_module
from heapyard.execute.soak.campaign import Campaign
from heapyard.execute.soak.workshop import Workshop
from heapyard.model import places
from heapyard.model.errors import SetupError, UsageError
from heapyard.model.soak import Compared, Run, SoakAnswer, came_again

LIMIT = 120  # seconds
LIBRARY = r"""
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t), __libc_free(void*);
void* malloc(size_t n) { return n == 12345 ? NULL : __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }
void free(void* p) { __libc_free(p); }
"""
PROGRAM = r"""
#include <stdlib.h>
#include <unistd.h>
int main(int count, char** words) {
  char* volatile block = malloc(12345);
  if (block) return 0;
  if (words[1][0] == 'h') pause();
  if (words[1][0] == 'c') *block = 1;
  return 5;
}
"""
# A count of all runs of the test, under both: the first is glibc's, the second the library's, and so on by turns.
SUITE = r"""
title = "a suite with planted differences"
version = "cat '{folder}/edition' 2>/dev/null || true"
build = "cp '{folder}/ask' ask"
list = "printf '%s\n' {tests} untold"
run = '''
count=$(cat "$SOAK_SOURCE/$SOAK_TEST.count" 2>/dev/null || echo 0)
echo $((count + 1)) >"$SOAK_SOURCE/$SOAK_TEST.count"
echo "run $((count + 1))"
case $SOAK_TEST/$count in
refused/*) "$SOAK_SOURCE/ask" refused || {{ echo "FAIL: asks (of a block)"; exit 1; }} ;;
hangs/*) "$SOAK_SOURCE/ask" hangs ;;
dies/*) exec "$SOAK_SOURCE/ask" crashes ;;
both/*) echo "FAIL: always"; exit 1 ;;
skipped/*) exit 77 ;;
flaky/[124]) echo "FAIL: by chance"; exit 1 ;;
rare/1) echo "FAIL: one time"; exit 1 ;;
leaves/*) setsid sleep 1000 & echo "$!" >"$SOAK_SOURCE/left" ;;
slow/*) sleep 0.2 ;;
esac
'''
[result]
skipped = [77]
failed = '^FAIL: (.+)$'
[left_out]
untold = "is not to be run"
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    for name, text, options in (("libplanted.so", LIBRARY, ["-shared", "-fPIC"]), ("ask", PROGRAM, [])):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-fno-builtin", *options, "-o", folder / name, folder / f"{name}.c"], check=True)
    return folder


class Yard:
    """A place with a suite of these tests."""

    def __init__(self, folder: Path, built: Path, tests: str):
        self.folder, self.built = folder, built
        self.suite = folder / "planted.toml"
        (folder / "ask").write_bytes((built / "ask").read_bytes())
        (folder / "ask").chmod(0o755)
        self.suite.write_text(SUITE.format(folder=folder, tests=tests))

    def soak(self, seconds: float = 0.1, afresh: bool = False) -> SoakAnswer:
        """A round of all tests; more if it takes less time."""
        stop, (suite,) = threading.Event(), find_suites([str(self.suite)])
        shop = Workshop(suite, stop, lambda line: None)
        (planted,) = find_allocators(["planted.so"], {"planted.so": self.built / "libplanted.so"})
        (glibc,) = find_allocators(["glibc"])
        campaign = Campaign(planted, glibc, [shop], (), places.soaked(), stop, 1, afresh)
        try:
            return campaign.run(seconds, lambda line: None, lambda line: None)
        finally:
            campaign.close()

    def rows(self, columns: str) -> list[tuple]:
        file = sqlite3.connect(places.soaked() / "soak.sqlite")
        try:
            return file.execute(f"select {columns} from run").fetchall()
        except sqlite3.OperationalError:  # the table is just being made
            return []
        finally:
            file.close()


@pytest.fixture
def yard(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "build").symlink_to(places.state() / "build")
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HEAPYARD_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(campaign_module, "LEAST_LIMIT", 1.0)
    return lambda tests: Yard(tmp_path, built, tests)


def until_each_has_run(yard: Yard, tests: int) -> SoakAnswer:
    for _ in range(20):
        answer = yard.soak()
        if answer.programs[0].seen == tests:
            return answer
    pytest.fail("the tests were not all run")


def test_what_only_the_library_does_is_found(yard) -> None:
    answer = until_each_has_run(yard("good refused dies both skipped"), 5)
    (program,) = answer.programs
    assert {compared.test: set(compared.again) for compared in program.differences} == {
        "refused": {"asks (of a block)", "exit code 1"}, "dies": {"dies of SIGSEGV"}}
    assert (program.tests, program.rounds >= 1, program.failing, answer.complete) == (5, True, 1, True)
    assert program.served > 0 and program.elsewhere == () and program.once == ()
    for compared in program.differences:
        assert "run " in Path(compared.output).read_text() and Path(compared.output_there).is_file()
    # What shows nothing is not kept.
    assert {path.name for path in (places.soaked() / "planted.so" / "planted").iterdir()} == {
        "refused.txt", "refused.glibc.txt", "dies.txt", "dies.glibc.txt"}


def test_a_test_that_hangs_is_ended_and_found(yard) -> None:
    (program,) = until_each_has_run(yard("hangs"), 1).programs
    (compared,) = program.differences
    assert set(compared.again) == {"hangs"} and len(compared.here) == 2


def test_chance_is_no_difference(yard) -> None:
    (program,) = until_each_has_run(yard("flaky rare"), 2).programs
    assert program.differences == ()
    assert [(compared.test, list(compared.once)) for compared in program.once] == [("rare", ["exit code 1", "one time"])]


def test_nothing_is_left_behind(yard) -> None:
    here = yard("leaves")
    here.soak()
    left = int((places.state() / "soak" / "planted" / "source" / "left").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(left, 0)


def test_glibc_runs_once_until_something_changes(yard) -> None:
    here = yard("good")
    here.soak()
    here.soak(afresh=True)
    assert [library for (library,) in here.rows("library")].count("glibc") == 1
    (here.folder / "edition").write_text("2")
    here.soak()
    assert [library for (library,) in here.rows("library")].count("glibc") == 2


def command(yard: Yard, *words: object) -> list[str]:
    library = yard.built / "libplanted.so"
    return [sys.executable, "-I", "-m", "heapyard", "soak", str(library), "--program", str(yard.suite), *map(str, words)]


def test_an_interruption_loses_one_test_at_most(yard) -> None:
    here = yard(" ".join(f"slow{i} slow" for i in range(20)).replace("slow0 ", ""))
    process = subprocess.Popen(command(here, "--for", "1h"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and process.poll() is None:
        if (places.soaked() / "soak.sqlite").is_file() and len(here.rows("id")) >= 4:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "the same command goes on" in out, err
    before = here.rows("library, round, test")
    assert len(before) == len(set(before)) and len(before) % 2 == 0
    here.soak()
    after = [row for row in here.rows("library, round, test") if row[1] == 1]
    assert len(after) == len(set(after)) >= len(before)


def test_the_answer_of_the_command(yard) -> None:
    here = yard("refused")
    page = here.folder / "page.md"
    page.write_text("# Page\n\n<!-- measured: begin -->\n<!-- measured: end -->\n")
    words = command(here, "--for", "100ms", "--json", "--markdown", page)
    run = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 1, run.stderr
    ((answer),) = json.loads(run.stdout)
    (difference,) = answer["programs"][0]["differences"]
    assert (answer["name"], answer["differences"], difference["test"]) == ("planted.so", 1, "refused")
    assert {"mark": "exit code 1", "shown": difference["runs"], "shown_glibc": 0} in difference["marks"]
    assert "`refused`: asks (of a block)" in page.read_text()


@pytest.mark.parametrize(("words", "code", "sentence"), [
    ((), 2, "name allocators or libraries"),
    (("bfm", "--program", "no-such"), 2, "there is no suite 'no-such'; there are browser"),
    (("bfm", "--program", "{folder}/bad.toml"), 2, "bad.toml:3: field 'run' must be a string, not 5"),
    (("bfm", "--program", "{folder}/broken.toml"), 3, "its build failed: no compiler"),
])
def test_wrong_requests_get_one_sentence(yard, words: tuple[str, ...], code: int, sentence: str) -> None:
    folder = yard("good").folder
    (folder / "bad.toml").write_text('title = "x"\nlist = "echo"\nrun = 5\n')
    (folder / "broken.toml").write_text('title = "x"\nbuild = "echo no compiler >&2; exit 1"\nlist = "echo"\nrun = "true"\n')
    given = [word.format(folder=folder) for word in words]
    run = subprocess.run([sys.executable, "-I", "-m", "heapyard", "soak", *given], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == code and sentence in run.stdout + run.stderr and "Traceback" not in run.stderr, run


def test_the_suites_are_described_fully() -> None:
    suites = find_suites(())
    assert [suite.name for suite in suites] == ["browser", "build", "git", "python", "redis", "sqlite"]
    assert all(suite.about and suite.packages and (suite.failed or suite.answer) for suite in suites)


def test_a_pattern_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('title = "x"\nlist = "x"\nrun = "x"\n[result]\nfailed = "(x"\n')
    with pytest.raises(UsageError, match=r"bad.toml:5: field 'result.failed' is no regular expression"):
        find_suites([str(file)])
    file.write_text('title = "x"\nlist = "true"\nrun = "x"\n')
    with pytest.raises(SetupError, match="lists no tests"):
        Workshop(find_suites([str(file)])[0], threading.Event(), print)


@pytest.mark.parametrize(("runs", "again"), [
    ((2, 5, 0, 5), True), ((1, 5, 0, 5), False), ((5, 5, 1, 5), False), ((20, 20, 2, 20), True), ((6, 20, 3, 20), False),
])
def test_what_came_again_is_more_than_chance(runs: tuple[int, int, int, int], again: bool) -> None:
    assert came_again(*runs) is again


def test_what_glibc_shows_as_well_is_no_difference() -> None:
    run = Run("t", frozenset({"a", "b"}), 1, 0.1)
    compared = Compared("t", [run, run], [Run("t", frozenset({"a"}), 1, 0.1)])
    assert compared.again == {"b": (2, 0)}


def test_binary_archives_become_those_of_sources() -> None:
    assert source_entries("# deb x\ndeb [arch=amd64] http://a b main\ndeb-src http://a b main\n", deb822=False) == (
        "deb-src [arch=amd64] http://a b main\n")
    assert source_entries("Types: deb\nURIs: http://a\n", deb822=True) == "Types: deb-src\nURIs: http://a\n"


@pytest.mark.on_request
@pytest.mark.parametrize("program", ["browser", "build", "git", "python", "redis", "sqlite"])
def test_a_real_suite_runs(program: str, tmp_path: Path) -> None:
    """HEAPYARD_SOAK: how long, 2 minutes unless said otherwise."""
    env = {**os.environ, "HEAPYARD_RESULTS": os.environ.get("HEAPYARD_RESULTS", str(tmp_path))}
    words = ["heapyard", "--program", program, "--for", os.environ.get("HEAPYARD_SOAK", "2m"), "--json"]
    run = subprocess.run([sys.executable, "-I", "-m", "heapyard", "soak", *words], env=env, capture_output=True, text=True)
    (answer,) = json.loads(run.stdout)
    print(run.stdout)
    assert run.returncode in (0, 1) and answer["programs"][0]["tests"] > 0 and answer["programs"][0]["remedy"] == ""
