# SPDX-License-Identifier: Apache-2.0
"""Where things are when Heapyard came as a wheel, and the heaps as another project's build finds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heapyard.model import places

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(heapyard 0.1 REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE heapyard::bfm)
add_executable(static main.c)
target_link_libraries(static PRIVATE heapyard::scalloc-static)
"""
MAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  Dl_info of;
  free(malloc(100));
  puts(dladdr((void *)malloc, &of) ? of.dli_fname : "?");
}
"""


def carry_out(*words: object, **named: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **named)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a wheel is unpacked into, from the native parts that are built already."""
    site = tmp_path_factory.mktemp("site")
    leave = shutil.ignore_patterns("__pycache__", "src")
    shutil.copytree(root / "lab" / "heapyard", site / "heapyard", ignore=leave)
    for carried in ("programs", "peers", "studies", "soak", "lab/native/fuzz/corpus"):
        shutil.copytree(root / carried, site / "heapyard" / "yard" / carried, ignore=leave)
    build = places.state() / "build" / "release"
    carry_out("cmake", "--install", build, "--component", "lab", "--prefix", site / "heapyard" / "native")
    return site


def installed(wheel: Path, home: Path, *words: object) -> str:
    """What the lab of that folder says, to a user who has no checkout."""
    start = f"import sys; sys.path.insert(0, {str(wheel)!r}); from heapyard.__main__ import main; main()"
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "HEAPYARD_OFFLINE": "1", "HEAPYARD_LOCK": str(home / "lock")}
    return carry_out(sys.executable, "-I", "-c", start, *words, env=env, cwd=home)


def test_a_wheel_compares_checks_and_profiles_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    assert "(wheel of " in installed(wheel, tmp_path, "--version")
    listed = installed(wheel, tmp_path, "allocators")
    assert str(wheel) in listed and all(name in listed for name in ("glibc", "bfm", "scalloc-sampled", "mimalloc3"))
    assert "passes" in installed(wheel, tmp_path, "check", "bfm", "--only", "conformance/zero-bytes")
    answer = installed(wheel, tmp_path, "compare", "--allocators", "glibc,bfm", "--blocks", 2, "--", "sh", "-c", ":")
    assert "bfm" in answer
    assert "under libc.so.6" in installed(wheel, tmp_path, "profile", "--", "sh", "-c", "sleep 0.1")
    assert (tmp_path / ".local/share/heapyard/results").is_dir() and not (wheel / "heapyard" / ".heapyard").exists()


def test_a_wheel_carries_studies_programs_and_mutators(wheel: Path, tmp_path: Path) -> None:
    assert "xalan" in installed(wheel, tmp_path, "programs")
    planned = installed(wheel, tmp_path, "run", "--plan", "studies/quick.toml")
    assert "blocks" in planned


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("prefix")
    carry_out("cmake", "--install", places.state() / "build" / "release", "--component", "heaps", "--prefix", prefix)
    return prefix


def test_another_project_links_the_heaps_by_its_cmake_package(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER)
    (tmp_path / "main.c").write_text(MAIN)
    carry_out("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    carry_out("cmake", "--build", tmp_path / "build")
    assert carry_out(tmp_path / "build" / "shared").strip().endswith("libbfm.so")
    assert carry_out(tmp_path / "build" / "static").strip().endswith("static")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="this machine has no pkg-config")
def test_another_project_links_the_heaps_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    (folder,) = prefix.glob("**/pkgconfig")
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder), "LD_LIBRARY_PATH": str(folder.parent)}
    for package, provider in (("heapyard-elfmalloc", "libelfmalloc.so"), ("heapyard-bfm-static", "main")):
        words = carry_out("pkg-config", "--libs", package, env=env).split()
        carry_out("cc", tmp_path / "main.c", "-o", tmp_path / "main", *words)
        assert carry_out(tmp_path / "main", env=env).strip().endswith(provider)


