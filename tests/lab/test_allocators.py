# SPDX-License-Identifier: Apache-2.0
"""The catalog of allocators: what names mean, what is refused and in which words."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from heapyard.catalog import allocators
from heapyard.catalog.allocator_variants import known_options, list_tunables, split_name
from heapyard.catalog.elf import elf_facts
from heapyard.catalog.library_facts import FactsCache
from heapyard.catalog.peers.debian import upstream_version
from heapyard.catalog.peers.files import load_peers
from heapyard.catalog.peers.verify import verify
from heapyard.model.errors import UsageError

SOURCE = Path(__file__).parents[1] / "data" / "allocators" / "bump_malloc.c"


def bump_malloc(folder: Path, *flags: str, name: str = "libbump.so") -> Path:
    library = folder / name
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", *flags, str(SOURCE), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def bump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bump_malloc(tmp_path_factory.mktemp("bump"))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own catalog."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def complaint(*names: str, **extra: Path) -> str:
    with pytest.raises(UsageError) as error:
        allocators.find_allocators(names, extra)
    return f"{error.value.message} {error.value.remedy or ''}"


# Names


def test_glibc_is_this_machine_s_own_and_comes_first() -> None:
    catalog = allocators.load_allocators()
    glibc = next(iter(catalog.values()))
    assert (glibc.name, glibc.status) == ("glibc", "installed")
    assert glibc.version == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert str(glibc.library) in Path("/proc/self/maps").read_text()
    assert glibc.build_id == elf_facts(glibc.library).build_id != ""


def test_names_keep_their_order_and_come_once() -> None:
    found = allocators.find_allocators(["system", "glibc", "system", "glibc:tcache=0"])
    assert [allocator.name for allocator in found] == ["system", "glibc", "glibc:tcache=0"]
    assert found[0].library is None and found[1].library == found[2].library


def test_unknown_name_offers_near_ones() -> None:
    assert "did you mean jemalloc" in complaint("jemaloc")
    assert "`heapyard allocators` lists" in complaint("qqqqqqqq")


def test_what_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")  # cargo included
    assert complaint("snmalloc") == "allocator snmalloc is not installed Run: heapyard allocators install snmalloc"


def test_without_cargo_a_crate_is_unavailable_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "needs cargo" in complaint("snmalloc")


@pytest.mark.parametrize("text", ["mine", "=./x.so", "mine=", "a b=./x.so", "a:b=./x.so", "system=./x.so"])
def test_malformed_allocator_option(text: str) -> None:
    with pytest.raises(UsageError):
        allocators.parse_allocator_option(text)


def test_allocator_option_gives_an_absolute_path() -> None:
    assert allocators.parse_allocator_option("mine=./a=b.so") == ("mine", Path.cwd() / "a=b.so")


# The user's own library


def test_own_library_is_described(bump: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(bump)
    (mine,) = allocators.find_allocators(["mine"], {"mine": link})
    assert (mine.library, mine.provenance) == (bump.resolve(), f"user: {link}")
    digest = subprocess.run(["sha256sum", str(bump)], capture_output=True, text=True, check=True).stdout.split()[0]
    assert mine.sha256 == digest


def test_own_library_that_cannot_serve(bump: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.so"
    content = bytearray(bump.read_bytes())
    content[18:20] = (8).to_bytes(2, "little")  # e_machine: MIPS
    foreign.write_bytes(content)
    cases = {
        tmp_path / "absent.so": "does not exist",
        tmp_path: "is not a file",
        Path("/bin/true"): "is a program, not a shared library",
        SOURCE: "is not an ELF file",
        foreign: "is built for 64-bit",
        Path(shutil.copy(bump, tmp_path / "with space.so")): "space or a colon",
        bump_malloc(tmp_path, "-Dmalloc=other", name="none.so"): "does not export malloc",
    }
    for library, reason in cases.items():
        said = complaint("mine", mine=library)
        assert reason in said and str(library) in said and "\n" not in said


def test_own_library_cannot_take_a_name_of_the_catalog(bump: Path) -> None:
    assert "choose another name" in complaint("glibc", glibc=bump)


def user_catalog(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config" / "heapyard" / "catalog.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_user_catalog_adds_allocators(bump: Path, tmp_path: Path) -> None:
    path = user_catalog(tmp_path, '[allocator.mine]\nlibrary = "own/bump.so"\nversion = "2"\nenv = { BUMP = "1" }\n'
                                  '[allocator.mine.options]\nprefix = "BUMP_"\nknown = ["memalign"]\n[program.other]\n')
    (path.parent / "own").mkdir()
    shutil.copy(bump, path.parent / "own" / "bump.so")
    mine, variant = allocators.find_allocators(["mine", "mine:memalign=9"])
    assert (mine.version, mine.env, mine.status) == ("2", {"BUMP": "1"}, "installed")
    assert variant.env == {"BUMP": "1", "BUMP_MEMALIGN": "9"}


def test_user_catalog_with_a_missing_library_spoils_nothing_else(tmp_path: Path) -> None:
    user_catalog(tmp_path, '[allocator.mine]\nlibrary = "absent.so"\n')
    assert allocators.find_allocators(["glibc"])
    assert "absent.so does not exist" in complaint("mine")


@pytest.mark.parametrize(("text", "said"), [
    ("[allocator.mine]\nlibary = 'x.so'\n", ":1: field 'allocator.mine.library' is missing"),
    ("[allocator.mine]\nlibrary = 'x.so'\ncolour = 'red'\n", ":3: field 'allocator.mine.colour' is not known here"),
    ("[allocator.glibc]\nlibrary = 'x.so'\n", "has the name of one in the catalog"),
    ("[allocator.mine]\nlibrary = 'x.so'\n[allocator.mine.options]\nprefix = 'A_'\n",
     "field 'allocator.mine.options.known' is missing"),
])
def test_user_catalog_mistakes_name_file_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    path = user_catalog(tmp_path, text)
    message = complaint("glibc")
    assert message.startswith(str(path)) and said in message


# Variants


def test_glibc_variant_reaches_the_allocator() -> None:
    (variant,) = allocators.find_allocators(["glibc:tcache=0,arena_max=3,glibc.pthread.rseq=0"])
    loader = elf_facts(variant.library).interpreter
    listing = [loader, "--list-tunables"]
    listed = subprocess.run(listing, env=variant.env, capture_output=True, text=True, check=True).stdout
    values = {line.split(":")[0]: line.split(": ")[1].split()[0] for line in listed.splitlines() if ": " in line}
    names = ("malloc.tcache_count", "malloc.arena_max", "pthread.rseq")
    assert [int(values[f"glibc.{name}"], 0) for name in names] == [0, 3, 0]


@pytest.mark.parametrize(("name", "said"), [
    ("glibc:tcash=0", "has no option 'tcash'"),
    ("glibc:glibc.malloc.tcash=0", "has no option 'tcash'"),
    ("glibc:tcache=many", "must be a whole number"),
    ("glibc:perturb=256", "must lie between 0 and 255"),
    ("glibc:", "write options as"),
    ("glibc:tcache", "write options as"),
    ("glibc:tcache=0,,", "write options as"),
    ("glibc:tcache=0,tcache=1", "gives option 'tcache' twice"),
    ("system:tcache=0", "takes no options"),
])
def test_variant_mistakes(name: str, said: str) -> None:
    assert said in complaint(name)


def test_unknown_option_lists_the_known_ones() -> None:
    known = complaint("glibc:tcash=0")
    assert "tcache," in known and "arena_max" in known


def test_range_of_a_tunable_is_the_machine_s_own() -> None:
    (glibc,) = allocators.find_allocators(["glibc"])
    low, high = list_tunables(glibc.library)["glibc.malloc.perturb"]
    allocators.find_allocators([f"glibc:perturb={low}", f"glibc:perturb={high}"])
    assert complaint(f"glibc:perturb={high + 1}")


def test_options_join_a_variable_that_is_already_set(bump: Path, tmp_path: Path) -> None:
    user_catalog(tmp_path, f'[allocator.mine]\nlibrary = "{bump}"\nenv = {{ CONF = "a:1" }}\n'
                           '[allocator.mine.options]\nvariable = "CONF"\nknown = ["calloc", "realloc"]\n')
    (variant,) = allocators.find_allocators(["mine:calloc=2,realloc=3"])
    assert variant.env == {"CONF": "a:1,calloc:2,realloc:3"}
    assert (variant.base, variant.title) == ("mine", "your own libbump.so, calloc=2,realloc=3")
    assert "has no option 'malloc'" in complaint("mine:malloc=1")


def test_a_value_that_would_end_its_own_option_is_refused(bump: Path, tmp_path: Path) -> None:
    user_catalog(tmp_path, f'[allocator.mine]\nlibrary = "{bump}"\n'
                           'options = { variable = "C", separator = ":", known = ["calloc"] }\n')
    assert "':' cannot be part of a value" in complaint("mine:calloc=1:free=2")


def test_split_name() -> None:
    assert split_name("jemalloc:narenas=1, dirty_decay_ms=0") == ("jemalloc", {"narenas": "1", "dirty_decay_ms": "0"})
    assert split_name("jemalloc") == ("jemalloc", {})


def test_every_installed_allocator_with_options_knows_those_listed() -> None:
    """Names that no library holds would be typing mistakes of the catalog."""
    peers = load_peers()
    system = platform.freedesktop_os_release()
    # The lists of a distribution's packages are those of Debian 12; its other generations have dropped some names.
    as_listed = (system["ID"], system.get("VERSION_ID")) == ("debian", "12")
    checked = 0
    for allocator in allocators.installed_allocators():
        form = peers[allocator.name].options if allocator.name in peers else None
        if not form or form.tunables:
            continue
        unheard = set(form.known) - set(known_options(allocator, form))
        if peers[allocator.name].origin == "debian":
            # A list that spans generations shares its newer names with those of the pinned builds, checked by themselves.
            for peer in peers.values():
                newer = peer.options if peer.origin == "crate" else None
                if newer and (newer.variable, newer.prefix) == (form.variable, form.prefix):
                    unheard -= set(newer.known)
        exact = as_listed or peers[allocator.name].origin == "crate"
        assert len(unheard) <= (0 if exact else len(form.known) // 5), f"{allocator.name}: {sorted(unheard)}"
        checked += 1
    assert checked, "no allocator with options is installed"


def test_an_option_of_another_version_is_refused(bump: Path, tmp_path: Path) -> None:
    """The library would ignore it in silence, and the variant would be measured as if it were one."""
    user_catalog(tmp_path, f'[allocator.mine]\nlibrary = "{bump}"\n'
                           'options = { prefix = "B_", known = ["memalign", "later"] }\n')
    assert allocators.find_allocators(["mine:memalign=1"])[0].env == {"B_MEMALIGN": "1"}
    assert complaint("mine:later=1") == "mine has no option 'later' It has memalign."


# Verification


def test_glibc_and_every_installed_allocator_serve_malloc() -> None:
    for allocator in allocators.installed_allocators():
        assert verify(allocator.library, allocator.env) == "", allocator.name


def test_a_complete_library_serves(bump: Path) -> None:
    assert verify(bump, {}) == ""


def test_a_library_that_leaves_part_of_the_family_to_another(tmp_path: Path) -> None:
    flaw = verify(bump_malloc(tmp_path, "-DWITHOUT_CALLOC", "-fno-builtin"), {})
    assert "the program takes calloc from" in flaw and "libc.so" in flaw


def test_a_library_that_ends_the_program(tmp_path: Path) -> None:
    assert "makes true end with exit code 3" in verify(bump_malloc(tmp_path, "-DEXIT_AT_LOAD"), {})


def test_a_library_the_loader_ignores(tmp_path: Path) -> None:
    assert "was not loaded" in verify(tmp_path / "absent.so", {})


def test_a_flaw_lasts_until_it_changes(bump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    library = Path(shutil.copy(bump, tmp_path / "own.so"))
    user_catalog(tmp_path, f'[allocator.mine]\nlibrary = "{library}"\n')
    (mine,) = allocators.find_allocators(["mine"])
    cache = FactsCache()
    cache.remember_verdict(mine, "makes true end with signal 11")
    cache.save()
    assert "broken" in complaint("mine") and "signal 11" in complaint("mine")
    os.utime(library, ns=(1, 1))
    assert allocators.find_allocators(["mine"])[0].status == "installed"


# Remembered facts


def test_digest_follows_the_file(bump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path / "state"))
    library = Path(shutil.copy(bump, tmp_path / "own.so"))
    before = allocators.find_allocators(["mine"], {"mine": library})[0].sha256
    with open(library, "ab") as file:
        file.write(b"more")
    assert allocators.find_allocators(["mine"], {"mine": library})[0].sha256 != before


def test_facts_are_remembered(bump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path))
    first = FactsCache()
    facts = first.facts(bump)
    first.save()
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("the file was read again"))
    assert FactsCache().facts(bump) == facts


def test_a_missing_state_folder_only_costs_time(bump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("HEAPYARD_STATE", str(blocked / "state"))
    assert allocators.find_allocators(["mine"], {"mine": bump})[0].sha256


@pytest.mark.parametrize("content", ["", "{", '"text"'])
def test_damaged_memory_is_forgotten(bump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setenv("HEAPYARD_STATE", str(tmp_path))
    (tmp_path / "library-facts.json").write_text(content)
    assert allocators.find_allocators(["mine"], {"mine": bump})[0].sha256


# Small parts


@pytest.mark.parametrize(("version", "upstream"), [
    ("5.3.0-1", "5.3.0"),
    ("2.0.9+ds-2", "2.0.9"),
    ("1:14.0.6-12", "14.0.6"),
    ("2021.8.0-2+deb12u1", "2021.8.0"),
    ("1:19.1.7-3~deb12u1", "19.1.7"),
])
def test_upstream_version(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


def test_peers_are_well_formed() -> None:
    peers = load_peers()
    assert next(iter(peers)) == "glibc" and sum(peer.default for peer in peers.values()) >= 6
    for peer in peers.values():
        assert peer.library_of in ("", *peers)
        assert not peer.recipe or (peer.recipe.lock / "Cargo.lock").is_file()


