"""Whether the service starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """`told` is what went wrong in a sentence, empty for a service that answers; `url` is that of a running one."""

    told: str = ""
    traceback: str = ""
    url: str = ""
