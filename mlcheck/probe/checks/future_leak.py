"""Judges whether a model that predicts the next token can see it."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.sequences import NextToken


def check(seen: NextToken) -> Verdict:
    if seen.shift == 0:
        message = (
            f"the targets are the input tokens themselves, all {seen.length} of them at the same place: there is "
            "nothing to predict"
        )
        finding = Finding(message, seen.place, help="shift the targets by one: predict token t + 1 from tokens up to t")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
    if not seen.leaks:
        return Verdict(
            Outcome.PASS,
            f"outputs at {plural(seen.tried, 'place')} are the same whatever tokens come behind them",
            looked_at=seen.tried,
        )
    where = f", first in `{seen.module}`" if seen.module else ""
    message = (
        f"the model sees the tokens it has to predict: at {seen.leaks} of {plural(seen.tried, 'place')} the "
        "output changes "
        f"when only later tokens are exchanged{where}"
    )
    finding = Finding(
        message,
        Location(symbol=seen.module.partition(" ")[0]),
        help="apply the causal mask before the softmax (is_causal=True), and check its direction",
    )
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.tried)
