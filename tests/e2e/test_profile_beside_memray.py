# SPDX-License-Identifier: Apache-2.0
"""What functions of Python own, beside memray: the rows of docs/measured/python.md. HEAPYARD_MEMRAY names its venv.

Both run ten scripts on the same Python. memray records every allocation, of small objects too (--trace-python-allocators).
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from profiled import only, traced

from heapyard.execute.collector import Collector, Plan
from heapyard.profile.chains import Naming, half_width, owners
from heapyard.profile.symbols import frames_of

VENV = Path(os.environ.get("HEAPYARD_MEMRAY", ""))
ROUNDS = int(os.environ.get("HEAPYARD_ROUNDS", "10"))

pytestmark = pytest.mark.on_request
needs_memray = pytest.mark.skipif(not (VENV / "bin/memray").exists(), reason="HEAPYARD_MEMRAY names no folder with bin/memray")

# Each keeps what it makes until its end, in several functions.
SCRIPTS = {
    "json": """
import json
def make(): return [{"id": at, "name": "n%d" % at, "tags": ["a", str(at)], "value": at * 1.5} for at in range(20000)]
def written(rows): return json.dumps(rows)
def read(text): return [json.loads(text) for _ in range(4)]
rows = make(); text = written(rows); kept = read(text)
""",
    "tree": """
class Tree:
    def __init__(self, depth):
        self.name = "node %d" % depth
        self.children = []
        if depth: self.grow(depth)
    def grow(self, depth):
        for _ in range(4): self.children.append(Tree(depth - 1))
kept = [Tree(7) for _ in range(4)]
""",
    "words": """
import collections, random
def text(): return " ".join(random.Random(1).choices(["w%d" % at for at in range(60000)], k=400000))
def count(words): return collections.Counter(words)
def index(words):
    found = collections.defaultdict(list)
    for place, word in enumerate(words): found[word].append(place)
    return found
words = text().split(); counted = count(words); found = index(words)
""",
    "sqlite": """
import sqlite3
def fill(base):
    base.execute("create table t(a, b, c)")
    base.executemany("insert into t values(?, ?, ?)", ((at, "text %d" % at, at * 0.5) for at in range(100000)))
def ask(base): return [row for row in base.execute("select * from t order by c")]
base = sqlite3.connect(":memory:"); fill(base); kept = ask(base)
""",
    "pickle": """
import pickle
def make(): return {at: (str(at), [at, at + 1, at + 2], {"x": at}) for at in range(60000)}
def out(data): return pickle.dumps(data)
def back(text): return [pickle.loads(text) for _ in range(2)]
data = make(); text = out(data); kept = back(text)
""",
    "xml": """
import xml.etree.ElementTree as tree
def make():
    root = tree.Element("all")
    for at in range(40000): tree.SubElement(root, "row", id=str(at), name="n%d" % at).text = "value %d" % at
    return root
def out(root): return tree.tostring(root)
def back(text): return tree.fromstring(text)
root = make(); text = out(root); kept = back(text)
""",
    "ast": """
import ast
def source(): return "".join("def f%d(a, b=%d):\\n c = a * b + %d\\n return [c, {'x': b}]\\n" % (at, at, at) for at in range(4000))
def parse(text): return ast.parse(text)
def walk(found): return [node for node in ast.walk(found)]
text = source(); found = parse(text); kept = walk(found)
""",
    "decimal": """
import decimal, fractions
def decimals(): return [decimal.Decimal(at) / 7 for at in range(1, 150000)]
def parts(): return [fractions.Fraction(at, 97) for at in range(40000)]
def large(): return [3 ** (at % 600) for at in range(60000)]
kept = decimals(), parts(), large()
""",
    "buffers": """
import array, collections
def bytes_of(): return [bytes(at % 4000) for at in range(20000)]
def arrays(): return [array.array("d", range(at % 300)) for at in range(20000)]
def queue(): return collections.deque(str(at) for at in range(200000))
kept = bytes_of(), arrays(), queue()
""",
    "classes": """
import dataclasses
@dataclasses.dataclass
class Plain:
    a: int
    b: str
    c: list
@dataclasses.dataclass(frozen=True)
class Slotted:
    __slots__ = ("a", "b")
    a: int
    b: float
def plain(): return [Plain(at, "b%d" % at, []) for at in range(80000)]
def slotted(): return [Slotted(at, at / 3) for at in range(120000)]
def sets(): return [frozenset((at, at + 1)) for at in range(60000)]
kept = plain(), slotted(), sets()
""",
}

READER = """
import json, sys
from collections import defaultdict
from memray import FileReader
found = defaultdict(int)
for record in FileReader(sys.argv[1]).get_high_watermark_allocation_records(merge_threads=True):
    stack = record.stack_trace(max_stacks=1)
    if stack: found["%s:%d" % (stack[0][0], stack[0][2])] += record.size
