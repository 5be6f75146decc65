"""Judges whether the output depends on the input: bit for bit after a few steps, and by what can be learnt."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.input_use import InputUse
from mlcheck.probe.measure.names import listed


def check(seen: InputUse) -> Verdict:
    tried = len(seen.ignored) + len(seen.used)
    if not seen.finite:
        return Verdict(Outcome.INCONCLUSIVE, reason="the model's output is not finite")
    if not tried:
        what = "all rows of the batch are the same" if seen.rows else "no tensor holds the whole batch"
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{what}, so nothing can be exchanged")
    if seen.rows == 0:
        return _of_ragged(seen, tried)
    if not seen.used or seen.identical:
        if not seen.trained:
            return Verdict(
                Outcome.INCONCLUSIVE,
                reason="the output is the same for every input, but no parameter has changed either: an output layer "
                "that starts at zero looks the same",
            )
        if seen.remembers:
            return Verdict(
                Outcome.INCONCLUSIVE,
                reason=f"`{seen.model}` keeps something from call to call, and a step calls it often: one call "
                "alone does not tell",
            )
        message = f"the output of `{seen.model}` is bit for bit the same for {seen.rows} different inputs"
        return Verdict(
            Outcome.FAIL, message, findings=(Finding(message, Location(symbol=seen.model)),), looked_at=seen.rows
        )
    if seen.ignored:
        names, it = listed(list(seen.ignored)), "it" if len(seen.ignored) == 1 else "them"
        message = f"`{seen.model}` ignores {names}: exchanging {it} between samples leaves its output unchanged"
        finding = Finding(message, Location(symbol=seen.model), help="check where forward uses it")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.rows)
    if seen.outlined:
        message = (
            f"of {listed(list(seen.outlined))} only the padding matters: all tokens exchanged between samples, place "
            f"by place, leave the output of `{seen.model}` unchanged"
        )
        finding = Finding(message, Location(symbol=seen.model), help="check where forward uses it")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.rows)
    if seen.columns:
        message = (
            f"`{seen.model}` ignores {listed(list(seen.columns))}: exchanging those codes between samples leaves its "
            "output unchanged, bit for bit"
        )
        finding = Finding(message, Location(symbol=seen.model), help="check which column each embedding is given")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.rows)
    return Verdict(
        Outcome.PASS, f"the output of `{seen.model}` depends on {listed(list(seen.used))}", looked_at=seen.rows
    )


def _of_ragged(seen: InputUse, tried: int) -> Verdict:
    """Nodes, edges and owners of graphs: none is exchanged between samples, each changes within itself."""
    if not seen.used:
        reason = "no input that changes within itself changes the output: it may be one for all inputs, or go by sums"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    if not seen.ignored:
        return Verdict(
            Outcome.PASS, f"the output of `{seen.model}` depends on {listed(list(seen.used))}", looked_at=tried
        )
    message = (
        f"the numbers of {listed(list(seen.ignored))} in other places leave the output of `{seen.model}` unchanged, "
        "bit for bit: forward does not use them"
    )
    finding = Finding(message, Location(symbol=seen.model), help="check where forward uses it")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=tried)
