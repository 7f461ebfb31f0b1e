# SPDX-License-Identifier: Apache-2.0
"""One trial: one fresh process launch under one treatment, with proof of what served it and a check of its answer."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

from ..catalog.own_heaps import samples_itself
from ..model.experiment import Settings, Treatment, TrialOutcome
from ..model.metrics import SLICES, define
from ..model.program import RESULT_FILE, Program
from ..model.shared import TRACE_SUFFIX
from .collector import Collector, Plan
from .guards import judge, read_guards
from .huge_pages import given, level_of
from .launcher import Launch, Running, pasteable
from .library_identity import replaced
from .memory_groups import group_for
from .memory_series import averages
from .mutator_result import OwnResult, read_result
from .server import Client, ended_as_asked, serve
from .simulator.engine import under_engine
from .simulator.responses import RUN_FILE, detail_of, left_out, own_of, responses_of
from .simulator.result import read_run
from .trial_environment import Scene, additions, cpus_of, plain_environment, set_scene
from .witness import objection, provider_of, read_testimonies

_ENOUGH = 64 << 10  # bytes from either end of standard error
_LAST_OF_SERVER = 3  # lines of a server that failed, in the sentence about it
_CHARGES = ("charged", "charged_error", "page_tables", "group_charged", "group_error", "group_peak")
_DIRECT = ("user", "sys", "peak_rss", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches")


def run_trial(
    program: Program,
    treatment: Treatment,
    settings: Settings,
    *,
    pad: int,
    folder: Path,
    stop: threading.Event | None = None,
    turns: socket.socket | None = None,
) -> TrialOutcome:
    """Launch `program` once under `treatment` and measure it and every process it starts.

    `folder` exists, is empty, and belongs to this trial. `pad`: bytes of environment padding. Never raises for what the
    program does: a crash, a wrong answer or a library that did not serve it is an outcome of status "failed" with its
    reason. When `stop` is set the tree is ended and the status is "interrupted". Takes a few milliseconds longer than
    the program. `turns`: through which its slices are given, where it shares the machine with the other trials of its
    block; those are then no disturbance, and whoever gives the turns judges the guards (slices.py).
    """
    scene = set_scene(folder, program)
    level = treatment.levels.get("tracer", "off")
    within = level == "sampled" and samples_itself(treatment.allocator.library)
    plan = Plan(program.command, mode=level, told_by_heap=within)
    collector = Collector(scene.lab / "traces", plan) if level != "off" else None
    try:
        launch = prepare_launch(program, treatment, settings, scene, pad=pad, collector=collector)
        with given(treatment, settings) as pages, group_for(settings) as group:
            before = read_guards()  # what it takes to set the machine's mode is no disturbance of the program
            with Running(replace(launch, group=group, turns=turns)) as running:
                client = serve(program, running, scene, settings, stop) if program.server else None
                if client is None or not client.failed:
                    running.wait(stop=stop)
            found, complaint = running.result()
            after = read_guards()
    finally:
        traced = _close(collector, scene)
    own_cpu = found.get("user", 0.0) + found.get("sys", 0.0) + (client.cpu if client else 0.0) + traced["collector_cpu"]
    simulated = settings.simulated.wanted
    # A simulated clock does not see what disturbs this machine.
    readings, tripped = judge(before, after, own_cpu) if turns is None and not simulated else ({}, ())
    testimonies = read_testimonies(scene.lab / "witness")
    errors = _text(launch.stderr)
    base = TrialOutcome(
        status="ok",
        guards=readings,
        tripped=tripped,
        stderr_tail=errors[-2000:],
        command_line=pasteable(*_repeatable(program, treatment, settings, scene, launch), stdin=program.stdin),
        provider=provider_of(testimonies, found.get("pid", -1)),
        exit_code=found.get("exit_code"),
        signal=found.get("signal"),
        detail={
            "processes": found.get("processes", []),
            "stragglers": found.get("stragglers", 0),
            "sampling_cost": found.get("sampling_cost", 0.0),
            "huge_pages": pages,
            **({"loaded": client.loaded} if client and client.loaded[1] else {}),
        },
    )
    if stop is not None and stop.is_set() and found.get("status") != "exited":
        return replace(base, status="interrupted", reason="interrupted")
    kind, reason = _verdict(program, treatment, settings, found, complaint, client, errors)
    seen = [] if simulated else found["processes"] if found else []  # the launcher sees QEMU, the witness the program
    if not kind and (doubt := objection(testimonies, seen, found["pid"], treatment.allocator, errors)):
        kind, reason = "not injected", doubt
    if not kind and (change := replaced(treatment.allocator)):
        kind, reason = "not injected", change
    own: OwnResult | None = None
    if not kind and program.mutator:
        own, complaint = read_result(scene.dir / RESULT_FILE)
        if own is None:
            kind, reason = "no result", f"{program.name} under {treatment.label} {complaint}"
    answer = "" if kind else own.checksum if own else answer_digest(program, launch, scene)
    run = None
    if not kind and simulated:
        run, complaint = read_run(scene.lab / RUN_FILE)
        complaint = f"the simulator {complaint}" if run is None else left_out(run)
        if complaint:
            kind, reason = "not simulated", f"{program.name} under {treatment.label}: {complaint}"
    if not kind and program.answer.output == "same" and answer != program.answer.digest:
        kind, reason = "wrong answer", f"the answer of {program.name} is not the one recorded in its file"
    if "tracer" not in treatment.levels:
        traced = {}  # else none is zero bytes: a figure has the untraced treatment too
    wall = client.wall if client else None
    metrics = measures(found, wall, {t.pid for t in testimonies}) | traced if found.get("status") == "exited" else {}
    series = [(s[0], int(s[1]), int(s[2])) for s in found.get("samples", [])]
    if simulated:  # what the launcher measures is QEMU
        metrics, series = responses_of(run) if run else {}, []
        own = own_of(own) if own else None
        base = replace(base, detail=base.detail | detail_of(run)) if run else base
    if kind:
        failed = {"status": "failed", "failure": kind, "reason": reason}
        return replace(base, **failed, metrics=metrics, series=series)  # type: ignore[arg-type]
    if own:
        base = replace(base, result=own.content, defined=own.defined)
        metrics |= own.metrics
    if client:
        memory, described = client.of_memory(found["samples"])
        base = replace(base, defined=(*client.defined, *described))
        metrics |= client.metrics | memory
    define(base.defined)
    return replace(base, metrics=metrics, series=series, answer=answer)


def _close(collector: Collector | None, scene: Scene) -> dict[str, float]:
    """Its own memory and CPU time until the program had ended, and the bytes it has written once it has ended itself."""
    memory, cpu = 0, 0.0
    if collector is not None:
        memory, cpu = collector.memory(), collector.cpu()
        collector.stop()  # the program's tree has ended, and what it wrote is read
    sizes = [path.stat().st_size for path in (scene.lab / "traces").glob(f"*{TRACE_SUFFIX}")]
    return {"trace_bytes": float(sum(sizes)), "collector_rss": float(memory), "collector_cpu": cpu}


def prepare_launch(
    program: Program, treatment: Treatment, settings: Settings, scene: Scene, *, pad: int, collector: Collector | None = None
) -> Launch:
    """The call of the launcher for this treatment; also for the separate launches that count calls and instructions."""
    library = treatment.allocator.library
    command, argv0 = [*(scene.fill(word, program) for word in program.command), *treatment.arguments], program.argv0
    added = additions(program, treatment, scene, pad=pad, collector=collector)
    if settings.simulated.wanted:
        machine = settings.simulated.for_trial(program.processors, is_control=treatment.role == "control")
        command, added = under_engine(command, machine, scene.lab / RUN_FILE, argv0=argv0, added=added)
        argv0 = ""
    return Launch(
        command=command,
        argv0=argv0,
        env=plain_environment(program, scene) | added,
        json=scene.lab / "result.json",
        stdout=scene.lab / "stdout",
        stderr=scene.lab / "stderr",
        cwd=program.cwd or scene.dir,
        stdin=program.stdin,
        timeout=settings.timeout,
        interval=settings.sample_interval,
        library=library.resolve() if library else None,
        cpus=cpus_of(treatment, settings, program.processors),
        huge_pages=level_of(treatment) != "never",
    )


def measures(found: dict[str, Any], client_wall: float | None, testified: Collection[int] = ()) -> dict[str, float]:
    """The launcher's object as metrics of model.metrics. For a server the client's wall time stands for its own.

    `testified`: processes the witness knows; most of a build's are gone before anyone looks. What nobody saw is absent.
    """
    samples = found["samples"]
    wall = found["wall"]
    mean_rss, mean_pss, gap = averages(samples, wall, found["peak_rss"])
    metrics = {"wall": wall if client_wall is None else client_wall, "cpu": found["user"] + found["sys"]}
    metrics |= {name: float(found[name]) for name in _DIRECT}
    metrics["tree_peak_rss"] = float(max([found["peak_rss"], *(s[1] for s in samples)]))
    metrics |= {"mean_rss": mean_rss, "sample_gap": gap}
    metrics |= {name: float(found[name]) for name in _CHARGES if found.get(name, -1) >= 0}
    metrics["processes"] = float(len({found["pid"], *(p["pid"] for p in found["processes"]), *testified}))
    if maps := max((p["maps"] for p in found["processes"]), default=0):
        metrics["maps"] = float(maps)
    if mean_pss is not None:
        metrics["mean_pss"] = mean_pss
    if SLICES in found:
        metrics[SLICES] = float(found[SLICES])
    if "instructions" in found:
        metrics["instructions"] = float(found["instructions"])
    return metrics


def _verdict(
    program: Program,
    treatment: Treatment,
    settings: Settings,
    found: dict[str, Any],
    complaint: str,
    client: Client | None,
    errors: str,
) -> tuple[str, str]:
    """(failure kind, reason), both "" when the program ended as it should."""
    under = f"{program.name} under {treatment.label}"
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "")
    said = f"; it said: {last[:200]}" if last else ""
    if not found:
        return "cannot start", f"{under}: {complaint}"
    if found["status"] == "cannot start":
        return "cannot start", f"{under}: cannot {found['what']} {program.command[0]}: {os.strerror(found['error'])}"
    if found["status"] == "unstoppable":
        return "slices", f"{under}: a process of it may not be stopped, so it cannot run in slices; use --interleave trials"
    if found["status"] == "timeout":
        return "timeout", f"{under} did not end within {settings.timeout:g} s"
    killed = ""
    if "signal" in found:
        number = found["signal"]
        killed = f"killed by signal {number} ({Signals(number).name if number in Signals._value2member_map_ else number})"
    if client and client.failed:
        how = killed or f"with exit code {found['exit_code']}" if client.died else ""
        if client.died and "before it was ready" in client.failed and found.get("exit_code") == 0:
            how += "; a server must stay in the foreground"
        # The last line of a server is often a farewell ("Aborting"); the cause stands before it.
        lines = [line.strip()[:200] for line in errors.splitlines() if line.strip()][-_LAST_OF_SERVER:]
        said = f"; it said: {' / '.join(lines)}" if lines else ""
        return "server", f"{under}: {client.failed}{', ' if how else ''}{how}{said}"
    if client and ended_as_asked(program, found.get("exit_code"), found.get("signal")):
        return "", ""
    if killed:
        return "signal", f"{under} was {killed}{said}"
    if found["exit_code"] != program.answer.exit_code:
        return "exit", f"{under} ended with exit code {found['exit_code']} instead of {program.answer.exit_code}{said}"
    return "", ""


def answer_digest(program: Program, launch: Launch, scene: Scene) -> str:
    """sha256 over standard output and the answer's files, each with its name; "" when the output is ignored."""
    if program.answer.output == "ignore":
        return ""
    total = hashlib.sha256()
    for path in (launch.stdout, *(scene.dir / name for name in program.answer.files)):
        try:
            with path.open("rb") as file:
                inner = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            inner = "missing"
        total.update(f"{path.name} {inner}\n".encode())
    return total.hexdigest()


