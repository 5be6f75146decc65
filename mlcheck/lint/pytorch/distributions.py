"""Distributions of torch: what is asked of them has the graph of the parameters they were made with."""

from __future__ import annotations

from mlcheck.lint.facts import Loss
from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import NO_TRACES, Args, Object, Symbol, Tensor, Traces, Value, split_of, traces_of

_HOME = "torch.distributions."
_CATEGORICAL = "torch.distributions.Categorical"
_DRAWN = frozenset(["sample", "sample_n"])


def is_distribution(value: Value) -> bool:
    return isinstance(value, Object) and value.cls is None and value.type.startswith(_HOME)


def made(m: Machine, distribution: Object) -> None:
    """`Categorical(logits=probabilities)`: another softmax is applied to what one has made, which is put on record."""
    given = distribution.kwargs.get("logits")
    if distribution.type.endswith("Categorical") and isinstance(given, Tensor) and given.kind == "softmax":
        if distribution.place is not None:
            m.facts.losses.append(Loss(distribution.place, _CATEGORICAL, given, None))


def asked(m: Machine, owner: Object, name: str, args: Args) -> Value:
    """`owner.log_prob(action)`, `owner.entropy()`; what `owner.sample()` draws has no graph."""
    drawn = name in _DRAWN
    return Symbol(m.fresh(), "", split_of(*args), NO_TRACES if drawn else _behind(m, owner) | traces_of(*args))


def divergence(m: Machine, args: Args) -> Symbol:
    """`torch.distributions.kl_divergence(p, q)`."""
    return Symbol(m.fresh(), "", "", NO_TRACES.union(*(_behind(m, arg) for arg in args)))


def _behind(m: Machine, value: Value, depth: int = 4) -> Traces:
    """The module calls that the parameters come from, of a distribution around another too."""
    if not isinstance(value, Object):
        return traces_of(value)
    if depth == 0:
        return NO_TRACES
    held = containers.contents(m, value)
    inside = [*value.args, *value.kwargs.values(), *([held] if held is not None else [])]
    return NO_TRACES.union(*(_behind(m, part, depth - 1) for part in inside))
