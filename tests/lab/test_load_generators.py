# SPDX-License-Identifier: Apache-2.0
"""What load generators print, as wrk 4.1, hey 0.1.4, h2load 1.52, vegeta 12, redis-benchmark 7, pgbench 15 and sysbench 1.0 do.

tests/data/load_generators holds what the programs printed when they asked tests/native/programs/serves.c, whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from heapyard.catalog.load_generators import GENERATORS, NotUnderstood, generator_of, keeps_pace, read_output

WRK = """Running 2s test @ http://127.0.0.1:8123/
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.83ms    3.57ms  28.63ms   90.08%
    Req/Sec    15.14k    11.30k   29.21k    52.50%
  Latency Distribution
     50%  283.00us
     99%   17.75ms
  60652 requests in 2.06s, 9.25MB read
  Non-2xx or 3xx responses: 7
"""
HEY = """
  Total:\t2.0033 secs
  Slowest:\t0.0338 secs
  Average:\t0.0005 secs
Latency distribution:
  99% in 0.0057 secs
Status code distribution:
  [200]\t30383 responses
  [503]\t2 responses
"""
H2LOAD = """finished in 70.37ms, 42634.23 req/s, 6.51MB/s
requests: 3000 total, 3000 started, 3000 done, 2999 succeeded, 1 failed, 0 errored, 0 timeout
time for request:       29us      5.06ms       184us       409us    97.87%
"""
VEGETA = """Requests      [total, rate, throughput]         400, 200.76, 200.74
Duration      [total, attack, wait]             1m1.993s, 1.992s, 203.293µs
Latencies     [min, mean, 50, 90, 95, 99, max]  85.086µs, 289.88µs, 259.107µs, 356.393µs, 414.732µs, 865.082µs, 4.455ms
Success       [ratio]                           99.50%
"""
REDIS = """  10000 requests completed in 0.50 seconds
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.598     0.168     0.559     0.847     1.935     7.103
  10000 requests completed in 0.25 seconds
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.498     0.168     0.459     0.947     1.535     9.103
"""
PGBENCH = """number of transactions actually processed: 1000/1000
number of failed transactions: 3 (0.300%)
latency average = 2.500 ms
tps = 400.000000 (without initial connection time)
"""
# As wrk2's and memtier_benchmark's documentation show it; neither is a package of Debian's.
WRK2 = """Running 2m test @ http://127.0.0.1:8123/
  2 threads and 16 connections
  Thread calibration: mean lat.: 2.413ms, rate sampling interval: 10ms
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.10ms    1.20ms  61.50ms   70.00%
    Req/Sec     1.05k   140.00     1.44k    75.00%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    2.90ms
 90.000%    4.40ms
 99.000%    1.25s
 99.900%    1.10m
100.000%    1.20m

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.500     0.000000            1         1.00
      61.500     1.000000       240000          inf
#[Mean    =        3.100, StdDeviation   =        1.200]
----------------------------------------------------------

  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))
 50.000%    1.10ms
 99.000%    2.20ms
----------------------------------------------------------
  240000 requests in 2.00m, 31.20MB read
  Socket errors: connect 0, read 2, write 0, timeout 3
Requests/sec:   2000.00
"""
MEMTIER_HEAD = "Type   Ops/sec   Hits/sec   Misses/sec   Avg. Latency   p50 Latency   p99 Latency   p99.90 Latency   KB/sec"
MEMTIER = f"""BEST RUN RESULTS
{MEMTIER_HEAD}
Totals      9000.00      4500.00         0.00         0.50000         0.40000         1.00000         2.00000       700.00
AGGREGATED AVERAGE RESULTS (2 runs)
{MEMTIER_HEAD}
Sets        4000.00          ---          ---         0.90000         0.80000         3.00000         5.00000       300.00
Gets        4000.00      4000.00         0.00         0.70000         0.60000         2.00000         4.00000       300.00
Waits          0.00          ---          ---             ---             ---             ---             ---          ---
Totals      8000.00      4000.00         0.00         0.80000         0.70000         2.50000         4.50000       600.00
"""
MEMTIER_OLD = """Type         Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec
Totals      8000.00      4000.00         0.00      0.80000       600.00
"""
SYSBENCH = """    total time:                          10.0s
    total number of events:              1055