print(json.dumps(found))
"""


def of_memray(script: Path, folder: Path) -> dict[str, int]:
    """function:line -> bytes when there was most."""
    kept = folder / "memray.bin"
    subprocess.run([VENV / "bin/memray", "run", "-q", "--trace-python-allocators", "-f", "-o", kept, script], check=True,
                   stdout=subprocess.DEVNULL)
    told = subprocess.run([VENV / "bin/python", "-c", READER, kept], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


def of_ours(script: Path, folder: Path) -> dict[str, tuple[int, float]]:
    """function:line -> bytes at the peak, half of a 95 % interval. Of what has no sample there may be three intervals."""
    trace = only(traced(folder, VENV / "bin/python", script, python=True))
    peak, naming = trace.snapshot("peak"), Naming(trace, frames_of(trace))
    assert peak is not None
    size: dict[str, int] = defaultdict(int)
    variance: dict[str, float] = defaultdict(float)
    for chain in owners(trace, peak):
        frame = naming.telling(chain.node)[0]
        if frame.is_script:
            key = f"{frame.function.rpartition('.')[2]}:{frame.line}"
            size[key] += chain.bytes
            variance[key] += chain.deviation**2
    found = {key: (size[key], half_width(size[key], variance[key] ** 0.5)) for key in size}
    return defaultdict(lambda: (0, 3 * trace.end["widest_interval"] or 3 * trace.interval), found)


@needs_memray
@pytest.mark.parametrize("name", SCRIPTS)
def test_owners_are_those_of_memray(tmp_path: Path, name: str) -> None:
    script = tmp_path / f"script_{name}.py"
    script.write_text(SCRIPTS[name])
    theirs, ours = of_memray(script, tmp_path), of_ours(script, tmp_path)
    total = sum(theirs.values())
    largest = sorted(theirs.items(), key=lambda item: -item[1])[:10]
    compared = [(key, size, *ours[key]) for key, size in largest if size > total / 100]
    print()
    for key, size, found, error in compared:
        print(f"| {name} | `{key}` | {size / 2**20:.2f} | {found / 2**20:.2f} ± {error / 2**20:.2f} |")
    for key, size, found, error in compared:
        assert abs(found - size) < 0.03 * size + 0.005 * total + 1.6 * error, key


# A loop each that does little but what it is called after.
LOOPS = {
    "objects": """
def work():
    kept = []
    for at in range(600000):
        made = {"a": at, "b": (at, str(at)), "c": [at] * 3}
        if at % 8 == 0: kept.append(made)
work()
""",
    "JSON": """
import json
data = [{"id": at, "name": "n%d" % at, "tags": ["a", "b", str(at)], "v": at * 1.5} for at in range(3000)]
for _ in range(40): json.loads(json.dumps(data))
""",
    "numbers": """
def work(number):
    total = 0.0
    for at in range(number): total += at * 0.5
work(8000000)
""",
    "calls": """
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
fibonacci(30)
""",
}

Way = dict[str, bool] | list[str] | None  # a plan of ours; memray's words; none of both
OURS: dict[str, Way] = {"none": None, "heapyard": {}, "heapyard --python": {"python": True}}


class Cost:
    """Wall times of ways to run a script, as ratios to the first."""

    def __init__(self, folder: Path, python: str, ways: dict[str, Way]):
        self.folder, self.python, self.ways = folder, python, ways
        self.means: dict[str, list[float]] = {way: [] for way in list(ways)[1:]}

    def seconds(self, way: str, script: Path) -> float:
        how = self.ways[way]
        words, env, collector = [self.python, str(script)], dict(os.environ), None
        if isinstance(how, dict):
            collector = Collector(self.folder, Plan(words, python=how.get("python", False)))
            env |= collector.environment
        elif how is not None:
            words = [*how, str(script)]
        began = time.perf_counter()
        subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - began
        if collector is not None:
            collector.close()
        return took

    def compare(self, scripts: dict[str, str]) -> dict[str, float]:
        """Prints a row for each script; the geometric mean of each way."""
        empty = self.folder / "empty.py"
        empty.write_text("pass")
        # What it takes to begin is memray's own start-up, and left out: a script that runs for long does not notice it.
        begin = {way: statistics.median(self.seconds(way, empty) for _ in range(2 * ROUNDS)) for way in self.ways}
        none, *others = self.ways
        print("\n| an empty script | " + " | ".join(f"{begin[way] / begin[none]:.2f}" for way in others) + " |")
        for name, text in scripts.items():
            script = self.folder / f"script_{name}.py"
            script.write_text(text)
            ratios: dict[str, list[float]] = {way: [] for way in others}
            for _ in range(ROUNDS):
                order = random.sample(list(self.ways), len(self.ways))
                took = {way: self.seconds(way, script) - begin[way] for way in order}
                for way in others:
                    ratios[way].append(math.log(took[way] / took[none]))
            cells = []
            for way, values in ratios.items():
                self.means[way].append(statistics.mean(values))
                half = 2.1 * statistics.stdev(values) / len(values) ** 0.5
                cells.append(f"{math.exp(statistics.mean(values)):.3f} ± {half:.3f}")
            print(f"| {name} | " + " | ".join(cells) + " |")
        means = {way: math.exp(statistics.mean(values)) for way, values in self.means.items()}
        print("| **geometric mean** | " + " | ".join(f"**{means[way]:.3f}**" for way in others) + " |")
        return means


@needs_memray
def test_cost_beside_memray(tmp_path: Path) -> None:
    memray = [str(VENV / "bin/memray"), "run", "-q", "-f", "-o", str(tmp_path / "kept.bin")]
    ways = {**OURS, "memray": memray, "memray, small objects too": [*memray, "--trace-python-allocators"]}
    means = Cost(tmp_path, str(VENV / "bin/python"), ways).compare(SCRIPTS)
    assert means["heapyard --python"] - 1 < (means["memray, small objects too"] - 1) / 2


def test_cost_of_small_objects(tmp_path: Path) -> None:
    means = Cost(tmp_path, "/usr/bin/python3", OURS).compare(LOOPS)
    assert means["heapyard"] < 1.05 and means["heapyard --python"] < 1.15
