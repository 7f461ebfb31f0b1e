# SPDX-License-Identifier: Apache-2.0
"""An environment as lines to paste: systemd, Docker, Kubernetes, a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

_DOLLAR = "\\$"  # a Dockerfile fills in variables


def paste_lines(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """(where, line) per variable and place, in a fixed order of places; values are quoted as each place asks for."""
    return [
        *(("systemd", f"Environment={_quoted(f'{name}={value}').replace('%', '%%')}") for name, value in environment.items()),
        *(("Dockerfile", f"ENV {name}={_quoted(value).replace('$', _DOLLAR)}") for name, value in environment.items()),
        *(("Kubernetes", f"- {{name: {name}, value: {_quoted(value)}}}") for name, value in environment.items()),
        *(("shell", f"export {name}={shlex.quote(value)}") for name, value in environment.items()),
    ]


def _quoted(text: str) -> str:
    """Between double quotes, with the escapes that all three places share with JSON."""
    return json.dumps(text, ensure_ascii=False)
