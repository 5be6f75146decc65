"""Whether a difference is one of a prediction and what it is compared with."""

from __future__ import annotations

from mlcheck.lint.values import Cut, Traces, live


def is_compared(one: Traces, two: Traces) -> bool:
    """Whether a model computed one side alone, or both but a gradient reaches one alone, of other calls than the other.

    Differences of a model's own scores, each with each, are taken on purpose.
    """
    if bool(one) != bool(two):
        return True
    calls = [{trace.forward if isinstance(trace, Cut) else trace for trace in side} for side in (one, two)]
    return calls[0].isdisjoint(calls[1]) and _learns(one) != _learns(two)


def _learns(traces: Traces) -> bool:
    return any(forward.grad.kind == "on" for forward in live(traces))
