# SPDX-License-Identifier: Apache-2.0
"""open_loop.py PORT RATE SECONDS: asks a server at a rate of its own, and prints latencies from when a request was due.

A request that is sent late because the processor was busy counts from when it should have been sent.
"""

from __future__ import annotations

import asyncio
import sys

REQUEST = b"GET / HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n"


async def ask(port: int, due: float) -> float:
    """Seconds from `due` to the whole answer."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(due - loop.time())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    assert (await reader.read()).endswith(b"ok\n")
    writer.close()
    return loop.time() - due


async def load(port: int, rate: int, seconds: int) -> list[float]:
    begin = asyncio.get_running_loop().time() + 0.1
    return sorted(await asyncio.gather(*(ask(port, begin + number / rate) for number in range(rate * seconds))))


if __name__ == "__main__":
    port, rate, seconds = map(int, sys.argv[1:])
    latencies = asyncio.run(load(port, rate, seconds))
    for percent in (50, 90, 99):
        print(f"p{percent} {latencies[len(latencies) * percent // 100]:.6f} s")
    print(f"requests {len(latencies)}")
