# SPDX-License-Identifier: Apache-2.0
"""events.json: one JSON array of nested records: users, tags, steps with numbers and text; whole numbers only."""

import json

from dice import Dice, Vocabulary, parameters


def step(dice: Dice, vocabulary: Vocabulary) -> dict[str, int | str]:
    return {"at": dice.below(100_000), "bytes": dice.below(1 << 20), "text": vocabulary.text(dice.between(2, 9))}


def main() -> None:
    wanted = parameters(__doc__, seed=1, events=5000)
    dice = Dice(wanted.seed)
    vocabulary = Vocabulary(dice, 3000)
    with open("events.json", "w", encoding="ascii", newline="\n") as file:
        for number in range(wanted.events):
            event = {
                "id": number,
                "user": {"name": vocabulary.word(), "town": vocabulary.word().title(), "age": dice.between(18, 90)},
                "tags": sorted({vocabulary.word() for _ in range(dice.between(0, 6))}),
                "steps": [step(dice, vocabulary) for _ in range(dice.between(1, 7))],
                "ok": dice.random() < 0.9,
                "note": vocabulary.text(8) if dice.random() < 0.3 else None,
            }
            file.write(("[" if number == 0 else ",\n") + json.dumps(event))
        file.write("]\n")


if __name__ == "__main__":
    main()
