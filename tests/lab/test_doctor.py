# SPDX-License-Identifier: Apache-2.0
"""The doctor's checks against kernels of every kind, made up as folders; its noise; its words and its JSON."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from yard import allocator

from heapyard.cli import doctor as cli_doctor
from heapyard.cli import doctor_noise
from heapyard.cli.doctor_noise import measure_noise
from heapyard.design.power import blocks_for
from heapyard.execute.machine import load as machine_load
from heapyard.execute.machine import memory as machine_memory
from heapyard.execute.machine import processor as machine_processor
from heapyard.execute.machine.examine import examine
from heapyard.execute.machine.environment import environment
from heapyard.execute.machine.files import Files
from heapyard.execute.machine.finding import write_command
from heapyard.model.errors import HeapyardError
from heapyard.model.experiment import TrialOutcome
from heapyard.model.metrics import PRIMARY_MEMORY
from heapyard.store import MachineLock

CPU = "sys/devices/system/cpu"
SUPPLY = "sys/class/power_supply"
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def kernel(tmp_path):
    """Builds a made-up kernel from {path: content}."""

    def make(contents: dict[str, str]) -> Files:
        for path, content in contents.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return Files(tmp_path)

    return make


# 144 MiB in each of four orders below 64 KiB; larger pieces do not count.
SCATTERED = """Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone   Normal  36864  18432   9216   0     5    0    0    0    0    0   2478
Node 1, zone   Normal      0      0      0   4608  5    0    0    0    0    0   2478"""


@pytest.mark.parametrize(
    "check, contents, severity, words",
    [
        (machine_processor.governor, {}, "ok", "not in the hands"),
        (machine_processor.governor, {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n"}, "ok", "performance"),
        (
            machine_processor.governor,
            {
                f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
                f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave",
            },
            "warn",
            "performance, powersave",
        ),
        (machine_processor.turbo, {f"{CPU}/intel_pstate/no_turbo": "1"}, "ok", "off"),
        (machine_processor.turbo, {f"{CPU}/intel_pstate/no_turbo": "0"}, "warn", "on"),
        (machine_processor.turbo, {f"{CPU}/cpufreq/boost": "1"}, "warn", "on"),
        (machine_processor.turbo, {f"{CPU}/cpufreq/boost": "0"}, "ok", "off"),
        (machine_processor.smt, {f"{CPU}/smt/active": "1"}, "warn", "on"),
        (machine_processor.smt, {f"{CPU}/smt/active": "0"}, "ok", "off"),
        (
            machine_processor.hypervisor,
            {"proc/cpuinfo": "flags : fpu hypervisor lm", "sys/class/dmi/id/sys_vendor": "QEMU"},
            "warn",
            "QEMU",
        ),
        (machine_processor.hypervisor, {"proc/cpuinfo": "flags : fpu lm"}, "ok", "none"),
        (
            machine_processor.battery,
            {f"{SUPPLY}/BAT0/type": "Battery", f"{SUPPLY}/BAT0/status": "Discharging"},
            "bad",
            "battery",
        ),
        (
            machine_processor.battery,
            {
                f"{SUPPLY}/BAT0/type": "Battery",
                f"{SUPPLY}/BAT0/status": "Charging",
                f"{SUPPLY}/AC/type": "Mains",
                f"{SUPPLY}/AC/online": "1",
            },
            "ok",
            "mains",
        ),
        (
            machine_processor.battery,
            {
                f"{SUPPLY}/mouse/type": "Battery",
                f"{SUPPLY}/mouse/status": "Discharging",
                f"{SUPPLY}/mouse/scope": "Device",
            },
            "ok",
            "no battery",
        ),
        (
            machine_processor.clocksource,
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc"},
            "ok",
            "tsc",
        ),
        (
            machine_processor.clocksource,
            {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
            "warn",
            "hpet",
        ),
        (
            machine_memory.huge_pages,
            {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"},
            "ok",
            "madvise",
        ),
        (
            machine_memory.huge_pages,
            {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"},
            "warn",
            "always",
        ),
        (machine_memory.swap, {"proc/meminfo": "SwapTotal: 2048 kB\nSwapFree: 1024 kB"}, "warn", "1 MiB"),
        (machine_memory.swap, {"proc/meminfo": "SwapTotal: 2048 kB\nSwapFree: 2048 kB"}, "ok", "unused"),
        (machine_memory.swap, {"proc/meminfo": "SwapTotal: 0 kB\nSwapFree: 0 kB"}, "ok", "none"),
        (machine_memory.free_memory, {"proc/meminfo": "MemAvailable: 8388608 kB"}, "ok", "8 GiB"),
        (machine_memory.scattered_memory, {"proc/buddyinfo": "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 9 2478"}, "ok", "together"),
        (machine_memory.scattered_memory, {"proc/buddyinfo": SCATTERED}, "warn", "576 MiB"),
        (machine_memory.scattered_memory, {}, "ok", "together"),
        (machine_memory.free_memory, {"proc/meminfo": "MemAvailable: 524288 kB"}, "warn", "512 MiB"),
        (machine_memory.free_memory, {"proc/meminfo": "MemAvailable: 65536 kB"}, "bad", "64 MiB"),
        (machine_memory.overcommit, {"proc/sys/vm/overcommit_memory": "0"}, "ok", "heuristic"),
        (machine_memory.overcommit, {"proc/sys/vm/overcommit_memory": "2"}, "warn", "strict"),
        (
            machine_memory.layout,
            {"proc/sys/kernel/randomize_va_space": "2", "proc/self/personality": "00000000"},
            "ok",
            "full",
        ),
        (machine_memory.layout, {"proc/sys/kernel/randomize_va_space": "1"}, "warn", "without the heap"),
        (machine_memory.layout, {"proc/sys/kernel/randomize_va_space": "0"}, "bad", "off"),
        (
            machine_memory.layout,
            {"proc/sys/kernel/randomize_va_space": "2", "proc/self/personality": "00040000"},
            "bad",
            "shell",
        ),
        (
            machine_load.pressure,
            {"proc/loadavg": "0.10 0.2 0.3", "proc/pressure/cpu": "some avg10=0.50 avg60=0 total=1"},
            "ok",
            "0.10",
        ),
        (
            machine_load.pressure,
            {"proc/loadavg": "9 9 9", "proc/pressure/cpu": "some avg10=7.00 avg60=0 total=1"},
            "warn",
            "7.0 %",
        ),
        (
            machine_load.pressure,
            {"proc/loadavg": "9 9 9", "proc/pressure/cpu": "some avg10=70.0 avg60=0 total=1"},
            "bad",
            "70.0 %",
        ),
        (machine_load.pressure, {"proc/loadavg": "9 9 9"}, "ok", "does not tell"),
    ],
)
def test_a_check_says_what_the_kernel_says(kernel, check, contents, severity, words):
    finding = check(kernel(contents))
    assert finding.severity == severity and words in finding.state
    assert bool(finding.effect) == bool(finding.remedy) == (severity != "ok")


@pytest.mark.parametrize(
    "contents, severity, words",
    [
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.stat": "",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            },
            "ok",
            "none",
        ),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.stat": "",
                "sys/fs/cgroup/a/cpu.stat": "",
                "sys/fs/cgroup/a/cpu.max": "150000 100000",
            },
            "warn",
            "1.5 processors",
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x",
                "sys/fs/cgroup/cpu/cpu.stat": "",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            "warn",
            "0.5 processors",
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/",
                "sys/fs/cgroup/cpu/cpu.stat": "",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            "ok",
            "none",
        ),
        ({}, "ok", "none"),
    ],
)
def test_quotas_of_both_kinds_of_cgroup(kernel, contents, severity, words):
    finding = {f.check: f for f in machine_load.load_findings(kernel(contents), 0)}["quota"]
    assert finding.severity == severity and words in finding.state


class MovingKernel(Files):
    """A made-up kernel whose counters have moved on by the second look."""

    def __init__(self, tmp_path: Path, later: dict[str, str]):
        super().__init__(tmp_path)
        self.later, self.reads = later, {}

    def text(self, path):
        self.reads[path] = self.reads.get(path, 0) + 1
        return self.later[path] if path in self.later and self.reads[path] > 1 else super().text(path)


def process(name: str, ticks: int) -> str:
    return f"42 ({name}) S 1 1 1 0 -1 4194560 1 2 3 4 {ticks} 0 0 0 20 0 1 0 5"


@pytest.mark.parametrize(
    "contents, later, check, severity, words",
    [
        (
            {"proc/42/stat": process("a (b) c", 0)},
            {"proc/42/stat": process("a (b) c", 100 * TICKS)},
            "other processes",
            "bad",
            "a (b) c",
        ),
        ({"proc/42/stat": process("x", 0)}, {"proc/42/stat": process("x", 0)}, "other processes", "ok", "idle"),
        (
            {"proc/stat": "cpu  10 0 10 80 0 0 0 0 0 0"},
            {"proc/stat": "cpu  90 0 20 80 0 0 0 10 0 0"},
            "steal",
            "bad",
            "10.0% now",
        ),
        (
            {"proc/stat": "cpu  900 0 10 80 0 0 0 10 0 0"},
            {"proc/stat": "cpu  990 0 10 80 0 0 0 10 0 0"},
            "steal",
            "warn",
            "0.0% now",
        ),
        (
            {"proc/stat": "cpu  10 0 10 80 0 0 0 0 0 0"},
            {"proc/stat": "cpu  20 0 10 80 0 0 0 0 0 0"},
            "steal",
            "ok",
            "0.0% now",
        ),
        ({"proc/vmstat": "pswpin 1\npswpout 1"}, {"proc/vmstat": "pswpin 4\npswpout 1"}, "swapping", "bad", "3 pages"),
    ],
)
def test_rates_are_what_grew_between_two_looks(kernel, tmp_path, contents, later, check, severity, words):
    kernel(contents)
    # A tenth of a second lies between the looks, and far more than that is said to have been used in it.
    findings = {
        f.check: f
        for f in machine_load.load_findings(MovingKernel(tmp_path, later), 0.1 if "proc/42/stat" in contents else 0)
    }
    assert findings[check].severity == severity and words in findings[check].state


def test_throttling_is_seen(kernel, tmp_path):
    kernel(
        {
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cpu.stat": "nr_throttled 3",
            "sys/fs/cgroup/cpu.max": "100000 100000",
        }
    )
    kernel_later = MovingKernel(tmp_path, {})
    folders = machine_load.quota_folders(kernel_later)
    before = machine_load._look(kernel_later, folders)
    kernel({"sys/fs/cgroup/cpu.stat": "nr_throttled 4"})
    finding = machine_load.quota(kernel_later, folders, before, machine_load._look(kernel_later, folders))
    assert (finding.severity, finding.state) == ("bad", "1 processors; used up just now")


def test_an_empty_kernel_frightens_nobody(tmp_path):
    """Whatever a system does not tell is unknown, not an error."""
    findings = examine(tmp_path / "results", root=tmp_path / "nothing", seconds=0)
    assert {f.check for f in findings if f.severity == "bad"} == set()
    assert len({f.check for f in findings}) == len(findings)


def test_this_machine_is_examined(tmp_path):
    findings = {f.check: f for f in examine(tmp_path, seconds=0)}
    assert str(tmp_path) in findings["results"].state
    assert all(f.severity in ("ok", "warn", "bad") and f.state for f in findings.values())
    assert all(bool(f.effect) == (f.severity != "ok") for f in findings.values())


def test_results_that_cannot_be_written_are_bad():
    assert machine_memory.disk(Path("/proc/nowhere")).severity == "bad"


def test_settings_of_allocators_in_the_shell_are_told():
    assert environment({"PATH": "/bin", "MALLOC_CONF": ""}).severity == "ok"
    finding = environment({"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "x", "HOME": "/"})
    assert (finding.severity, finding.command) == ("warn", "unset GLIBC_TUNABLES MALLOC_ARENA_MAX")


def test_counters_that_do_not_open_are_said(kernel):
    assert machine_processor.counters(kernel({}), opens=True).severity == "ok"
    assert machine_processor.counters(kernel({}), opens=False).severity == "warn"


def test_commands_are_pasteable(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert write_command("1", "/sys/a") == "echo 1 | sudo tee /sys/a"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert write_command("1", "/sys/a") == "echo 1 | tee /sys/a"


# --- the noise


class Machine:
    """Stands in for run_trial: known noise between the trials of a block, and a drift that blocks take out."""

    def __init__(self, cv: float, *, drift: float = 0.0, trips: int = 0, status: str = "ok"):
        self.random, self.cv, self.drift, self.trips, self.status = random.Random(5), cv, drift, trips, status
        self.launches = 0

    def __call__(self, program, treatment, settings, *, pad, folder, stop=None):
        self.launches += 1
        block = (self.launches - 2) // 2  # the first launch is the warm-up
        wall = math.exp(self.drift * block + self.random.gauss(0, math.sqrt(math.log1p(self.cv**2))))
        tripped = ("steal",) if 1 < self.launches <= 1 + 2 * self.trips else ()
        return TrialOutcome(self.status, reason="it crashed", metrics={"wall": wall, PRIMARY_MEMORY: 1e7}, tripped=tripped)


@pytest.fixture
def glibc():
    return allocator("glibc")


def blocks_within(monkeypatch, blocks: int) -> float:
    """Seconds of a made-up clock, one per reading of it, that hold about so many blocks."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(doctor_noise.time, "monotonic", lambda: float(next(ticks)))
    return blocks * 7.0


