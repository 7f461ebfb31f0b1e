# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command line and the one line each says of itself; nothing is imported until a verb is called."""

from __future__ import annotations

# verb -> (module with a click command named `command`, help line). Order is the order of --help.
VERBS: dict[str, tuple[str, str]] = {
    "compare": ("heapyard.cli.compare", "Compare allocators on real programs, or on your own command."),
    "capacity": ("heapyard.cli.capacity", "Find the highest rate at which your server keeps p99=5ms or another limit."),
    "tune": ("heapyard.cli.tune", "Find the settings of an allocator that suit a program."),
    "run": ("heapyard.cli.run", "Carry out the experiment that a study file describes."),
    "plan": ("heapyard.cli.plan", "Say what a study would run, how long it takes, and what it can find."),
    "resume": ("heapyard.cli.resume", "Continue an interrupted experiment, exactly as planned."),
    "results": ("heapyard.cli.results", "List the experiments on this machine."),
    "merge": ("heapyard.cli.merge", "Bring experiments of other machines or folders together; none counts twice."),
    "show": ("heapyard.cli.show", "Show an experiment's answer, or the trials behind a number."),
    "report": ("heapyard.cli.report", "Write an experiment's HTML report."),
    "claims": ("heapyard.cli.claims", "Compare what the literature says with what was measured here."),
    "history": ("heapyard.cli.history", "Follow a study over time, and say where it changed."),
    "diff": ("heapyard.cli.diff", "Say what changed between two experiments."),
    "gate": ("heapyard.cli.gate", "Fail if something is worse by more than a limit: an exit code for a pipeline."),
    "export": ("heapyard.cli.export", "Write an experiment's data as CSV, JSON Lines, Parquet, pyperf JSON or for gnuplot."),
    "profile": ("heapyard.cli.profile.verb", "Show which call chains own the memory of a program over time."),
    "check": ("heapyard.cli.check", "Say whether a malloc library is safe to switch to."),
    "wrap": ("heapyard.cli.wrap", "Run a command under an allocator, or say how to switch to it for good."),
    "fuzz": ("heapyard.cli.fuzz", "Look for faults of a malloc library with random calls of its whole interface."),
    "simulate": ("heapyard.cli.simulate", "Run a program on a simulated machine with many cores: which line bounces?"),
    "soak": ("heapyard.cli.soak", "Run whole test suites under a malloc library, or your server for hours."),
    "fleet": ("heapyard.cli.fleet", "Share a study among the machines of a cluster, or try one on this machine."),
    "allocators": ("heapyard.cli.allocators", "List, install and describe allocators."),
    "programs": ("heapyard.cli.programs", "List, install and describe the real programs."),
    "doctor": (
        "heapyard.cli.doctor",
        "Say what on this machine threatens a result, and how small a difference it can find.",
    ),
}
