# SPDX-License-Identifier: Apache-2.0
"""Installing allocators: builds that work, fail, or want something first; and the command line over them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heapyard.catalog import debian
from heapyard.catalog.allocators import build_record, find_allocators, load_allocators
from heapyard.catalog.peers.files import load_peers
from heapyard.catalog.peers.install import Outcome, install_allocators
from heapyard.cli.allocators import command
from heapyard.model.errors import SetupError, UsageError

DATA = Path(__file__).parents[1] / "data" / "allocators"

# Stands in for Cargo: knows one crate, which lies beside it, and no registry.
CARGO = """#!/bin/sh
case "$1" in
--version) echo "cargo {version} (0000 2026-01-01)" ;;
fetch) exit {fetch} ;;
metadata)
  echo '{{"packages": [{{"name": "bump-sys", "version": "1.2.0+9", "manifest_path": "{crate}/Cargo.toml"}}]}}' ;;
esac
"""

RECIPE = """
title = "{title}"
origin = "crate"
default = true

[recipe]
crate = "bump-sys"
lock = "bump"
cargo = "1.70"
tools = [{tools}]
steps = [
  ["cc", "-c", "-O1", "-fPIC", {flags} "-o", "bump.o", "{{source}}/bump_malloc.c"],
  ["cc", "-shared", "-o", "out.so", "bump.o"],
]
library = "{{build}}/out.so"
version_pattern = '(\\d+)\\.(\\d+)'
"""


class Yard:
    """A checkout of its own with two peers: glibc, and `bump`, built from a crate."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.peers, self.crate = folder, folder / "peers", folder / "crate"
        (self.peers / "crates" / "bump").mkdir(parents=True)
        self.crate.mkdir()
        shutil.copy(DATA / "bump_malloc.c", self.crate)
        shutil.copy(Path(__file__).parents[2] / "peers" / "glibc.toml", self.peers)
        lock = '[[package]]\nname = "bump-sys"\nversion = "1.2.0"\nchecksum = "c0ffee"\n'
        (self.peers / "crates" / "bump" / "Cargo.lock").write_text(lock)
        self.recipe()
        self.cargo()
        monkeypatch.setenv("HEAPYARD_ROOT", str(folder))
        monkeypatch.setenv("HEAPYARD_STATE", str(folder / "state"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")

    def recipe(self, name: str = "bump", *, flags: str = "", tools: str = '"cc"') -> None:
        (self.peers / f"{name}.toml").write_text(RECIPE.format(title=name, flags=flags, tools=tools))

    def cargo(self, version: str = "1.70.0", fetch: int = 0) -> None:
        program = self.folder / "bin" / "cargo"
        program.parent.mkdir(exist_ok=True)
        program.write_text(CARGO.format(version=version, fetch=fetch, crate=self.crate))
        program.chmod(0o755)

    def debian_peer(self) -> None:
        (self.peers / "packaged.toml").write_text(
            'title = "x"\norigin = "debian"\ndefault = false\n'
            'packages = ["libpackaged2", "libpackaged1"]\nlibraries = ["libpackaged.so.1"]\n')


    def stand_in(self, flags: str = "") -> None:
        """A peer `plain` that is raced where `bump` is not there."""
        recipe = RECIPE.format(title="plain", flags=flags, tools='"cc"')
        (self.peers / "plain.toml").write_text(recipe.replace("default = true", 'default = true\nin_place_of = "bump"'))


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    return Yard(tmp_path, monkeypatch)


def install(*names: str) -> list[Outcome]:
    return install_allocators(names, lambda name, step: None)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)


def test_a_build_is_described_and_serves(yard: Yard) -> None:
    steps: list[str] = []
    (outcome,) = install_allocators(["bump"], lambda name, step: steps.append(f"{name}: {step}"))
    assert outcome == Outcome("bump", True, "1.2, crate bump-sys 1.2.0+9")
    assert steps[0] == "bump: fetching crate bump-sys" and "bump: compiling bump-sys 1.2.0+9" in steps
    (bump,) = find_allocators(["bump"])
    assert bump.library == (yard.folder / "state" / "peers" / "bump" / "libbump.so").resolve()
    record = build_record(bump)
    assert record is not None
    assert (record["crate_sha256"], record["flags"]) == ("c0ffee", "-O1 -fPIC")
    exports = "aligned_alloc calloc free malloc malloc_usable_size memalign posix_memalign realloc"
    assert record["exports"] == exports.split()


def test_flags_of_the_user_s_shell_stay_out(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = '["sh", "-c", "echo seen:$CFLAGS$LDFLAGS$CC."],'
    recipe = RECIPE.format(title="bump", flags="", tools="").replace("steps = [", f"steps = [{witness}")
    (yard.peers / "bump.toml").write_text(recipe)
    for name in ("CFLAGS", "LDFLAGS", "CC"):
        monkeypatch.setenv(name, "/nonsense")
    assert install("bump")[0].ok
    assert "seen:.\n" in (yard.folder / "state" / "peers" / "logs" / "bump.log").read_text()


def test_what_is_built_is_built_once_until_its_recipe_changes(yard: Yard) -> None:
    install("bump")
    library = yard.folder / "state" / "peers" / "bump" / "libbump.so"
    before = library.stat().st_ino
    install("bump")
    assert library.stat().st_ino == before
    yard.recipe(flags='"-DNDEBUG",')
    assert install("bump")[0].ok
    assert library.stat().st_ino != before
    assert json.loads((library.parent / "provenance.json").read_text())["flags"] == "-O1 -fPIC -DNDEBUG"


def test_a_file_of_ours_that_a_recipe_builds_by_belongs_to_it(yard: Yard) -> None:
    ours = yard.peers / "recipes" / "ours" / "note"
    ours.parent.mkdir(parents=True)
    ours.write_text("first")
    step = '["cp", "-r", "{recipes}/ours", "copy"],'
    recipe = RECIPE.format(title="bump", flags="", tools="").replace("steps = [", f"steps = [{step}")
    (yard.peers / "bump.toml").write_text(recipe)
    inodes = []
    for text in ("first", "first", "second"):
        ours.write_text(text)
        assert install("bump")[0].ok
        inodes.append((yard.folder / "state" / "peers" / "bump" / "libbump.so").stat().st_ino)
    assert inodes[0] == inodes[1] != inodes[2]


def test_a_failed_build_says_why_and_where_and_the_rest_goes_on(yard: Yard) -> None:
    yard.recipe("broken", flags='"-Dmalloc=(",')
    broken, bump, glibc = install("broken", "bump", "glibc")
    log = yard.folder / "state" / "peers" / "logs" / "broken.log"
    assert broken == Outcome("broken", False, f"could not be compiled: cc failed; log: {log}")
    assert "error:" in log.read_text()
    assert bump.ok and glibc.ok
    assert load_allocators()["broken"].status == "broken"
    yard.recipe("broken")
    assert install("broken")[0].ok and find_allocators(["broken"])


def test_a_library_that_does_not_serve_never_replaces_one_that_does(yard: Yard) -> None:
    install("bump")
    good = find_allocators(["bump"])[0].sha256
    yard.recipe(flags='"-DWITHOUT_CALLOC", "-fno-builtin",')
    (outcome,) = install("bump")
    assert not outcome.ok and "the program takes calloc from" in outcome.reason
    assert find_allocators(["bump"])[0].sha256 == good


@pytest.mark.parametrize(("version", "found"), [("1.65.0", "1.65"), ("none", "none that runs")])
def test_a_cargo_that_is_too_old_is_named(yard: Yard, version: str, found: str) -> None:
    yard.cargo(version)
    assert install("bump")[0].reason.startswith(f"needs cargo >= 1.70, found {found}; take it from")


def test_missing_tools_are_named(yard: Yard) -> None:
    yard.recipe(tools='"cc", "no-such-tool", "neither-this"')
    assert install("bump")[0].reason.startswith("needs no-such-tool and neither-this, found none")


def test_a_crate_that_cannot_be_fetched(yard: Yard) -> None:
    yard.cargo(fetch=101)
    assert install("bump")[0].reason.startswith("could not fetch its crate; log: ")


def test_unknown_names_are_refused_before_anything_is_done(yard: Yard) -> None:
    with pytest.raises(UsageError, match="did you mean bump"):
        install("bump", "bumb")
    assert not (yard.folder / "state" / "peers").exists()


def test_a_second_allocator_of_the_same_library_builds_it_once(yard: Yard) -> None:
    other = 'title = "x"\norigin = "crate"\ndefault = false\nlibrary_of = "bump"\nenv = { BUMP = "1" }\n'
    (yard.peers / "bump-other.toml").write_text(other)
    steps: list[tuple[str, str]] = []
    outcomes = install_allocators(["bump-other", "bump"], lambda name, step: steps.append((name, step)))
    assert all(outcome.ok for outcome in outcomes)
    assert [name for name, step in steps if "compiling" in step] == ["bump"]
    other, bump = find_allocators(["bump-other", "bump"])
    assert (other.library, other.env, bump.env) == (bump.library, {"BUMP": "1"}, {})


def test_exit_codes_of_the_command(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("install", "bump").return_value == 0
    yard.recipe("broken", flags='"-Dmalloc=(",')
    assert invoke("install", "--default").return_value == 4
    yard.debian_peer()

    def refuse(packages: list[str], report: object) -> None:
        raise SetupError("only an administrator can install libpackaged2", remedy="run: ...")

    monkeypatch.setattr(debian, "install", refuse)
    result = invoke("install", "packaged", "bump")
    assert result.return_value == 3
    lines = result.output.splitlines()
    assert lines[-1] == f"Run: {debian.install_command(['libpackaged2|libpackaged1'])}"
    assert any(line.startswith("installed") and "bump" in line for line in lines)
    with pytest.raises(UsageError, match="--default or --all"):
        invoke("install")


def test_listing_fits_a_narrow_terminal_and_hides_nothing(yard: Yard) -> None:
    from io import StringIO

    from rich.console import Console

    from heapyard.cli.allocators import _print_narrow

    install("bump")
    screen = StringIO()
    allocators = list(load_allocators().values())
    _print_narrow(Console(file=screen, width=80, highlight=False), allocators, True)
    lines = screen.getvalue().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    text = "".join(line.strip() for line in lines)
    for allocator in allocators:
        parts = (allocator.name, allocator.version, str(allocator.library), allocator.sha256, allocator.build_id)
        assert all(part in text for part in parts)


def test_a_pipe_gets_whole_rows_without_colour(yard: Yard) -> None:
    install("bump")
    rows = invoke().output.splitlines()
    assert [row.split()[0] for row in rows] == ["allocator", "glibc", "bump"]
    assert rows[2].rstrip().endswith("libbump.so") and "\x1b" not in "".join(rows)


def test_json_has_everything(yard: Yard) -> None:
    install("bump")
    glibc, bump = json.loads(invoke("--json").output)
    assert glibc["build"] is None and bump["build"]["crate"] == "bump-sys"
    assert bump["sha256"] == find_allocators(["bump"])[0].sha256


@pytest.mark.parametrize(("text", "said"), [
    ("title = 'x'\norigin = 'shop'\n", r"odd.toml:2: field 'origin' must be one of system, debian, crate"),
    ("title = 'x'\norigin = 'crate'\ndefault = true\n", r"field 'recipe' is missing"),
    ("title = 'x'\norigin = 'debian'\ndefault = true\n", r"field 'libraries' is missing"),
    ("title = 'x'\norigin = 'debian'\ndefault = true\nlibraries = ['a']\npackage = 'b'\n",
     r"odd.toml:5: field 'package' is not known here"),
    (RECIPE.format(title="x", flags="", tools="").replace("1.70", "new"),
     r"odd.toml:9: field 'recipe.cargo' must be a version"),
    (RECIPE.format(title="x", flags="1,", tools=""), r"odd.toml:11: field 'recipe.steps' must be a list of commands"),
])
def test_a_malformed_peer_names_file_line_and_field(yard: Yard, text: str, said: str) -> None:
    (yard.peers / "odd.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_peers()


# --- what a comparison that names no allocators brings along


def usual(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[list[str]]]:
    """What set-up says, and every process it starts."""
    import subprocess

    from heapyard.catalog.peers.usual import install_usual

    started: list[list[str]] = []
    run = subprocess.run
    with monkeypatch.context() as patch:
        patch.delenv("HEAPYARD_OFFLINE", raising=False)
        patch.setattr(subprocess, "run", lambda command, **rest: (started.append(command), run(command, **rest))[1])
        said: list[str] = []
        install_usual(said.append)
    return said, started


def test_who_waited_for_another_build_does_not_build_again(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import threading

    from heapyard.catalog.peers import build as peer_build

    install("bump")
    waiting, flock = threading.Event(), fcntl.flock

    def watched(file: object, how: int) -> None:
        try:
            flock(file, how)
        except BlockingIOError:
            waiting.set()
            raise

    steps: list[str] = []
    with open(yard.folder / "state" / "peers" / ".build" / "bump.lock", "w") as held:
        flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(peer_build.fcntl, "flock", watched)
        second = threading.Thread(target=peer_build.build_peer, args=(load_peers()["bump"], steps.append))
        second.start()
        assert waiting.wait(60)
        flock(held, fcntl.LOCK_UN)
    second.join(60)
    assert not second.is_alive() and steps == []


def test_a_first_comparison_builds_and_a_second_starts_nothing(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    said, started = usual(monkeypatch)
    assert said[0].startswith("installing the usual allocators once: bump; compiling them takes seconds on a quiet machine")
    assert "bump (1 of 1): compiling bump-sys 1.2.0+9" in said
    assert [c for c in started if c[0] == "cc"] and find_allocators(["bump"])[0].usual
    assert usual(monkeypatch) == ([], [])


def test_verified_once_not_twice(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    _, started = usual(monkeypatch)
    assert sum(command == ["/bin/true"] for command in started) == 1


def test_without_a_network_one_sentence_and_no_second_attempt(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.recipe("other")
    yard.cargo(fetch=101)
    said, started = usual(monkeypatch)
    assert sum(command[:2] == ["cargo", "fetch"] for command in started) == 1, "the second would wait for the network too"
    (sentence,) = [line for line in said if "left out" in line]
    assert sentence.startswith("bump, other are left out: the sources cannot be fetched from here.")
    assert sentence.endswith("heapyard allocators install bump other")
    assert usual(monkeypatch) == ([], [])
    assert load_allocators()["bump"].status == "available", "nothing is wrong with it"
    yard.cargo()
    assert all(outcome.ok for outcome in install("bump", "other"))


def test_a_user_who_wants_no_network_is_left_alone(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    from heapyard.catalog.peers.usual import install_usual, usual_missing

    monkeypatch.setenv("HEAPYARD_OFFLINE", "1")
    install_usual(pytest.fail)
    assert usual_missing() == ["bump"]


def test_a_build_that_fails_is_told_once(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.recipe(flags='"-Dmalloc=(",')
    said, _ = usual(monkeypatch)
    assert said[-1].startswith("bump is left out: could not be compiled: cc failed; log: ")
    assert usual(monkeypatch) == ([], [])


def test_ctrl_c_during_a_build_leaves_nothing_half_done(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    from heapyard.catalog.peers import build as peer_build

    with monkeypatch.context() as patch:
        def interrupted(*_: object) -> Path:
            raise KeyboardInterrupt

        patch.setattr(peer_build, "_compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            usual(monkeypatch)
    state = yard.folder / "state" / "peers"
    assert not (state / "bump").exists() and not (state / ".build" / "bump").exists() and not (state / "tried").exists()
    usual(monkeypatch)
    assert load_allocators()["bump"].status == "installed"


def test_cargo_comes_with_the_first_crate_or_the_command_is_said(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    (yard.folder / "bin" / "cargo").unlink()
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else
                        None if name == "cargo" and not (yard.folder / "bin" / "cargo").exists() else which(name))
    monkeypatch.delenv("HEAPYARD_SYSTEM_PACKAGES", raising=False)
    monkeypatch.setattr(debian, "install_command", lambda packages: f"sudo apt-get install {' '.join(packages)}")

    def refuse(packages: list[str], report: object) -> None:
        raise SetupError("only an administrator can install cargo", remedy="Run: ...")

    monkeypatch.setattr(debian, "install", refuse)
    said, _ = usual(monkeypatch)
    assert said[-1] == ("bump is left out: only an administrator can install what they need. Run: sudo apt-get install "
                        "cargo-web|cargo; then: heapyard allocators install bump")
    monkeypatch.setattr(debian, "install", lambda packages, report: yard.cargo())
    assert install("bump")[0].ok


def test_a_stand_in_races_only_where_the_other_is_not_there(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.stand_in('"-DPLAIN",')
    said, _ = usual(monkeypatch)
    assert said[0].startswith("installing the usual allocators once: bump;"), "the stand-in is not wanted yet"
    install("plain")
    catalog = load_allocators()
    assert (catalog["bump"].usual, catalog["plain"].usual) == (True, False)
    shutil.rmtree(yard.folder / "state" / "peers" / "bump")
    assert load_allocators()["plain"].usual


def test_where_the_first_choice_fails_its_stand_in_is_installed(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.stand_in()
    yard.recipe(flags='"-Dmalloc=(",')
    usual(monkeypatch)
    catalog = load_allocators()
    assert (catalog["bump"].status, catalog["plain"].status, catalog["plain"].usual) == ("broken", "installed", True)


def test_the_default_race_is_six_to_eight_allocators() -> None:
    peers = load_peers()
    first = [peer.name for peer in peers.values() if peer.default and not peer.in_place_of]
    assert 6 <= len(first) <= 8 and {"mimalloc3", "snmalloc", "rpmalloc", "google-tcmalloc"} <= set(first)
    without_crates = [p for p in peers.values() if p.default and not p.recipe]
    assert 6 <= len(without_crates) <= 8 and all(p.in_place_of in ("", *first) for p in peers.values())