@pytest.mark.parametrize("cv", [0.005, 0.03])
def test_noise_is_recovered_beyond_drift(monkeypatch, glibc, cv):
    noise = measure_noise(glibc, blocks_within(monkeypatch, 400), Machine(cv, drift=0.01))
    assert noise.blocks > 100
    assert noise.time.low <= cv <= noise.time.high
    assert noise.time.low < noise.time.cv < noise.time.high
    assert noise.memory.cv == 0


def test_little_time_still_gives_three_blocks(glibc):
    machine = Machine(0.01)
    noise = measure_noise(glibc, 1e-9, machine)
    assert (noise.blocks, machine.launches) == (doctor_noise.LEAST_BLOCKS, 1 + 2 * doctor_noise.LEAST_BLOCKS)


def test_disturbed_blocks_are_left_out_and_told(monkeypatch, glibc):
    noise = measure_noise(glibc, blocks_within(monkeypatch, 20), Machine(0.01, trips=4))
    assert (noise.disturbed, noise.reasons) == (4, ("steal",))


def test_a_trial_that_fails_is_no_noise(glibc):
    with pytest.raises(HeapyardError, match="it crashed"):
        measure_noise(glibc, 1, Machine(0.01, status="failed"))


# --- the command


@pytest.fixture
def doctor(monkeypatch, glibc):
    """Runs the command with a made-up machine in the place of trials."""
    noise = measure_noise(glibc, blocks_within(monkeypatch, 40), Machine(0.01))
    monkeypatch.undo()
    monkeypatch.setattr(cli_doctor, "_measure", lambda seconds, quiet: (noise, ""))
    return lambda *arguments: CliRunner().invoke(cli_doctor.command, arguments)


