# SPDX-License-Identifier: Apache-2.0
"""stress: what its threads draw is the model's, whoever ends up with what was made."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutator_runs import Operation, Random, free, logged, measure, metric, run

PARAMETERS = "--generations 3 --steps 200 --slots 12 --pool 5 --persist 40 --min-size 16 --max-size 500 --large 3"


class Thread:
    """The chain of threads of one worker. `pool` is that of all; alone, every release is known."""

    def __init__(self, index: int, seed: int, pool: list[int | None]) -> None:
        self.random, self.pool = Random(seed, index), pool
        self.slots: list[int | None] = [None] * 12
        self.next = index << 44
        self.done: list[Operation] = []

    def release(self, number: int | None) -> None:
        if number is not None:
            self.done.append(free(number))

    def make(self) -> int:
        size = self.random.octave(16, 500)
        if self.random.percent(3):
            size *= 100
        self.done.append(Operation("calloc" if self.random.percent(10) else "malloc", self.next, size))
        self.next += 1
        return self.next - 1

    def live(self) -> None:
        for _ in range(200):
            action, slot = self.random.below(100), self.random.below(12)
            if action < 75:
                self.release(self.slots[slot])
                self.slots[slot] = self.make() if action < 60 else None
            else:
                place = self.random.below(5)
                self.slots[slot], self.pool[place] = self.pool[place], self.slots[slot]
        for slot in range(12):
            if not self.random.percent(40):
                self.release(self.slots[slot])
                self.slots[slot] = None

    def end(self) -> None:
        for number in self.slots:
            self.release(number)


def test_one_thread_is_the_model_to_the_last_call(tmp_path: Path) -> None:
    thread = Thread(0, 6, [None] * 5)
    for _ in range(3):
        thread.live()
    thread.end()
    for number in thread.pool:
        thread.release(number)
    assert logged(tmp_path, "stress", "-r", "6", *PARAMETERS.split())[0] == thread.done


def test_many_threads_allocate_as_the_model_and_lose_nothing(tmp_path: Path) -> None:
    log = logged(tmp_path, "stress", "-n", "4", "-r", "6", *PARAMETERS.split())
    made, gone, foreign = [], [], 0
    for t in range(4):
        thread = Thread(t, 6, [None] * 5)
        for _ in range(3):
            thread.live()
        allocations = [call for call in log[t] if call.call != "free"]
        assert allocations == [call for call in thread.done if call.call != "free"]
        released = [call.object for call in log[t] if call.call == "free"]
        made += [call.object for call in allocations]
        gone += released
        foreign += sum(number >> 44 != t for number in released)
    assert sorted(made) == sorted(gone)
    assert foreign > 0


def test_the_blowup_is_peak_over_peak() -> None:
    result = measure("stress", "-n", "2", "--sample-period", "1")
    held = max(result["series"]["live"])
    assert metric(result, "blowup") == pytest.approx(metric(result, "heap_peak") / held, rel=0.01)


def test_the_three_numbers_of_the_original() -> None:
    parameters = measure("stress", "2", "5", "3")["parameters"]
    assert (parameters["threads"], parameters["generations"]) == (2, 3)
    assert (parameters["steps"], parameters["slots"]) == (5000, 500)


def test_an_object_must_have_room_for_what_it_carries() -> None:
    done = run("stress", "--min-size", "15")
    assert done.returncode == 2 and "option --min-size must be a whole number from 16 to" in done.stderr
