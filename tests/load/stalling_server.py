"""A service over HTTP that stands still once: `python stalling_server.py PORT_FILE AFTER_S STALL_S`.

The stall begins with the first query that comes AFTER_S seconds or more after the first of all. Until it is over
nothing is read or answered, as in a process that was stopped. A STALL_S of 0 is a service that never stands still.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"label": 1}'


class Service:
    def __init__(self, after_s: float, stall_s: float) -> None:
        self._after_s, self._stall_s, self._first = after_s, stall_s, 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower().decode()
                await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
                self._first = self._first or time.perf_counter()
                if self._stall_s and time.perf_counter() - self._first >= self._after_s:
                    time.sleep(self._stall_s)
                    self._stall_s = 0.0
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    service = Service(float(sys.argv[2]), float(sys.argv[3]))
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=512)
    Path(sys.argv[1]).write_text(str(server.sockets[0].getsockname()[1]), encoding="utf-8")
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
