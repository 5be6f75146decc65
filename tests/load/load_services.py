"""Services to be loaded: a sound one, one for each fault, and those that cannot be served at all."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

_state = {"asked": 0}
_kept: list[bytearray] = []


def sound(query: Any) -> dict[str, Any]:
    if not isinstance(query, dict) or "x" not in query:
        raise ValueError("a query must have x")
    time.sleep(0.001)
    return {"label": query["x"] % 2, "score": query["x"] / 10}


def answers_at_once(query: Any) -> int:
    return 1


def leaks(query: Any) -> int:
    """10 KB a query: a megabyte in a hundred."""
    time.sleep(0.001)
    _kept.append(bytearray(os.urandom(64) * 160))
    return 1


def raises_often(query: Any) -> int:
    """An error in each hundred queries."""
    time.sleep(0.001)
    _state["asked"] += 1
    if _state["asked"] % 100 == 0:
        raise RuntimeError(f"no room for query {_state['asked']}")
    return 1


def killed(query: Any) -> int:
    """Ends in mid-run, as by the system when memory is short."""
    time.sleep(0.001)
    _state["asked"] += 1
    if _state["asked"] == 700:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def hangs_on_seven(query: Any) -> int:
    time.sleep(0.001)
    if isinstance(query, dict) and query.get("x") == 7:
        time.sleep(600)
    return 1


def not_a_number_for_seven(query: dict[str, Any]) -> dict[str, float]:
    time.sleep(0.001)
    return {"score": float("nan") if query["x"] == 7 else 1.0}


def counts(query: Any) -> int:
    """Another answer each time."""
    _state["asked"] += 1
    return _state["asked"]


def tells_its_time(query: Any) -> dict[str, Any]:
    _state["asked"] += 1
    return {"label": 1, "took_ms": _state["asked"]}


def leaves_on_nothing(query: Any) -> int:
    if not query:
        sys.exit(4)
    return 1


def spoilt_by_text(query: dict[str, Any]) -> int:
    """Keeps what a broken query left behind."""
    if isinstance(query, dict) and isinstance(query.get("x"), str):
        _state["spoilt"] = 1
    return _state.get("spoilt", 0)


class Batches:
    """Answers a batch with another number for whoever stands second."""

    def load(self) -> None:
        self.loaded = True

    def predict(self, query: dict[str, Any]) -> float:
        assert self.loaded
        return query["x"] * 2.0

    def predict_batch(self, queries: list[dict[str, Any]]) -> list[float]:
        return [self.predict(query) + (number == 1) for number, query in enumerate(queries)]


class Uneven(Batches):
    def predict_batch(self, queries: list[dict[str, Any]]) -> list[float]:
        return [self.predict(queries[0])]


class Broken:
    def load(self) -> None:
        raise FileNotFoundError("weights.pt")

    def predict(self, query: Any) -> None: ...


class NoPredict:
    def answer(self, query: Any) -> None: ...


def two_arguments(text: str, length: int) -> None: ...


async def waits(query: Any) -> None: ...


def leaves_at_once(query: Any) -> None:
    os._exit(3)


NUMBER = 5