Latency (ms):
         avg:                                    1.50
         max:                                   76.18
         95th percentile:                        2.00
"""


@pytest.mark.parametrize(
    ("name", "text", "requests", "seconds", "failed", "latencies"),
    [
        ("wrk", WRK, 60652, 2.06, 7, {"mean": 0.00183, "max": 0.02863, "p50": 0.000283, "p99": 0.01775}),
        ("hey", HEY, 30385, 2.0033, 2, {"mean": 0.0005, "max": 0.0338, "p99": 0.0057}),
        ("h2load", H2LOAD, 2999, 0.07037, 1, {"mean": 0.000184, "max": 0.00506}),
        ("vegeta", VEGETA, 400, 61.993, 2, {"mean": 0.00028988, "p50": 0.000259107, "p90": 0.000356393, "p95": 0.000414732,
                                            "p99": 0.000865082, "max": 0.004455}),
        ("redis-benchmark", REDIS, 20000, 0.75, 0, {"mean": 0.000598, "p50": 0.000559, "p95": 0.000947, "p99": 0.001935,
                                                    "max": 0.009103}),
        ("pgbench", PGBENCH, 1000, 2.5, 3, {"mean": 0.0025}),
        ("wrk2", WRK2, 240000, 120, 5, {"mean": 0.0031, "max": 0.0615, "p50": 0.0029, "p90": 0.0044, "p99": 1.25, "p99.9": 66.0}),
        ("memtier_benchmark", MEMTIER, 8000, 1, 0, {"mean": 0.0008, "p50": 0.0007, "p99": 0.0025, "p99.9": 0.0045}),
        ("memtier_benchmark", MEMTIER_OLD, 8000, 1, 0, {"mean": 0.0008}),
        ("sysbench", SYSBENCH, 1055, 10, 0, {"mean": 0.0015, "max": 0.07618, "p95": 0.002}),
    ],
)  # fmt: skip
def test_an_output_is_understood(
    name: str, text: str, requests: float, seconds: float, failed: float, latencies: dict[str, float]
) -> None:
    served = read_output(GENERATORS[name], text, wall=1.0)
    assert served.requests == requests and served.seconds == pytest.approx(seconds) and served.failed == failed
    assert served.latencies == pytest.approx(latencies)


OUTPUTS = Path(__file__).resolve().parents[1] / "data" / "load_generators"
K6_KINDS = {"k6_rate.txt": (201, 100.367727, 0), "k6_full.txt": (201, 100.408728, 0), "k6_legacy.txt": (6031, 3013.104851, 0),
            "k6_failed.txt": (201, 100.444739, 109), "k6_dropped.txt": (99, 49.48001, 101), "k6.txt": (5787, 2892.343379, 0)}


@pytest.mark.parametrize(
    ("file", "requests", "seconds", "failed", "p99"),
    [
        ("vegeta.txt", 400, 1.995, 0, 0.010569),
        ("vegeta.json", 400, 1.995, 0, 0.010569),
        ("vegeta_failed.txt", 98, 1.99, 102, 0.003335),
        ("vegeta_failed.json", 98, 1.99037, 102, 0.0033345),
        ("wrk.txt", 1622, 1.0, 0, 0.00358),
        ("hey.txt", 400, 0.1237, 0, 0.0022),
        ("oha.txt", 400, 0.1433689, 0, 0.0065735),
        ("oha.json", 400, 0.117670, 0, 0.0013253),
        ("oha_rate.txt", 200, 2.0, 0, None),
        ("oha_failed.txt", 50, 2.0034897, 50, 0.005505),
        ("oha_failed.json", 50, 2.0, 50, None),
        ("ab.txt", 400, 0.129, 0, 0.011),
        ("h2load.txt", 400, 0.11655, 0, None),
        ("redis-benchmark.txt", 4000, 2000 / 32258.06 + 2000 / 46511.62, 0, None),
        *((file, requests, requests / rate, failed, None) for file, (requests, rate, failed) in K6_KINDS.items()),
    ],
)  # fmt: skip
def test_what_a_program_printed_is_understood(
    file: str, requests: float, seconds: float, failed: float, p99: float | None
) -> None:
    generator = GENERATORS[file.partition(".")[0].partition("_")[0]]
    served = read_output(generator, (OUTPUTS / file).read_text(), wall=1.0)
    assert (served.requests, served.failed) == (requests, failed)
    assert served.seconds == pytest.approx(seconds, rel=1e-3)
    assert 0 < served.latencies["mean"] <= served.latencies["max"]
    if p99 is not None:
        assert served.latencies["p99"] == pytest.approx(p99, rel=1e-3)


def test_percentiles_of_k6_are_those_it_was_asked_for() -> None:
    served = read_output(GENERATORS["k6"], (OUTPUTS / "k6_rate.txt").read_text(), wall=1.0)
    assert served.latencies == pytest.approx(
        {"mean": 1.66e-3, "p50": 1.32e-3, "max": 8.92e-3, "p90": 2.31e-3, "p95": 4.06e-3, "p99": 5.7e-3, "p99.9": 8.48e-3}
    )
def test_what_was_sent_is_told_apart_from_what_was_answered() -> None:
    """Two of 400 requests waited a minute for their answers."""
    served = read_output(GENERATORS["vegeta"], VEGETA, wall=1.0)
    assert served.sent > 10 * served.requests / served.seconds
    assert read_output(GENERATORS["wrk"], WRK, wall=1.0).sent == 0


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("text", ["", "{", "{}", "hello\n" * 3, "Total: 1\n"])
def test_another_output_is_not(name: str, text: str) -> None:
    with pytest.raises(NotUnderstood):
        read_output(GENERATORS[name], text, wall=1.0)


@pytest.mark.parametrize(
    ("line", "name", "paced"),
    [
        ("wrk -t2 -c8 http://x", "wrk", False),
        ("wrk -t2 -R100 http://x", "wrk", True),
        ("echo 'GET http://x' | vegeta attack | vegeta report", "vegeta", True),
        ("PGPORT=1 /usr/bin/pgbench -R 100", "pgbench", True),
        ("sysbench --rate=3 oltp_read_write run", "sysbench", True),
        ("cd x && ab -n 3 y", "ab", False),
        ("oha -z 5s -q 100 --latency-correction x", "oha", True),
        ("oha -z 5s -q 100 x", "oha", False),
        ("wrk2 -t2 -c8 -d5s -R100 x", "wrk2", True),
        ("memtier_benchmark -p 6379 --rate-limiting=100", "memtier_benchmark", False),
    ],
)
def test_the_generator_of_a_line(line: str, name: str, paced: bool) -> None:
    found = generator_of(line)
    assert found is not None and found.name == name and keeps_pace(found, line) is paced


def test_what_keeps_a_pace_of_its_own(tmp_path: Path) -> None:
    """k6 does by what its script says, vegeta unless it is told to be as fast as it can."""
    for executor in ("constant-vus", "constant-arrival-rate"):
        (script := tmp_path / f"{executor}.js").write_text(f"export const options = {{ executor: '{executor}' }};")
        assert keeps_pace(GENERATORS["k6"], f"k6 run {script}") is executor.endswith("rate")
    assert not keeps_pace(GENERATORS["k6"], "k6 run no_such_file-arrival-rate.js")
    assert not keeps_pace(GENERATORS["vegeta"], "vegeta attack -rate=0 -max-workers=5 | vegeta report")
    assert keeps_pace(GENERATORS["vegeta"], "vegeta attack -rate=05/s | vegeta report")


def test_a_line_of_no_generator() -> None:
    assert generator_of("./my_client 'unclosed") is None
