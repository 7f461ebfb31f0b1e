# SPDX-License-Identifier: Apache-2.0
"""Load generators people have, and what their output says: requests, time, latencies."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_TIME = _NUMBER + r"\s*(ns|us|µs|ms|s|m|h)\b"


@dataclass(frozen=True, slots=True)
class Served:
    """What a generator saw. `latencies` in seconds by `mean`, `max`, `p50`, `p99`, ...; `failed`: requests with an error.

    `seconds`: in which the requests were made; 0 where only their rate is told, and stands in `requests`. `sent`: requests a
    second that it sent, where it tells that apart from those that were answered; else 0.
    """

    requests: float
    seconds: float
    latencies: dict[str, float] = field(default_factory=dict)
    failed: float = 0.0
    sent: float = 0.0


class NotUnderstood(Exception):
    """The output is not what this generator prints; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Generator:
    """`read` gives what its output says, or raises NotUnderstood. `paced`: words of a command by which requests are sent at
    a rate, and a server that stalls makes those that wait count. Without them each waits for the last answer, and the
    latencies of a stall are left out (coordinated omission)."""

    name: str
    read: Callable[[str], Served]
    paced: tuple[str, ...] = ()


def generator_of(line: str) -> Generator | None:
    """The generator that a command line runs, by the name of its program; None for one that is not known here."""
    return next((GENERATORS[name] for name in _programs(line) if name in GENERATORS), None)


def keeps_pace(generator: Generator, line: str) -> bool:
    """Does the command send requests at a rate of its own, whatever the server does?"""
    words = _words(line)
    return generator.name in _ALWAYS_PACED or any(
        word == option or word.startswith(f"{option}=" if option.startswith("--") else option)
        for word in words for option in generator.paced
    )


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _programs(line: str) -> Iterable[str]:
    return (Path(word.strip("();&|")).name for word in _words(line))


def _found(pattern: str, text: str, what: str) -> re.Match[str]:
    if match := re.search(pattern, text, re.MULTILINE):
        return match
    raise NotUnderstood(what)


def _number(pattern: str, text: str, what: str) -> float:
    return float(_found(pattern, text, what)[1])


def _time(match: re.Match[str], first: int = 1) -> float:
    return float(match[first]) * _SECONDS[match[first + 1]]


def _durations(text: str) -> float:
    """Of Go's durations, such as `1m5.3s`."""
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", text))


def _percentile(text: str) -> str:
    """`99.000` as p99, `99.9` as p99.9."""
    return f"p{float(text):.6g}"


def _wrk(text: str) -> Served:
    """Of wrk and wrk2, whose percentiles have three digits after the point."""
    ended = _found(rf"^\s*{_NUMBER} requests in {_TIME}", text, "the line '... requests in ...'")
    mean = re.search(rf"^\s*Latency\s+{_TIME}\s+{_TIME}\s+{_TIME}", text, re.MULTILINE)
    latencies = {"mean": _time(mean), "max": _time(mean, 5)} if mean else {}
    for match in re.finditer(rf"^\s*{_NUMBER}%\s+{_TIME}\s*$", text, re.MULTILINE):
        latencies.setdefault(_percentile(match[1]), _time(match, 2))
    latencies.pop("p100", None)
    answers = re.search(rf"Non-2xx or 3xx responses: {_NUMBER}", text)
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    failed = (float(answers[1]) if answers else 0.0) + (sum(map(float, sockets.groups())) if sockets else 0.0)
    return Served(float(ended[1]), _time(ended, 2), latencies, failed)


def _hey(text: str) -> Served:
    """Of hey, and of oha, which prints the same or JSON."""
    if text.lstrip().startswith("{"):
        return _oha_json(_object(text))
    seconds = _number(rf"^\s*Total:\s+{_NUMBER} ", text, "the line 'Total:'")
    latencies = {"mean": _number(rf"^\s*Average:\s+{_NUMBER} ", text, "the line 'Average:'"),
                 "max": _number(rf"^\s*Slowest:\s+{_NUMBER} ", text, "the line 'Slowest:'")}
    for match in re.finditer(rf"^\s*{_NUMBER}% in {_NUMBER} sec", text, re.MULTILINE):
        latencies[_percentile(match[1])] = float(match[2])
    answers = [(int(code), float(count)) for code, count in re.findall(r"^\s*\[(\d{3})\]\s+(\d+) responses", text, re.MULTILINE)]
    if not answers:
        raise NotUnderstood("a line such as '[200] 100 responses'")
    errors = sum(float(count) for count in re.findall(r"^\s*\[(\d+)\]\t", text.partition("Error distribution")[2], re.MULTILINE))
    return Served(sum(n for _, n in answers), seconds, latencies, errors + sum(n for code, n in answers if code >= 400))


