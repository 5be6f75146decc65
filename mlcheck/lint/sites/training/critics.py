"""Modules that judge what others make."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from mlcheck.lint.facts import Forward
from mlcheck.lint.values import Cut


def tells_apart(critic: Collection[Hashable], maker: Collection[Hashable], calls: Collection[Forward]) -> bool:
    """Whether in these calls a critic sees what a maker made, and something else beside it, as a discriminator does.

    `critic` and `maker` are the modules of each.
    """
    judged = [call for call in calls if not call.touched.isdisjoint(critic)]
    made = [call for call in calls if not call.touched.isdisjoint(maker)]
    fed = [any(_touches(trace, maker) for trace in call.fed) for call in judged]
    return any(fed) and not all(fed) and not any(_touches(trace, critic) for call in made for trace in call.fed)


def _touches(trace: Forward | Cut, modules: Collection[Hashable]) -> bool:
    call = trace.forward if isinstance(trace, Cut) else trace
    return not call.touched.isdisjoint(modules)
