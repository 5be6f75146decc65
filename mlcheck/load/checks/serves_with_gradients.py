"""Judges whether answering a query records a graph for a backward pass that never comes."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.cases import Conduct


def check(conduct: Conduct) -> Verdict:
    if not conduct.module_calls:
        return Verdict(Outcome.SKIP, reason="no module of PyTorch was called in this process to answer a query")
    if not conduct.graph:
        told = f"nothing recorded gradients while a query was answered (module calls: {conduct.module_calls})"
        return Verdict(Outcome.PASS, told, looked_at=conduct.module_calls)
    message = f"the output of {conduct.graph} carries a graph for gradients while a query is answered"
    finding = Finding(message, help="answer under torch.inference_mode(): it saves time and memory")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=conduct.module_calls)
