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

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "m": 60.0, "min": 60.0,
            "h": 3600.0, "hr": 3600.0}
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_TIME = _NUMBER + r"\s*(ns|us|µs|ms|secs?|s|min|m|hr|h)\b"


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
    latencies of a stall are left out (coordinated omission). `fills_in`: it then adds what it reckons was left out.
    `step`: of the latencies that it prints, in seconds, where they are coarse. `percentiles`: the option that prints them, or
    further ones."""

    name: str
    read: Callable[[str], Served]
    paced: tuple[str, ...] = ()
    fills_in: bool = False
    step: float = 0.0
    percentiles: str = ""


def generator_of(line: str) -> Generator | None:
    """The generator that a command line runs, by the name of its program; None for one that is not known here."""
    return next((GENERATORS[name] for name in _programs(line) if name in GENERATORS), None)


def keeps_pace(generator: Generator, line: str) -> bool:
    """Does the command send requests at a rate of its own, whatever the server does?"""
    words = _words(line)
    if generator.name == "k6":
        return any("-arrival-rate" in _script(word) for word in words)
    if generator.name == "oha":
        return "--latency-correction" in words and any(word.startswith("-q") for word in words)
    if generator.name == "vegeta" and re.search(r"-rate[= ]0(?![\d.])", line):
        return False  # as fast as answers come
    return generator.name in _ALWAYS_PACED or any(
        word == option or word.startswith(f"{option}=" if option.startswith("--") else option)
        for word in words for option in generator.paced
    )


def tail_of(generator: Generator, line: str) -> str:
    """The response that tells of slow requests, of those that this command prints."""
    words = _words(line)
    if generator.name == "pgbench":
        return "latency_mean"
    if generator.name == "sysbench":
        percentile = next((word.partition("=")[2] for word in words if word.startswith("--percentile=")), "95")
        return f"latency_p{percentile}" if percentile != "0" else "latency_mean"
    if generator.name == "k6":
        return "latency_p99" if "p(99)" in line or any("p(99)" in _script(word) for word in words) else "latency_p95"
    if generator.name in ("wrk", "wrk2"):
        return "latency_p99" if {"--latency", "-L", "--u_latency", "-U"} & set(words) else "latency_mean"
    return "latency_p99"


def _script(word: str) -> str:
    """Of k6, if the word is its file; else nothing."""
    try:
        return Path(word).read_text(errors="replace") if word.endswith((".js", ".ts")) else ""
    except OSError:
        return ""


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
    """Of hey, and of oha, which prints nearly the same, in units of its choice, or JSON."""
    if text.lstrip().startswith("{"):
        return _oha_json(_object(text))
    seconds = _time(_found(rf"^\s*Total:\s+{_TIME}", text, "the line 'Total:'"))
    latencies = {"mean": _time(_found(rf"^\s*Average:\s+{_TIME}", text, "the line 'Average:'")),
                 "max": _time(_found(rf"^\s*Slowest:\s+{_TIME}", text, "the line 'Slowest:'"))}
    for match in re.finditer(rf"^\s*{_NUMBER}% in {_TIME}", text, re.MULTILINE):
        latencies[_percentile(match[1])] = _time(match, 2)
    answers = [(int(code), float(count)) for code, count in re.findall(r"^\s*\[(\d{3})\]\s+(\d+) responses", text, re.MULTILINE)]
    if not answers:
        raise NotUnderstood("a line such as '[200] 100 responses'")
    errors = re.findall(r"^\s*\[(\d+)\]\s+(.*)$", text.lower().partition("error distribution")[2], re.MULTILINE)
    failed = sum(float(count) for count, what in errors if _CUT_OFF not in what)
    return Served(sum(n for _, n in answers), seconds, latencies, failed + sum(n for code, n in answers if code >= 400))


_CUT_OFF = "aborted due to deadline"  # what oha says of requests that were under way when its time was up: nothing failed


def _oha_json(told: dict[str, Any]) -> Served:
    summary = told["summary"]
    latencies = {"mean": summary["average"], "max": summary["slowest"]}
    latencies |= {_percentile(name[1:]): value for name, value in told["latencyPercentiles"].items()}
    codes = {int(code): count for code, count in told["statusCodeDistribution"].items()}
    errors = {what: count for what, count in told.get("errorDistribution", {}).items() if _CUT_OFF not in what}
    failed = sum(errors.values()) + sum(n for code, n in codes.items() if code >= 400)
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
    """All its tests together; a latency is that of the slowest test. Their seconds have two digits, so their rates tell more."""
    latencies: dict[str, float] = {}
    tests = re.findall(rf"^\s*{_NUMBER} requests completed in {_NUMBER} seconds", text, re.MULTILINE)
    rates = re.findall(rf"^\s*throughput summary: {_NUMBER} requests per second", text, re.MULTILINE)
    if not tests:
        raise NotUnderstood("'requests completed in'; leave out -q and --csv")
    requests = sum(float(number) for number, _ in tests)
    seconds = sum(float(took) for _, took in tests)
    if len(rates) == len(tests):
        seconds = sum(float(number) / float(rate) for (number, _), rate in zip(tests, rates, strict=True))
    for lines in re.finditer(r"^\s+avg\s+min\s+p50\s+p95\s+p99\s+max\s*\n(.*)$", text, re.MULTILINE):
        mean, _, *others = (float(word) / 1e3 for word in lines[1].split())
        for name, value in zip(("mean", "p50", "p95", "p99", "max"), (mean, *others), strict=False):
            latencies[name] = max(value, latencies.get(name, 0.0))
    return Served(requests, seconds, latencies)


def _memtier(text: str) -> Served:
    """Of several runs (--run-count) the mean comes last, after the best and the worst. Before 1.3 `Latency` is the mean."""
    _found(r"^Totals\s+\S", text, "the line 'Totals'")
    names, totals = re.findall(r"^Type\s+(Ops/sec.*)$(?s:.*?)^Totals\s+(.*)$", text, re.MULTILINE)[-1]
    columns = re.findall(r"\S+/sec|(?:Avg\. |p[\d.]+ )?Latency", names)
    row = {column: float(word) for column, word in zip(columns, totals.split(), strict=False) if word != "---"}
    latencies = {_memtier_name(column): value / 1e3 for column, value in row.items() if column.endswith("Latency")}
    return Served(row["Ops/sec"], 0.0, latencies)


def _memtier_name(column: str) -> str:
    """`p99.90 Latency` as p99.9."""
    first = column.split()[0]
    return _percentile(first[1:]) if first.startswith("p") else "mean"


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
    """Requests that met no server have the status 0: they were not answered, and failed."""
    if text.lstrip().startswith("{"):
        told = _object(text)
        named = {"mean": "mean", "max": "max", "50th": "p50", "90th": "p90", "95th": "p95", "99th": "p99"}
        latencies = {named[name]: value * 1e-9 for name, value in told["latencies"].items() if name in named}
        requests, unanswered = float(told["requests"]), float(told["status_codes"].get("0", 0))
        seconds = (told["duration"] + told["wait"]) * 1e-9
        failed = round(requests * (1 - told["success"]))
        return Served(requests - unanswered, seconds, latencies, failed, told.get("rate", 0.0))
    made = _found(rf"^Requests\s.*\]\s+{_NUMBER}, {_NUMBER},", text, "the line 'Requests'; end the load with '| vegeta report'")
    requests, sent = float(made[1]), float(made[2])
    seconds = _durations(_found(r"^Duration\s.*\]\s+([^,]+),", text, "the line 'Duration'")[1])
    names, values = _found(r"^Latencies\s+\[(.*)\]\s+(.*)$", text, "the line 'Latencies'").groups()
    latencies = {}
    for name, value in zip(names.split(", "), values.split(", "), strict=False):
        if name != "min":
            latencies[f"p{name}" if name.isdigit() else name] = _durations(value)
    success = _number(rf"^Success\s.*\]\s+{_NUMBER}%", text, "the line 'Success'")
    nobody = re.search(r"^Status Codes\s.*\s0:(\d+)", text, re.MULTILINE)
    failed = round(requests * (1 - success / 100))
    return Served(requests - (float(nobody[1]) if nobody else 0), seconds, latencies, failed, sent)


def _k6(text: str) -> Served:
    """What it dropped, for want of virtual users at an arrival rate, failed as well: the server was too slow for it."""
    line = _found(r"^\s*http_req_duration\.*:\s+(.*)$", text, "the line 'http_req_duration'")[1]
    latencies = {}
    for name, value in re.findall(r"(avg|med|max|p\([\d.]+\))=(\S+)", line):
        shown = {"avg": "mean", "med": "p50"}.get(name, name.replace("(", "").replace(")", ""))
        latencies[shown] = _durations(value)
    made = _found(rf"^\s*http_reqs\.*:\s+{_NUMBER}\s+{_NUMBER}/s", text, "the line 'http_reqs'")
    failed = re.search(r"^\s*http_req_failed\.*:\s+\S+%\s+(?:✓ )?(\d+)", text, re.MULTILINE)  # a tick until k6 0.57
    dropped = re.search(r"^\s*dropped_iterations\.*:\s+(\d+)", text, re.MULTILINE)
    requests = float(made[1])
    return Served(requests, requests / float(made[2]), latencies, sum(float(found[1]) for found in (failed, dropped) if found))


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
        # Since 4.0 wrk fills in, which its CHANGES calls correction of coordinated omission.
        Generator("wrk", _wrk, ("-R", "--rate"), fills_in=True, percentiles="--latency"),
        Generator("wrk2", _wrk, percentiles="--latency"),
        Generator("hey", _hey, step=1e-4),
        Generator("oha", _hey),
        Generator("ab", _ab, step=1e-3),
        Generator("h2load", _h2load),
        Generator("redis-benchmark", _redis_benchmark),
        Generator("memtier_benchmark", _memtier),
        Generator("pgbench", _pgbench, ("-R", "--rate")),
        Generator("sysbench", _sysbench, ("--rate",), percentiles="--percentile"),
        Generator("vegeta", _vegeta),
        Generator("k6", _k6, percentiles="--summary-trend-stats"),
    )
}


def known_generators() -> Sequence[str]:
    """Their names, as messages list them."""
    return tuple(GENERATORS)
