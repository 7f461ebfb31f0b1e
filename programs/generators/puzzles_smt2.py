# SPDX-License-Identifier: Apache-2.0
"""puzzles.smt2: three kinds of questions to an SMT solver, each in its own scope, over whole numbers or bit vectors.

Schedules (jobs of ordered steps on shared machines, done by a deadline), inversions of a small mixing function on bit
vectors, and chains of array writes whose reads must agree.
"""

from dice import Dice, parameters


def schedule(dice: Dice, jobs: int, machines: int) -> list[str]:
    """Job-shop scheduling: is there an order of steps that ends by a deadline a little above the longest job?"""
    lines, on_machine, longest = [], [[] for _ in range(machines)], 0
    for job in range(jobs):
        order = sorted(range(machines), key=lambda _: dice.random())
        end = "0"
        total = 0
        for step, machine in enumerate(order):
            start, length = f"s{job}_{step}", dice.between(1, 9)
            lines += [f"(declare-const {start} Int)", f"(assert (>= {start} {end}))"]
            on_machine[machine].append((start, length))
            end = f"(+ {start} {length})"
            total += length
        lines.append(f"(assert (<= {end} deadline))")
        longest = max(longest, total)
    for uses in on_machine:
        for i, (a, a_length) in enumerate(uses):
            for b, b_length in uses[:i]:
                lines.append(f"(assert (or (<= (+ {a} {a_length}) {b}) (<= (+ {b} {b_length}) {a})))")
    busiest = max(sum(length for _, length in uses) for uses in on_machine)
    deadline = max(longest, busiest) + dice.between(2, 6)
    return ["(declare-const deadline Int)", f"(assert (= deadline {deadline}))", *lines]


def inversion(dice: Dice, width: int, rounds: int) -> list[str]:
    """Which start of a mixing function gives this end? The start is drawn first, so there is one."""
    mask, start = (1 << width) - 1, dice.below(1 << width)
    lines = [f"(declare-const x0 (_ BitVec {width}))"]
    value = start
    for number in range(1, rounds + 1):
        factor, shift = dice.below(1 << width) | 1, dice.between(3, width // 2)
        value = (value * factor & mask) ^ (value >> shift)
        lines.append(f"(define-fun x{number} () (_ BitVec {width}) (bvxor (bvmul x{number - 1} (_ bv{factor} {width})) "
                     f"(bvlshr x{number - 1} (_ bv{shift} {width}))))")
    return [*lines, f"(assert (= x{rounds} (_ bv{value} {width})))"]


def arrays(dice: Dice, writes: int) -> list[str]:
    """The same writes in two orders; is there a place where the arrays differ?"""
    lines = ["(declare-const a (Array Int Int))", "(declare-const p Int)"]
    lines += [f"(declare-const i{n} Int)" for n in range(writes)]
    lines.append(f"(assert (distinct {' '.join(f'i{n}' for n in range(writes))}))")
    first = second = "a"
    order = sorted(range(writes), key=lambda _: dice.random())
    for n in range(writes):
        first = f"(store {first} i{n} {n})"
    for n in order:
        second = f"(store {second} i{n} {n})"
    return [*lines, f"(assert (not (= (select {first} p) (select {second} p))))"]


def main() -> None:
    wanted = parameters(__doc__, seed=1, schedules=3, jobs=6, machines=5, inversions=3, width=14, rounds=3, arrays=2,
                        writes=12)
    dice = Dice(wanted.seed)
    questions = [schedule(dice, wanted.jobs, wanted.machines) for _ in range(wanted.schedules)]
    questions += [inversion(dice, wanted.width, wanted.rounds) for _ in range(wanted.inversions)]
    questions += [arrays(dice, wanted.writes) for _ in range(wanted.arrays)]
    with open("puzzles.smt2", "w", encoding="ascii", newline="\n") as file:
        for question in questions:
            file.write("\n".join(["(push)", *question, "(check-sat)", "(pop)", ""]))


if __name__ == "__main__":
    main()
