# SPDX-License-Identifier: Apache-2.0
"""repository.git: a bare Git repository whose history is fixed: names, dates and contents come from the seed.

Needs git itself; its pack is the same for the same version of git, its commits are the same for every version.
"""

import os
import subprocess

from dice import Dice, Vocabulary, parameters

_EPOCH = 1_600_000_000  # of the first commit, in seconds
_HERMETIC = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DEFAULT_HASH": "sha1"}


def blob(data: str) -> str:
    return f"data {len(data)}\n{data}\n"


def edit(lines: list[str], dice: Dice, vocabulary: Vocabulary) -> None:
    """Change, insert or delete a few lines somewhere."""
    for _ in range(dice.between(1, 6)):
        at, chance = dice.below(len(lines)), dice.random()
        if chance < 0.5:
            lines[at] = vocabulary.text(dice.between(2, 10))
        elif chance < 0.8 or len(lines) < 20:
            lines.insert(at, vocabulary.text(dice.between(2, 10)))
        else:
            del lines[at]


def history(dice: Dice, files: int, commits: int) -> str:
    """The whole history as `git fast-import` reads it. Every 40th commit moves a file."""
    vocabulary = Vocabulary(dice, 3000)
    tree = {f"{vocabulary.words[i % 17]}/{vocabulary.words[100 + i]}.txt":
            [vocabulary.text(dice.between(2, 10)) for _ in range(dice.between(30, 200))] for i in range(files)}
    people = [f"{vocabulary.text(2).title()} <{vocabulary.word()}@example.org>" for _ in range(12)]
    stream = []
    for number in range(commits):
        stream.append(f"commit refs/heads/main\ncommitter {dice.choice(people)} {_EPOCH + number * 3600} +0000\n"
                      + blob(f"{vocabulary.text(6)}\n\n{vocabulary.text(dice.between(5, 40))}"))
        names = list(tree)
        touched = names if number == 0 else sorted({dice.choice(names) for _ in range(dice.between(1, 5))})
        if number % 40 == 39:
            old = touched[0]
            new = f"{old.rsplit('.', 1)[0]}-{number}.txt"
            tree[new] = tree.pop(old)
            stream.append(f"R {old} {new}\n")
            touched[0] = new
        for name in touched:
            if number:
                edit(tree[name], dice, vocabulary)
            stream.append(f"M 100644 inline {name}\n{blob(''.join(line + chr(10) for line in tree[name]))}")
    return "".join(stream)


def git(*arguments: str, text: str = "") -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _HERMETIC
    subprocess.run(["git", *arguments], input=text.encode(), check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    wanted = parameters(__doc__, seed=1, files=200, commits=600)
    git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", "repository.git")
    stream = history(Dice(wanted.seed), wanted.files, wanted.commits) + "done\n"
    git("--git-dir=repository.git", "fast-import", "--quiet", "--done", text=stream)


if __name__ == "__main__":
    main()
