"""What hypothesis makes up is not judged by the clock, and what all tests share is not collected again and again."""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

settings.register_profile("mlcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mlcheck-ci", settings.get_profile("mlcheck"), derandomize=True)
settings.load_profile("mlcheck-ci" if "CI" in os.environ else "mlcheck")


def pytest_collection_finish() -> None:
    """A million objects of torch, pytest and twelve thousand tests live to the end: a collection need not pass them.

    It would take half a second each time, and every examination of a script collects several times.
    """
    gc.collect()
    gc.freeze()
