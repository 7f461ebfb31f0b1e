# SPDX-License-Identifier: Apache-2.0
"""The machine as it is when an experiment begins and ends: everything a reader needs to judge or repeat it."""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path

from ..model.huge_pages import FACT
from .control_groups import cpu_quota
from .guards import read_guards
from .machine.files import Files
from .machine.memory import THP, scattered_bytes, takes_free_pages

# Variables by which allocators take orders; whatever of them is set reaches programs that inherit the environment.
TUNABLES = (
    "GLIBC_TUNABLES",
    "MALLOC_",
    "MIMALLOC_",
    "TCMALLOC_",
    "SCUDO_OPTIONS",
    "JE_MALLOC_CONF",
    "TBB_MALLOC_",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_BIND_NOW",
)

# One value per file; a file the kernel does not have is simply absent from the snapshot.
_FILES = {
    "kernel_command_line": "proc/cmdline",
    "load": "proc/loadavg",
    "uptime": "proc/uptime",
    "pressure_cpu": "proc/pressure/cpu",
    "pressure_memory": "proc/pressure/memory",
    "aslr": "proc/sys/kernel/randomize_va_space",
    "overcommit": "proc/sys/vm/overcommit_memory",
    "swappiness": "proc/sys/vm/swappiness",
    "max_map_count": "proc/sys/vm/max_map_count",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "perf_event_paranoid": "proc/sys/kernel/perf_event_paranoid",
    FACT: THP,
    "huge_pages_defrag": "sys/kernel/mm/transparent_hugepage/defrag",
    "huge_pages_khugepaged_defrag": "sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
    "governor": "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "no_turbo": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "boost": "sys/devices/system/cpu/cpufreq/boost",
    "smt": "sys/devices/system/cpu/smt/active",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "cgroup_cpu_max": "sys/fs/cgroup/cpu.max",
    "cgroup_memory_max": "sys/fs/cgroup/memory.max",
}
_CPU = {"vendor_id": "vendor", "model name": "model", "microcode": "microcode", "cpu MHz": "mhz", "cache size": "cache"}
_MEMORY = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "HugePages_Total")
_LIMITS = {
    "address_space": resource.RLIMIT_AS,
    "stack": resource.RLIMIT_STACK,
    "locked": resource.RLIMIT_MEMLOCK,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}


def snapshot(root: Path = Path("/")) -> dict[str, object]:
    """JSON-able facts; never raises for what a machine does not tell. About forty small reads."""
    files = Files(root)
    found: dict[str, object] = {name: value for name, path in _FILES.items() if (value := files.text(path)) is not None}
    found["host"] = platform.node()
    found["kernel"] = platform.release()
    found["architecture"] = platform.machine()
    found["distribution"] = _release(files)
    found["libc"] = " ".join(platform.libc_ver()) or "unknown"
    found["python"] = sys.version.split()[0]
    found["cpu"] = _cpu(files)
    found["cpus_online"] = os.cpu_count()
    found["cpus_allowed"] = sorted(os.sched_getaffinity(0))
    found["memory_kib"] = {name: value for name, value in files.table("proc/meminfo").items() if name in _MEMORY}
    found["host_takes_free_pages"] = takes_free_pages(files)
    found["scattered_bytes"] = scattered_bytes(files)
    if (quota := cpu_quota(files)) is not None:
        found["cpu_quota"] = quota
    found["limits"] = {name: resource.getrlimit(number)[0] for name, number in _LIMITS.items()}
    found["tunables"] = {n: v for n, v in sorted(os.environ.items()) if n.startswith(TUNABLES)}
    found["environment_bytes"] = sum(len(n) + len(v) + 2 for n, v in os.environ.items())
    found["counters"] = read_guards(root)
    return found


def _release(files: Files) -> str:
    lines = (files.text("etc/os-release") or "").splitlines()
    return next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "unknown")


def _cpu(files: Files) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in (files.text("proc/cpuinfo") or "").splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in _CPU:
            found.setdefault(_CPU[name], value)
        elif name == "flags":
            found["hypervisor"] = "hypervisor" in value.split()
    return found
