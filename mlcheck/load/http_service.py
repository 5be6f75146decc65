"""A running service as something that answers: one connection, kept open, JSON there and JSON back."""

from __future__ import annotations

import http.client
import json
import select
import ssl
from typing import Any
from urllib.parse import urlsplit

from mlcheck.load.service import NoService, Service


class HTTPError(Exception):
    """The service answered with a status of 400 or more. A golden case names it as `"raises": "422"`."""

    def __init__(self, status: int, reason: str, body: bytes) -> None:
        super().__init__(f"{status} {reason}: {body[:200].decode(errors='replace')}".rstrip(": "))
        self.status = status


def of_url(url: str) -> Service:
    """A service that posts each query. Raises NoService for what is no http address."""
    connection = Connection(url)
    return Service(connection.ask, encoded)


def encoded(query: Any) -> bytes:
    """The body of a request, made before any clock starts: JSON, or bytes as they are."""
    if isinstance(query, bytes):
        return query
    return json.dumps(query, allow_nan=True).encode("utf-8", errors="surrogatepass")


class Connection:
    """One kept-open connection, opened anew when the service has closed it meanwhile."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NoService(f"`{url}` is no address of a service: write http://host:port/path")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def ask(self, body: bytes) -> Any:
        """The answer, parsed where it is JSON. Raises HTTPError, or OSError where there is no connection."""
        if self._closed_by_peer():
            self._connection.close()
        kind = "application/json" if body[:1] in b'{["-0123456789tfnNI' else "application/octet-stream"
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": kind, "Accept": "application/json"})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if response.status >= 400:
            raise HTTPError(response.status, response.reason, content)
        return parsed(content)

    def close(self) -> None:
        self._connection.close()

    def _closed_by_peer(self) -> bool:
        """An idle connection has nothing to read unless the other side has closed it."""
        socket = self._connection.sock
        if socket is None or isinstance(socket, ssl.SSLSocket):
            return False
        readable, _, _ = select.select([socket], [], [], 0)
        return bool(readable)


def parsed(content: bytes) -> Any:
    """JSON, or text where it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