def _oha_json(told: dict[str, Any]) -> Served:
    summary = told["summary"]
    latencies = {"mean": summary["average"], "max": summary["slowest"]}
    latencies |= {_percentile(name[1:]): value for name, value in told["latencyPercentiles"].items()}
    codes = {int(code): count for code, count in told["statusCodeDistribution"].items()}
    failed = sum(told.get("errorDistribution", {}).values()) + sum(n for code, n in codes.items() if code >= 400)
    return Served(float(sum(codes.values())), summary["total"], latencies, float(failed))


def _ab(text: str) -> Served:
    latencies = {"mean": _number(rf"^Time per request:\s+{_NUMBER} \[ms\] \(mean\)", text, "the line 'Time per request:'") / 1e3}
    for percent, milliseconds in re.findall(r"^\s*(\d+)%\s+(\d+)", text, re.MULTILINE):
        latencies["max" if percent == "100" else f"p{percent}"] = float(milliseconds) / 1e3
    bad = re.search(rf"^Non-2xx responses:\s+{_NUMBER}", text, re.MULTILINE)
    return Served(
        _number(rf"^Complete requests:\s+{_NUMBER}", text, "the line 'Complete requests:'"),
        _number(rf"^Time taken for tests:\s+{_NUMBER} ", text, "the line 'Time taken for tests:'"),
        latencies,
        _number(rf"^Failed requests:\s+{_NUMBER}", text, "the line 'Failed requests:'") + (float(bad[1]) if bad else 0.0),
    )


