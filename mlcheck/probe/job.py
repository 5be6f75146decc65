"""What the parent asks of the child that runs the user's program."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from mlcheck.core.options import RuleOptions

_SLOW_STEP_S = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """`rules` in the order to answer them. `dead` are measurements that ended an earlier child, with the reason.

    `budget` is what is left of `whole_budget`, 0 where it is all. `blocked` says how far the program was seen to get:
    measurements that need more of it are skipped. `rule_options` are the numbers that were set for single rules.
    `without_gpu`: CUDA is not to be found. `grid` is what a runner starts the script with.
    """

    entry: str
    config: str
    hyperparameters: dict[str, Any]
    prep: str
    seed: int
    time_limit: float
    budget: float
    rules: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    ranks: int = 0
    cpu_shim: bool = False
    without_gpu: bool = False
    whole_budget: float = 0.0
    epochs: int = 0
    grid: dict[str, Any] | None = None
    memory_limit: int = 0
    rule_options: RuleOptions = field(default_factory=dict)
    dead: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def loads(text: str) -> Job:
        data = json.loads(text)
        return Job(**{**data, "rules": tuple(data["rules"]), "arguments": tuple(data["arguments"])})


def budget_spent(budget: float, step_seconds: float) -> str:
    """Why a probe was not asked, and what to do: where the steps are slow, more seconds alone do not help far."""
    slow = step_seconds >= _SLOW_STEP_S
    smaller = f"a step takes {step_seconds:.1f} s, so give the program smaller batches or inputs, or " if slow else ""
    return f"the budget of {budget:g} s was spent: {smaller}raise --budget, or choose probes with --only"
