# SPDX-License-Identifier: Apache-2.0
"""An environment as lines to paste: systemd, Docker, Kubernetes, a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping


def paste_lines(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """(where, line) per variable and place, in a fixed order of places; values are quoted as each place asks for."""
    found = []
    for where, line in (
        ("systemd", lambda name, value: f"Environment={json.dumps(f'{name}={value}', ensure_ascii=False).replace('%', '%%')}"),
        ("Dockerfile", lambda name, value: f"ENV {name}={json.dumps(value, ensure_ascii=False).replace('$', chr(92) + '$')}"),
        ("Kubernetes", lambda name, value: f"- {{name: {name}, value: {json.dumps(value)}}}"),
        ("shell", lambda name, value: f"export {name}={shlex.quote(value)}"),
    ):
        found += [(where, line(name, value)) for name, value in environment.items()]
    return found
