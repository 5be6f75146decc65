"""Starts a script again as after an interruption: the files that its first run left lie where it put them."""

from __future__ import annotations

from collections.abc import Callable

from mlcheck.trial.resumption import Resumption, Standing
from mlcheck.trial.script.driver import Driver
from mlcheck.trial.script.outputs import Outputs


def resume(driver: Driver, outputs: Outputs, standing: Callable[[], Standing]) -> Resumption | None:
    """The script then waits for its first training batch; None where it saves nothing."""
    scratch = outputs.scratch
    if not (outputs.saves and scratch.leaves_files):
        return None
    driver.start()
    at_first = standing()
    outputs.loaded.clear()
    scratch.puts_back = True
    try:
        driver.start()
    finally:
        scratch.puts_back = False
        driver.begin_anew()
    return Resumption(list(outputs.loaded.values()), standing(), at_first)
