# SPDX-License-Identifier: Apache-2.0
"""corpus.txt: documents, one a line: a title, a tab, then words of a Zipf vocabulary with some punctuation."""

from dice import Dice, Vocabulary, parameters


def main() -> None:
    wanted = parameters(__doc__, seed=1, documents=20_000, words=60, vocabulary=20_000)
    dice = Dice(wanted.seed)
    vocabulary = Vocabulary(dice, wanted.vocabulary)
    with open("corpus.txt", "w", encoding="ascii", newline="\n") as file:
        for number in range(wanted.documents):
            length = dice.between(wanted.words // 2, wanted.words * 3 // 2)
            words = [vocabulary.word() + dice.choice(("", "", "", "", "", ",", ".", "!")) for _ in range(length)]
            file.write(f"{vocabulary.text(3).title()} {number}\t{' '.join(words)}\n")


if __name__ == "__main__":
    main()