def _h2load(text: str) -> Served:
    seconds = _time(_found(rf"^finished in {_TIME}", text, "the line 'finished in'"))
    counts = _found(r"^requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text, "the line 'requests:'")
    took = _found(rf"^time for request:\s+{_TIME}\s+{_TIME}\s+{_TIME}", text, "the line 'time for request:'")
    return Served(float(counts[1]), seconds, {"mean": _time(took, 5), "max": _time(took, 3)}, sum(map(float, counts.groups()[1:])))


def _redis_benchmark(text: str) -> Served:
    """All its tests together; a latency is that of the slowest test."""
    latencies: dict[str, float] = {}
    requests = seconds = 0.0
    for match in re.finditer(rf"^\s*{_NUMBER} requests completed in {_NUMBER} seconds", text, re.MULTILINE):
        requests, seconds = requests + float(match[1]), seconds + float(match[2])
    if not requests:
        raise NotUnderstood("'requests completed in'; leave out -q and --csv")
    for lines in re.finditer(r"^\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s*\n(.*)$", text, re.MULTILINE):
        mean, _, *others = (float(word) / 1e3 for word in lines[1].split())
        for name, value in zip(("mean", "p50", "p95", "p99", "max"), (mean, *others), strict=False):
            latencies[name] = max(value, latencies.get(name, 0.0))
    return Served(requests, seconds, latencies)


def _memtier(text: str) -> Served:
    names = _found(r"^Type\s+(Ops/sec.*)$", text, "the line 'Type Ops/sec'")[1]
    columns = re.findall(r"\S+/sec|(?:Avg\.|p[\d.]+) Latency", names)
    values = [float(word) if word != "---" else 0.0 for word in _found(r"^Totals\s+(.*)$", text, "the line 'Totals'")[1].split()]
    row = dict(zip(columns, values, strict=False))
    latencies = {column.split()[0].replace("Avg.", "mean"): value / 1e3 for column, value in row.items() if "Latency" in column}
    return Served(row["Ops/sec"], 0.0, latencies)


def _pgbench(text: str) -> Served:
    requests = _number(r"^number of transactions actually processed: (\d+)", text, "'number of transactions actually processed:'")
    rate = _number(rf"^tps = {_NUMBER}", text, "the line 'tps ='")
    failed = re.search(r"^number of failed transactions: (\d+)", text, re.MULTILINE)
    mean = re.search(rf"^latency average = {_TIME}", text, re.MULTILINE)
    return Served(requests, requests / rate, {"mean": _time(mean)} if mean else {}, float(failed[1]) if failed else 0.0)


def _sysbench(text: str) -> Served:
    latencies = {}
    for match in re.finditer(rf"^\s*(avg|max|(\d+)th percentile):\s+{_NUMBER}", text.partition("Latency (ms)")[2], re.MULTILINE):
        latencies[f"p{match[2]}" if match[2] else match[1].replace("avg", "mean")] = float(match[3]) / 1e3
    return Served(
        _number(rf"^\s*total number of events:\s+{_NUMBER}", text, "the line 'total number of events:'"),
        _number(rf"^\s*total time:\s+{_NUMBER}s", text, "the line 'total time:'"),
        latencies,
    )


def _vegeta(text: str) -> Served:
    if text.lstrip().startswith("{"):
        told = _object(text)
        named = {"mean": "mean", "max": "max", "50th": "p50", "90th": "p90", "95th": "p95", "99th": "p99"}
        latencies = {named[name]: value * 1e-9 for name, value in told["latencies"].items() if name in named}
        requests = float(told["requests"])
        seconds = (told["duration"] + told["wait"]) * 1e-9
        return Served(requests, seconds, latencies, round(requests * (1 - told["success"])), told.get("rate", 0.0))
    made = _found(rf"^Requests\s.*\]\s+{_NUMBER}, {_NUMBER},", text, "the line 'Requests'; end the load with '| vegeta report'")
    requests, sent = float(made[1]), float(made[2])
    seconds = _durations(_found(r"^Duration\s.*\]\s+([^,]+),", text, "the line 'Duration'")[1])
    names, values = _found(r"^Latencies\s+\[(.*)\]\s+(.*)$", text, "the line 'Latencies'").groups()
    latencies = {}
    for name, value in zip(names.split(", "), values.split(", "), strict=False):
        if name != "min":
            latencies[f"p{name}" if name.isdigit() else name] = _durations(value)
    success = _number(rf"^Success\s.*\]\s+{_NUMBER}%", text, "the line 'Success'")
    return Served(requests, seconds, latencies, round(requests * (1 - success / 100)), sent)


def _k6(text: str) -> Served:
    line = _found(r"^\s*http_req_duration\.*:\s+(.*)$", text, "the line 'http_req_duration'")[1]
    latencies = {}
    for name, value in re.findall(r"(avg|med|max|p\([\d.]+\))=(\S+)", line):
        shown = {"avg": "mean", "med": "p50"}.get(name, name.replace("(", "").replace(")", ""))
        latencies[shown] = _durations(value)
    made = _found(rf"^\s*http_reqs\.*:\s+{_NUMBER}\s+{_NUMBER}/s", text, "the line 'http_reqs'")
    failed = re.search(rf"^\s*http_req_failed\.*:\s+{_NUMBER}%", text, re.MULTILINE)
    requests = float(made[1])
    return Served(requests, requests / float(made[2]), latencies, round(requests * float(failed[1]) / 100) if failed else 0.0)


def _object(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise NotUnderstood(f"valid JSON ({error})") from None
    return told if isinstance(told, dict) else {}


def read_output(generator: Generator, text: str, wall: float) -> Served:
    """What the generator's output says; NotUnderstood if it says less. `wall`: seconds that it ran. O(text)."""
    try:
        served = generator.read(text)
    except (KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError) as error:
        raise NotUnderstood(f"{type(error).__name__}: {error}") from None
    if served.seconds == 0:
        served = replace(served, requests=served.requests * wall, seconds=wall)
    if not (served.requests > 0 and served.seconds > 0):
        raise NotUnderstood("requests that were answered")
    return served


_ALWAYS_PACED = ("wrk2", "vegeta")

GENERATORS: dict[str, Generator] = {
    generator.name: generator for generator in (
        Generator("wrk", _wrk, ("-R", "--rate")),
        Generator("wrk2", _wrk),
        Generator("hey", _hey),
        Generator("oha", _hey, ("--latency-correction",)),
        Generator("ab", _ab),
        Generator("h2load", _h2load),
        Generator("redis-benchmark", _redis_benchmark),
        Generator("memtier_benchmark", _memtier),
        Generator("pgbench", _pgbench, ("-R", "--rate")),
        Generator("sysbench", _sysbench, ("--rate",)),
        Generator("vegeta", _vegeta),
        Generator("k6", _k6),
    )
}


def known_generators() -> Sequence[str]:
    """Their names, as messages list them."""
    return tuple(GENERATORS)
