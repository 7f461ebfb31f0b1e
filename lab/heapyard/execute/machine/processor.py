# SPDX-License-Identifier: Apache-2.0
"""The processor: how evenly it runs, who shares it, and what it can count."""

from __future__ import annotations

import os
import platform

from .files import Files
from .finding import Finding, write_command

CPU = "sys/devices/system/cpu"
GOVERNORS = f"{CPU}/cpu*/cpufreq/scaling_governor"
SMT = f"{CPU}/smt/control"
CLOCK = "sys/devices/system/clocksource/clocksource0"
# Read by the C library without a system call.
QUICK_CLOCKS = {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}


def processor_findings(files: Files) -> list[Finding]:
    return [
        processors(),
        governor(files),
        turbo(files),
        smt(files),
        hypervisor(files),
        battery(files),
        clocksource(files),
        counters(files),
    ]


def processors() -> Finding:
    usable = len(os.sched_getaffinity(0))
    if usable > 1:
        return Finding("processors", "ok", f"{usable} usable")
    return Finding(
        "processors",
        "warn",
        "1 usable",
        "the program and the sampler of its memory take turns",
        "give the machine or the container a second processor",
    )


def governor(files: Files) -> Finding:
    found = {files.text(path) or "unknown" for path in files.glob(GOVERNORS)}
    if not found:
        return Finding("governor", "ok", "not in the hands of this system")
    state = ", ".join(sorted(found))
    if found == {"performance"}:
        return Finding("governor", "ok", state)
    return Finding(
        "governor",
        "warn",
        state,
        "the clock follows the load: short programs run slower than long ones",
        "hold the clock",
        write_command("performance", "/" + GOVERNORS),
    )


def turbo(files: Files) -> Finding:
    intel, other = f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpufreq/boost"
    off, on = files.number(intel), files.number(other)
    if off is None and on is None:
        return Finding("turbo", "ok", "not in the hands of this system")
    if off == 1 or (off is None and on == 0):
        return Finding("turbo", "ok", "off")
    return Finding(
        "turbo",
        "warn",
        "on",
        "the clock depends on temperature and on how many processors are busy",
        "switch it off",
        write_command("1", f"/{intel}") if off is not None else write_command("0", f"/{other}"),
    )


def smt(files: Files) -> Finding:
    if files.number(f"{CPU}/smt/active") != 1:
        return Finding("SMT", "ok", "off or not there")
    return Finding(
        "SMT",
        "warn",
        "on",
        "two threads share one core, and so slow each other by chance",
        "switch it off, or keep each core's second thread free with --pin",
        write_command("off", f"/{SMT}"),
    )


def hypervisor(files: Files) -> Finding:
    flags = set((files.text("proc/cpuinfo") or "").split())
    if "hypervisor" not in flags:
        return Finding("hypervisor", "ok", "none reported")
    vendor = files.text("sys/class/dmi/id/sys_vendor")
    return Finding(
        "hypervisor",
        "warn",
        f"a virtual machine{f' ({vendor})' if vendor else ''}",
        "neighbours take caches and memory bandwidth unseen, and processor time seen as steal",
        "measure on a machine of your own if the intervals come out too wide",
    )


def battery(files: Files) -> Finding:
    supplies = [path.rpartition("/")[0] for path in files.glob("sys/class/power_supply/*/type")]
    mains = [files.number(f"{s}/online") for s in supplies if files.text(f"{s}/type") in ("Mains", "USB")]
    draining = any(files.text(f"{s}/status") == "Discharging" for s in supplies if files.text(f"{s}/scope") != "Device")
    if not draining:
        return Finding("power", "ok", "mains" if any(mains) else "no battery in use")
    return Finding(
        "power", "bad", "battery", "the system saves power: the clock sinks during the experiment", "plug it in"
    )


def clocksource(files: Files) -> Finding:
    current = files.text(f"{CLOCK}/current_clocksource")
    if current is None or current in QUICK_CLOCKS:
        return Finding("clock", "ok", current or "unknown")
    available = (files.text(f"{CLOCK}/available_clocksource") or "").split()
    better = next((name for name in available if name in QUICK_CLOCKS), None)
    return Finding(
        "clock",
        "warn",
        current,
        "programs that ask for the time pay a system call for each answer; the order in which profile shows the events of "
        "different threads may be wrong",
        f"change to {better}" if better else "see why the kernel distrusts the processor's own counter (dmesg)",
        write_command(better, f"/{CLOCK}/current_clocksource") if better else "dmesg | grep -i clocksource",
    )


def counters(files: Files, opens: bool | None = None) -> Finding:
    """Can instructions be counted? `opens`: the answer of the kernel, asked if not given."""
    if can_count_instructions() if opens is None else opens:
        return Finding("counters", "ok", "instructions can be counted")
    effect = "instructions are counted in a separate, slow launch under valgrind"
    level = files.number("proc/sys/kernel/perf_event_paranoid")
    if level is not None and level > 2 and os.geteuid() != 0:
        return Finding(
            "counters",
            "warn",
            f"closed to you (perf_event_paranoid is {level})",
            effect,
            "open them",
            "sudo sysctl kernel.perf_event_paranoid=2",
        )
    return Finding("counters", "warn", "none", effect, "let the host pass its counters on to this machine, if it can")


def can_count_instructions() -> bool:
    """Does the kernel open a hardware counter of user-mode instructions for this process?"""
    import ctypes

    number = {"x86_64": 298, "aarch64": 241, "riscv64": 241}.get(platform.machine())  # perf_event_open
    if number is None:
        return False
    # struct perf_event_attr, first version: hardware, 64 bytes, instructions; exclude kernel and hypervisor.
    attributes = (ctypes.c_uint32 * 16)()
    attributes[1], attributes[2] = ctypes.sizeof(attributes), 1
    attributes[10] = 1 << 5 | 1 << 6
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    descriptor = libc.syscall(
        ctypes.c_long(number), attributes, ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_ulong(8)
    )  # PERF_FLAG_FD_CLOEXEC
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True