def test_the_examples_of_heapyards_own_interface_build_and_run(root: Path, prefix: Path, tmp_path: Path) -> None:
    carry_out("cmake", "-S", root / "examples/interface", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    carry_out("cmake", "--build", tmp_path / "build")
    served, statistics = carry_out(tmp_path / "build" / "requests").splitlines()
    assert served.endswith("bytes served")
    told = json.loads(statistics)
    assert told["name"] == "heapyard" and told["limit"] == 64 << 20
    assert told["bytes"]["first_class_spans"] == 0 and told["bytes"]["free_dirty"] == 0
    rounds = carry_out(tmp_path / "build" / "resource").splitlines()
    assert len(rounds) == 3 and len(set(rounds)) == 1 and rounds[0].startswith("10000 words in ")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="this machine has no pkg-config")
def test_heapyards_own_interface_by_pkg_config(root: Path, prefix: Path, tmp_path: Path) -> None:
    (folder,) = prefix.glob("**/pkgconfig")
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder), "LD_LIBRARY_PATH": str(folder.parent)}
    for package in ("heapyard-heapyard", "heapyard-heapyard-static"):
        words = carry_out("pkg-config", "--cflags", "--libs", package, env=env).split()
        carry_out("cc", root / "examples/interface/requests.c", "-o", tmp_path / "requests", *words)
        assert "bytes served" in carry_out(tmp_path / "requests", env=env)


@pytest.mark.on_request
def test_a_real_wheel_in_a_fresh_environment(root: Path, tmp_path: Path) -> None:
    carry_out(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, root)
    (wheel,) = tmp_path.glob("heapyard-*.whl")
    carry_out(sys.executable, "-m", "venv", tmp_path / "venv")
    bin_ = tmp_path / "venv" / "bin"
    carry_out(bin_ / "pip", "install", wheel)
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "HEAPYARD_OFFLINE": "1"}
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "heapyard.1").exists()
    told = carry_out(bin_ / "heapyard", "--version", env=env, cwd=tmp_path)
    assert "(wheel of " in told
    answer = carry_out(
        bin_ / "heapyard", "compare", "--allocators", "glibc,bfm", "--blocks", 2, "--", "sh", "-c", ":", env=env, cwd=tmp_path
    )
    assert "bfm" in answer


@pytest.mark.on_request
def test_a_debian_package_holds_the_heaps(tmp_path: Path) -> None:
    carry_out("cpack", "-B", tmp_path, cwd=places.state() / "build" / "release")
    (package,) = tmp_path.glob("heapyard-heaps_*.deb")
    carry_out("dpkg-deb", "-x", package, tmp_path / "unpacked")
    (library,) = (tmp_path / "unpacked").glob("**/libelfmalloc.so")
    assert carry_out("sh", "-c", "echo served", env={"LD_PRELOAD": str(library)}) == "served\n"


def container_engine() -> str:
    """A program that builds images here, "" if none does: a client without its daemon does not count."""
    for engine in ("podman", "docker"):
        if shutil.which(engine) and subprocess.run([engine, "info"], capture_output=True, timeout=60).returncode == 0:
            return engine
    return ""


def test_the_image_is_made_of_what_is_here(root: Path) -> None:
    recipe = (root / "packaging" / "Containerfile").read_text()
    sources = re.findall(r"/src/(\S+)", recipe)
    assert sources and all((root / name).exists() for name in sources)
    known = (root / "setup" / "debian-packages").read_text()
    built = re.search(r"AS build\n.*?recommends (.*?)\nCOPY", recipe, re.DOTALL)
    assert built and [word for word in built[1].split() if word != "\\" and word not in known] == []


@pytest.mark.on_request
def test_the_image_compares_and_checks(root: Path) -> None:
    """HEAPYARD_IMAGE_BASE names an image of Debian where no registry can be reached."""
    if not (engine := container_engine()):
        pytest.skip("nothing builds images on this machine")
    base = os.environ.get("HEAPYARD_IMAGE_BASE", "debian:12-slim")
    carry_out(
        engine, "build", "--build-arg", f"BASE={base}", "--file", root / "packaging/Containerfile", "--tag", "heapyard-test", root
    )
    assert "(wheel of " in carry_out(engine, "run", "--rm", "heapyard-test", "--version")
    answer = carry_out(
        engine, "run", "--rm", "heapyard-test", "compare", "--allocators", "glibc,bfm", "--blocks", 2, "--", "sh", "-c", ":"
    )
    assert "bfm" in answer
    assert "passes" in carry_out(engine, "run", "--rm", "heapyard-test", "check", "bfm", "--only", "conformance/zero-bytes")
