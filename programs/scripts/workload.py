# SPDX-License-Identifier: Apache-2.0
"""What many Python services do all day: parse, build objects, index, transform, serialise, throw away.

    python3 workload.py ROUNDS RECORDS
"""

import json
import re
import sys
import zlib
from collections import defaultdict, deque

SYLLABLES = ("ka", "ro", "mi", "ten", "sul", "ba", "vor", "ei", "lan", "du", "pe", "shi")


class Customer:
    def __init__(self, number, name, scores):
        self.number, self.name, self.scores = number, name, scores
        self.friends = []


def numbers(seed):
    """A linear congruential sequence: the same on every version of Python."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def make_customers(dice, count):
    customers = []
    for number in range(count):
        name = "".join(SYLLABLES[next(dice) % len(SYLLABLES)] for _ in range(2 + next(dice) % 4))
        customers.append(Customer(number, name.title(), [next(dice) % 1000 for _ in range(next(dice) % 12)]))
    for customer in customers:
        customer.friends = [customers[next(dice) % count] for _ in range(next(dice) % 6)]
    return customers


def to_json(customers):
    rows = []
    for c in customers:
        rows.append({"id": c.number, "name": c.name, "scores": c.scores, "friends": [f.number for f in c.friends]})
    return json.dumps(rows)


def index_words(text):
    places = defaultdict(list)
    for match in re.finditer(r"[A-Za-z]+|\d+", text):
        places[match.group().lower()].append(match.start())
    return places


def one_round(dice, count, recent):
    customers = make_customers(dice, count)
    text = to_json(customers)
    rows = json.loads(text)
    places = index_words(text)
    best = sorted(rows, key=lambda row: (-sum(row["scores"]), row["name"], row["id"]))
    lines = [f"{row['id']:>8} {row['name']:<20} {','.join(map(str, row['scores']))}" for row in best]
    blob = bytearray()
    for line in lines:
        blob += line.encode()
    pairs = {(a.number, b.number): a.name + b.name for a in customers for b in a.friends}
    recent.append((customers, pairs))  # the last rounds stay alive: old objects are freed between young ones
    return zlib.crc32(bytes(blob)) ^ zlib.crc32(text.encode()) ^ len(places) ^ len(pairs)


def main():
    rounds, count = int(sys.argv[1]), int(sys.argv[2])
    dice, recent, checksum = numbers(20), deque(maxlen=2), 0
    for _ in range(rounds):
        checksum = checksum * 31 + one_round(dice, count, recent) & 0xFFFFFFFF
    print(f"{rounds} rounds, checksum {checksum:08x}")


if __name__ == "__main__":
    main()