def test_words_fit_eighty_columns_and_do_not_depend_on_colour(doctor):
    result = doctor()
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert [line for line in result.output.splitlines() if len(line) > 80 and not line.lstrip().startswith("$")] == []
    assert "Noise of one trial" in result.output and "0.5 %" in result.output


def test_json_holds_everything(doctor):
    told = json.loads(doctor("--json").output)
    assert {"check", "severity", "state", "effect", "remedy", "command"} == set(told["checks"][0])
    by_difference = {found["difference"]: found["blocks"] for found in told["time_differences"]}
    assert by_difference == {d: blocks_for(d, told["noise"]["time"]["cv"]) for d in cli_doctor.DIFFERENCES}


def test_worst_comes_first(doctor):
    severities = [cli_doctor.ORDER[check["severity"]] for check in json.loads(doctor("--json").output)["checks"]]
    assert severities == sorted(severities)


def test_without_noise_nothing_runs(monkeypatch):
    def fail(*_: object, **__: object):
        raise AssertionError("nothing may run")

    monkeypatch.setattr(cli_doctor, "_measure", fail)
    assert CliRunner().invoke(cli_doctor.command, ["--no-noise"]).exit_code == 0


def test_another_experiment_is_told_not_disturbed(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAPYARD_LOCK", str(tmp_path / "lock"))
    lock = MachineLock()
    lock.acquire("a test")
    try:
        result = CliRunner().invoke(cli_doctor.command, [])
    finally:
        lock.release()
    assert result.exit_code == 0 and "another experiment" in result.output
