# SPDX-License-Identifier: Apache-2.0
"""Lets a browser without a display render one page, and writes the page's DOM when its scripts have come to rest.

Words: the program that serves the WebDriver protocol, the browser, the page's file. Python itself takes nothing that needs
to be installed. The protocol: W3C WebDriver.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

START = 60.0  # seconds until it answers
REST = 0.5  # seconds without a change of the DOM; a page that only computes says data-busy meanwhile


def ask(base: str, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=300) as answer:
        return json.load(answer)["value"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(driver: str, browser: str, page: str) -> int:
    port = free_port()
    server = subprocess.Popen([driver, f"--port={port}"], stdout=sys.stderr)
    base, until = f"http://127.0.0.1:{port}", time.monotonic() + START
    while True:
        try:
            ask(base, "/status", method="GET")
            break
        except OSError:
            if time.monotonic() > until or server.poll() is not None:
                print("the driver does not answer", file=sys.stderr)
                return 3
            time.sleep(0.1)
    wanted = {"alwaysMatch": {"wpe:browserOptions": {"binary": browser, "args": ["--automation", "--platform=headless"]}}}
    session = "/session/" + ask(base, "/session", {"capabilities": wanted})["sessionId"]
    ask(base, f"{session}/url", {"url": Path(page).absolute().as_uri()})
    read = {"script": "return document.documentElement.outerHTML", "args": []}
    before, at_rest = "", False
    while not at_rest and time.monotonic() < until + START:
        now = str(ask(base, f"{session}/execute/sync", read))
        at_rest, before = now == before and "data-busy" not in now[:200], now
        time.sleep(REST)
    ask(base, session, method="DELETE")
    server.terminate()
    server.wait()
    print(before if at_rest else "the page does not come to rest")
    return 0 if at_rest else 1


if __name__ == "__main__":
    os.environ.setdefault("XDG_RUNTIME_DIR", os.environ.get("TMPDIR", "/tmp"))
    sys.exit(main(*sys.argv[1:]))
