# SPDX-License-Identifier: Apache-2.0
"""What depends on the processor (docs/processors.md), on processors that this machine does not have.

QEMU's user mode runs our programs with instructions masked, and stops them at one that the model lacks. It has no ptrace:
attaching as a whole is tried in a virtual machine, on request. That needs qemu-system-x86, busybox, cpio and a kernel in
/boot.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from profiled import program
from virtual_machine import boot, file_system

from heapyard.catalog.own_heaps import own_heaps
from heapyard.model import places

# The least that an x86-64 program may rely on; XSAVE without AVX; AVX2; all that the emulator has.
MASKED = ["qemu64,-xsave,-sse3,-ssse3,-sse4.1,-sse4.2,-popcnt,-cx16", "Nehalem", "max,-avx,-avx2", "Haswell", "max"]
TESTS = [
    # /proc of the emulator does not tell of resident memory.
    ("kit_test", "-ResidentMemory.*"),
    ("tracer_test", "ChainMemoTest.*:Samples.*:FrameRule.*:RuleCache.*:UnwindTable.*"),
    ("heap_test", "*Composition*/Bfm"),
    ("injector_test", "InterruptedCall.*"),
]


def emulated(processor: str, *words: object, **options: object) -> subprocess.CompletedProcess[str]:
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if emulator is None:
        pytest.skip("this machine has no qemu-x86_64 (Debian's package qemu-user)")
    return subprocess.run([emulator, "-cpu", processor, *map(str, words)], capture_output=True, text=True, timeout=300, **options)


@pytest.mark.parametrize("processor", MASKED)
def test_the_call_that_attaching_makes_keeps_every_register(processor: str):
    with subprocess.Popen(["sleep", "1"], stdout=subprocess.PIPE) as soon:  # its end is the end of the program's input
        done = emulated(processor, program("registers_kept"), "itself", stdin=soon.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds, _, ending = done.stdout.splitlines()
    assert int(ending.removeprefix("right ")) > 0
    assert ("AVX" in kinds) == (processor in ("Haswell", "max"))


@pytest.mark.parametrize("processor", [MASKED[0], pytest.param(MASKED[-1], marks=pytest.mark.on_request)])
@pytest.mark.parametrize("name, only", TESTS, ids=[name for name, _ in TESTS])
def test_nothing_needs_an_instruction_that_may_be_missing(processor: str, name: str, only: str):
    done = emulated(processor, program(name), f"--gtest_filter={only}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "[  PASSED  ] 0 tests" not in done.stdout


def test_the_least_processor_is_really_masked():
    """Or the tests above could not fail: the tests' own AVX code is stopped where the model has none."""
    seen = {processor: emulated(processor, program("registers_kept"), stdin=subprocess.DEVNULL).stdout for processor in MASKED}
    assert seen[MASKED[0]].startswith("general, x87, SSE\n")
    assert seen["max"].startswith("general, x87, SSE, AVX\n")


SCRIPT = """
attach() { injector --pid "$1" --library "$2" --entry "$3" --argument /nobody; }
try() {
  rm -f /tmp/input; mkfifo /tmp/input
  "$@" < /tmp/input > /tmp/output & pid=$!
  exec 3> /tmp/input
  until grep -q -e working -e lacking /tmp/output; do usleep 10000; done
  turn=0
  while [ $turn -lt 10 ] && ! grep -q lacking /tmp/output; do
    turn=$((turn + 1))
    attach $pid libc.so.6 atoi > /tmp/told || { echo "$*: not called"; cat /tmp/told /tmp/output; exit 1; }
    attach $pid /bin/libheapyard_tracer.so heapyard_trace_attach > /tmp/told
    grep -q 'ending called' /tmp/told && grep -q 'result 2' /tmp/told || { echo "$*: not attached"; cat /tmp/told; exit 1; }
    grep -q 'mended 0' /tmp/told || { echo "$*: registers were not kept"; exit 1; }
    attach $pid /does/not/exist atoi | grep -q 'ending not-loaded' || { echo "$*: loaded nothing"; exit 1; }
  done
  exec 3>&-
  wait $pid; code=$?
  echo "$*: $(tail -n 1 /tmp/output)"
  [ $code = 0 ] || [ $code = 77 ] || exit 1
}
echo "processors: $(nproc)"
try /bin/registers_kept
for way in nanosleep read poll epoll futex; do try /bin/interrupted $way; done
for way in allocates forks threads signals; do try /bin/restless $way; done
"""


