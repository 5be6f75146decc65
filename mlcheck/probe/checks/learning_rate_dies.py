"""Judges the learning rate over the first steps: a schedule that ends almost at once, or falls while all goes well."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.metric_names import best
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.plateaus import Plateau, Plateaus
from mlcheck.probe.measure.training.short_run import ShortRun

DEAD = 1e-4
LONG = 10
ENDING = 0.9
_WORST = {"min": "largest", "max": "smallest"}


def check(run: ShortRun, waiting: Plateaus | None) -> Verdict:
    backwards = [one for one in waiting.seen if best(one.metric) == _WORST[one.mode]] if waiting else []
    if backwards:
        findings = tuple(_backwards(one) for one in backwards)
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(findings))
    rates = run.rates
    if len(rates) < LONG or max(rates) <= 0:
        return Verdict(Outcome.SKIP, reason="no optimizer with a learning rate was seen for long enough")
    top = max(rates)
    peak = rates.index(top)
    end = ENDING * len(rates) if run.is_over else len(rates) - 1  # the last rate is one that no step was seen to take
    fallen = next((step for step in range(peak, len(rates)) if rates[step] <= DEAD * top and step < end), None)
    figure = Figure(
        "curves",
        "the learning rate",
        {"series": [{"name": "largest learning rate", "y": rates}], "x_label": "step", "y_label": "rate"},
    )
    if fallen is None:
        low = min(rates)
        told = f"{top:.3g} throughout" if low == top else f"between {low:.3g} and {top:.3g}"
        drawn = (figure,) if low < top else ()
        return Verdict(
            Outcome.PASS,
            f"the learning rate is {told} in {plural(len(rates), 'step')}",
            figures=drawn,
            looked_at=len(rates),
        )
    epochs = f" ({run.epochs * (fallen + 1) / len(rates):.1f} epochs)" if run.epochs else ""
    message = (
        f"the learning rate falls from {top:.3g} to {rates[fallen]:.3g} within {plural(fallen + 1, 'step')}{epochs}"
    )
    finding = Finding(
        message,
        help="step an epoch-wise schedule once an epoch, or give it the number of steps of the whole run",
        numbers={"from": top, "to": rates[fallen], "step": float(fallen + 1)},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=(figure,), looked_at=len(rates))


def _backwards(one: Plateau) -> Finding:
    kept = "larger" if one.mode == "max" else "smaller"
    other = "min" if one.mode == "max" else "max"
    return Finding(
        f"ReduceLROnPlateau waits for a {kept} `{one.metric}` (mode={one.mode!r}): the better the training goes, the "
        "sooner the learning rate is lowered",
        one.place,
        help=f"mode={other!r}",
    )