def _repeatable(
    program: Program, treatment: Treatment, settings: Settings, scene: Scene, launch: Launch
) -> tuple[Sequence[str], dict[str, str]]:
    """The command that repeats a launch by hand, and its environment."""
    if not settings.simulated.wanted:
        return launch.command, _shown(program, treatment, scene)
    machine = settings.simulated.for_trial(program.processors, is_control=treatment.role == "control")
    allocator = treatment.allocator
    which = ["--allocator", f"{allocator.name}={allocator.library}"] if allocator.provenance == f"user: {allocator.library}" else [
        "--allocators", allocator.name
    ]
    words = ["heapyard", "simulate", "--machine", machine.machine, "--cores", str(machine.cores), "--seed", str(machine.seed)]
    command = [scene.fill(word, program) for word in program.command]
    if program.mutator:  # by its name, and its result goes where simulate reads it
        command = [Path(command[0]).name, *command[1 : command.index("--json")]]
    return [*words, *which, "--", *command, *treatment.arguments], {
        name: scene.fill(value, program) for name, value in program.env.items()
    }


def _shown(program: Program, treatment: Treatment, scene: Scene) -> dict[str, str]:
    """Environment additions a person needs to repeat the launch by hand: without the lab's own."""
    added = additions(program, treatment, scene, pad=0)
    added["LD_PRELOAD"] = str(treatment.allocator.library or "")
    own = {name: scene.fill(value, program) for name, value in program.env.items()}
    return own | {n: v for n, v in added.items() if v and not n.startswith("HEAPYARD_")}


def _text(path: Path) -> str:
    """The file's text; of a long one the beginning, where the dynamic linker speaks, and the end."""
    try:
        with path.open("rb") as file:
            text = file.read(_ENOUGH)
            rest = os.fstat(file.fileno()).st_size - _ENOUGH
            if rest > 0:
                file.seek(-min(rest, _ENOUGH), os.SEEK_END)
                text += file.read()
    except OSError:
        return ""
    return text.decode(errors="replace")
