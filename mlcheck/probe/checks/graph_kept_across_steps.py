"""Judges whether the graph of a step is freed after it, or held by something that grows."""

from __future__ import annotations

from itertools import pairwise

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.short_run import ShortRun

WARM_UP = 3
ENOUGH = 10


def check(run: ShortRun) -> Verdict:
    alive = run.alive[WARM_UP:]
    if len(alive) < ENOUGH or not run.backwards:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{plural(run.steps, 'step')} made: too few to see memory grow")
    grows = [later - earlier for earlier, later in pairwise(alive)]
    if min(grows) <= 0:
        most = max(alive)
        return Verdict(
            Outcome.PASS,
            f"graphs are freed: at most {most} kept after any of {plural(run.steps, 'step')}",
            numbers={"graphs kept": float(alive[-1])},
            looked_at=run.steps,
        )
    holder = f": `{run.keepers[0]}` holds them" if run.keepers else ""
    message = f"after {run.steps} steps the graphs of {alive[-1]} backward passes are still in memory{holder}"
    finding = Finding(
        message,
        run.backward_place,
        help="keep numbers: loss.item() or loss.detach(), not the loss itself",
        numbers={"graphs kept": float(alive[-1]), "steps": float(run.steps)},
    )
    figure = Figure(
        "curves",
        "graphs of earlier steps still in memory",
        {"series": [{"name": "kept", "y": [float(n) for n in run.alive]}], "x_label": "step", "y_label": "graphs"},
    )
    return Verdict(Outcome.FAIL, message, findings=(finding,), figures=(figure,), looked_at=run.steps)
