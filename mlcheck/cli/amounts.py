"""What options take: times, amounts and numbers, read from the command line."""

from __future__ import annotations

import argparse

from mlcheck.core.duration import seconds
from mlcheck.core.memory_size import byte_count


def time(text: str) -> float:
    """Seconds, of `30s` or `5m`."""
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def memory(text: str) -> int:
    """Bytes, of `800MB` or `8GB`."""
    try:
        return byte_count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def processes(text: str) -> int:
    """A number of processes."""
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"`{text}`: a number of processes, from 1 to 256")
    return int(text)
