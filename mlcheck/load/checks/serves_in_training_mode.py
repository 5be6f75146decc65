"""Judges whether layers that differ in training run as in training while a query is answered."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.cases import Conduct


def check(conduct: Conduct) -> Verdict:
    if not conduct.module_calls:
        return Verdict(Outcome.SKIP, reason="no module of PyTorch was called in this process to answer a query")
    if not conduct.training:
        told = (
            f"no dropout or norm ran in training mode while a query was answered (module calls: {conduct.module_calls})"
        )
        return Verdict(Outcome.PASS, told, looked_at=conduct.module_calls)
    more = f" and {plural(len(conduct.training) - 1, 'more layer')}" if len(conduct.training) > 1 else ""
    message = f"{conduct.training[0]}{more} run in training mode while a query is answered"
    finding = Finding(message, help="call model.eval() once, after the weights are loaded")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=conduct.module_calls)
