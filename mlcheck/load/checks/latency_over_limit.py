"""Judges the latency of random queries at every number of workers."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.load.judging import verdict
from mlcheck.load.ladder import RANDOM, Ladder
from mlcheck.load.limits import Limits


def check(ladder: Ladder, limits: Limits) -> Verdict:
    help_ = "fewer queries a second for each worker, fewer threads a worker, a smaller or faster model"
    return verdict(ladder, RANDOM, limits.latency.random, help_)
