# SPDX-License-Identifier: Apache-2.0
"""`python -m heapyard`: the command line."""

from __future__ import annotations


def main() -> None:
    from .cli.main import run

    run()


if __name__ == "__main__":
    main()
