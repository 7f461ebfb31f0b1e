# SPDX-License-Identifier: Apache-2.0
"""What disturbs a trial from outside: read from the kernel's files, judged by fixed limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from heapyard.execute.guards import LEAST_SPAN, OTHERS_LIMIT, STEAL_LIMIT, judge, read_guards

CPUS = 4
SPAN = CPUS * LEAST_SPAN * 10  # CPU seconds: a trial long enough to be judged


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: CPUS)


def counters(steal: float = 0.0, busy: float = 0.0, span: float = SPAN, **more: float) -> dict[str, float]:
    return {"steal": steal, "busy": busy, "all": span, **more}


START = counters(span=0.0, pswpin=7.0, pswpout=7.0, throttled=7.0, cpu_wait=7.0)
QUIET = counters(busy=1.0, pswpin=7.0, pswpout=7.0, throttled=7.0, cpu_wait=7.5)


def kernel(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_counters_are_read_in_seconds(tmp_path: Path) -> None:
    root = kernel(
        tmp_path,
        {
            "proc/stat": "cpu  100 20 30 400 50 6 7 80 90 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
            "proc/vmstat": "nr_free_pages 5\npswpin 3\npswpout 4\n",
            "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=9\n",
            "proc/self/cgroup": "0::/user.slice/job\n",
            "sys/fs/cgroup/user.slice/cpu.stat": "usage_usec 5\nnr_throttled 4\n",
            "sys/fs/cgroup/user.slice/job/cpu.stat": "usage_usec 5\nnr_throttled 1\n",
        },
    )
    found = read_guards(root)
    # Ticks of 1/100 s. Guest time (90, 9) is already in user time and is not counted twice.
    assert found["steal"] == pytest.approx(0.80) and found["busy"] == pytest.approx(1.63)
    assert found["all"] == pytest.approx(6.93)
    assert (found["pswpin"], found["pswpout"], found["cpu_wait"]) == (3.0, 4.0, 2.5)
    assert found["throttled"] == 5.0  # the service's own quota, and its user's


def test_a_kernel_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    assert read_guards(tmp_path) == {}
    assert judge({}, {}, 1.0) == ({}, ())


def test_this_machine_tells_its_time() -> None:
    assert {"steal", "busy", "all"} <= read_guards().keys()


def test_a_quiet_trial_passes() -> None:
    readings, tripped = judge(START, QUIET, own_cpu=1.0)
    assert tripped == ()
    assert readings["steal_share"] == readings["others_share"] == readings["throttled"] == 0.0
    assert readings["cpu_wait"] == 0.5


@pytest.mark.parametrize(
    ("change", "own", "words"),
    [
        ({"steal": SPAN * (STEAL_LIMIT + 0.01)}, 1.0, "other guests of the host took 6% of the CPU time"),
        ({"busy": 1.0 + SPAN * (OTHERS_LIMIT + 0.01)}, 1.0, "other processes used 26% of the CPU time"),
        ({"throttled": 8.0}, 1.0, "the control group was throttled"),
        ({"pswpin": 8.0}, 1.0, "pages were swapped in"),
        ({"pswpout": 8.0}, 1.0, "pages were swapped out"),
    ],
)
def test_each_guard_trips_beyond_its_limit(change: dict[str, float], own: float, words: str) -> None:
    assert judge(START, QUIET | change, own)[1] == (words,)


def test_limits_themselves_do_not_trip() -> None:
    at_limit = QUIET | {"steal": SPAN * STEAL_LIMIT, "busy": 1.0 + SPAN * OTHERS_LIMIT}
    assert judge(START, at_limit, 1.0)[1] == ()


def test_the_trials_own_time_is_not_that_of_others() -> None:
    """Four threads fill the machine: nobody else has used anything."""
    readings, tripped = judge(START, QUIET | {"busy": SPAN}, own_cpu=SPAN)
    assert readings["others_share"] == 0.0 and not tripped


def test_a_trial_shorter_than_the_kernels_ticks_is_not_judged_by_shares() -> None:
    short = QUIET | {"all": CPUS * LEAST_SPAN / 2, "steal": CPUS * LEAST_SPAN / 2}
    readings, tripped = judge(START, short, 0.0)
    assert readings["steal_share"] == 1.0 and tripped == ()
    assert judge(START, short | {"pswpin": 9.0}, 0.0)[1] == ("pages were swapped in",)


def test_time_that_others_used_is_never_negative() -> None:
    """Ticks and the exact times of a process's own account differ by a little."""
    assert judge(START, QUIET, own_cpu=1.01)[0]["others_share"] == 0.0