@pytest.mark.on_request
@pytest.mark.parametrize("processor, count", [
    ("qemu64,-xsave", 1),  # FXSAVE
    ("Nehalem", 2),
    ("max,-avx,-avx2", 2),
    ("Haswell", 4),
    ("max", 8),  # protection keys, addresses of 57 bits
    ("max", 64),
])
def test_attaching_on_another_processor(tmp_path: Path, processor: str, count: int):
    used = ["injector", "registers_kept", "interrupted", "restless"]
    archive = file_system(tmp_path, [*map(program, used), places.native("libheapyard_tracer.so")], SCRIPT)
    lines = boot(archive, processor, count, seconds=1500)
    assert f"processors: {count}" in lines
    answers = [line for line in lines if ": right " in line]
    assert len(answers) == 10, lines
    print(processor, count, *answers, sep="\n  ")


CROSS = "aarch64-linux-gnu"
GROUPS = ("conformance", "c++", "process", "stress")  # limits and resident memory are those of the emulator
WATCHED = 8 << 30  # bytes of address space: a heap that maps more is refused, and does not eat the machine


@pytest.fixture(scope="module")
def aarch64(root: Path) -> Path:
    """The cases of `heapyard check`, compiled for AArch64, and heaps as they are asked for."""
    for tool in (f"{CROSS}-g++", "qemu-aarch64", "cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"this machine has no {tool} (Debian's packages g++-aarch64-linux-gnu and qemu-user)")
    folder = places.state() / "build" / "aarch64"
    subprocess.run(["cmake", "-S", root, "-B", folder, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
                    "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_C_COMPILER={CROSS}-gcc",
                    f"-DCMAKE_CXX_COMPILER={CROSS}-g++"], check=True, capture_output=True)
    compiled(folder, "check_heap", "check_first", "check_plugin")
    return folder


def compiled(folder: Path, *targets: str) -> None:
    made = subprocess.run(["cmake", "--build", folder, "--target", *targets], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-4000:]


def checked(folder: Path, label: str, heap: str = "") -> dict[str, object]:
    """What a case found under an emulated AArch64, with a heap of ours or with the C library's."""
    library = ["-E", f"LD_PRELOAD={folder / 'lib' / f'lib{heap}.so'}"] if heap else []
    emulator = shutil.which("qemu-aarch64")
    env = {"PATH": "/usr/bin:/bin", "QEMU_LD_PREFIX": f"/usr/{CROSS}", "HEAPYARD_EMULATOR": str(emulator)}
    process = subprocess.Popen([str(emulator), *library, str(folder / "bin" / "check_heap"), label, "quick"], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (WATCHED, WATCHED)))
    try:
        out, errors = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        return {"verdict": "fail", "said": "hangs"}
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    last = out.splitlines()[-1] if out else ""
    return json.loads(last) if last.startswith("{") else {"verdict": "fail", "said": f"{process.returncode}: {errors[-300:]}"}


@pytest.fixture(scope="module")
def passed_by_glibc(aarch64: Path) -> list[str]:
    """The cases that the emulator itself does not break: its forks and threads leak and lose locks."""
    listed = subprocess.run([places.native("check_heap"), "--list"], capture_output=True, text=True, check=True).stdout
    labels = [f"{c['group']}/{c['name']}" for c in json.loads(listed) if c["group"] in GROUPS and not c["information"]]
    sound = [label for label in labels if checked(aarch64, label)["verdict"] in ("pass", "note")]
    assert len(sound) > 0.8 * len(labels), set(labels) - set(sound)
    return sound


@pytest.mark.on_request
@pytest.mark.parametrize("heap", [heap.name for heap in own_heaps()])
def test_our_heaps_on_aarch64(aarch64: Path, passed_by_glibc: list[str], heap: str):
    compiled(aarch64, f"heap_{heap}")
    found = {label: checked(aarch64, label, heap) for label in passed_by_glibc}
    faults = {label: answer["said"] for label, answer in found.items() if answer["verdict"] == "fail"}
    print(f"{heap}: {len(found) - len(faults)} of {len(found)} cases pass")
    assert faults == {}
