"""What all tests share: no clock judges what hypothesis makes up, Ctrl-C is heard, the heap is frozen."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from mlcheck.trial import isolate
from tests.warm_children import warm_children

settings.register_profile("mlcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mlcheck-ci", settings.get_profile("mlcheck"), derandomize=True)
settings.load_profile("mlcheck-ci" if "CI" in os.environ else "mlcheck")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it puts in the background, and programs that are to be stopped by Ctrl-C inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Whoever leaves Ctrl-C deaf is named here, and not by the test that comes to need it."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, f"{item.nodeid} left another handler"


@pytest.fixture(scope="module", autouse=True)
def passed_over() -> None:
    """A million objects of torch, pytest and twelve thousand tests live to the end: a collection need not pass them.

    It would take half a second each time, and every examination of a script collects several times, and looks at all
    objects. What the files before this one left is no more to be collected either.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick_starts() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    with warm_children():
        yield


@pytest.fixture
def started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test whose child is to be found by its mark, which a forked process does not show."""
    monkeypatch.setattr(isolate, "subprocess", subprocess)
