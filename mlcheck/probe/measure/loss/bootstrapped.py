"""Whether the target of temporal-difference learning, a reward plus the discounted best value, carries gradients.

It shows in the graph of the target: something without gradients is added, a factor without gradients is multiplied, and
behind it one value is chosen among those of several actions, as is the prediction's own, by the same weights. Where the
step draws actions, the one output of a critic will do, if the factor is one discount for all that go on, and 0 else.
There an advantage, data less such an output, is to weigh the log-probabilities of actions without gradients as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.loss.comparisons import LOSSES
from mlcheck.probe.measure.loss.written_pairs import SUBTRACTIONS
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_CHOOSING = {"Gather", "Index", "Max", "Amax", "TakeAlongDim"}
_SHAPING = {"Squeeze", "Unsqueeze", "View", "ReshapeAlias", "Alias", "Select", "Slice", "Clone", "ToCopy", "T"}
_OUTPUTS = {"Addmm", "Mm"}
_DRAWING = {"multinomial", "normal"}  # as distributions sample
_PRODUCTS = {"mul", "multiply", "__mul__", "__rmul__"}
_LEAST_DISCOUNT = 0.5
_LONGEST = 30


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The places where a chosen value is compared with a target made of chosen values, `carrying` those gradients.

    At those that are `weighing` an advantage with gradients is multiplied with log-probabilities of drawn actions.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    seen: int
    carrying: tuple[Location, ...]
    weighing: tuple[Location, ...] = ()

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        chosen = called & {"gather", "__getitem__", "take_along_dim", *_DRAWING}
        return "" if chosen else "no value of an action is chosen"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        chosen: list[Location] = []
        carrying: list[Location] = []
        of_states: list[Location] = []
        weighing: list[Location] = []
        draws: set[str] = set()

        def look(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _: Tensor) -> None:
            draws.update({getattr(func, "__name__", "")} & _DRAWING)
            if func.__name__ in _PRODUCTS and _is_weighed(args):
                weighing.append(user_location())
            pair = [one for one in (*args, *kwargs.values())[:2] if isinstance(one, Tensor) and one.ndim]
            if (func not in LOSSES and func not in SUBTRACTIONS) or len(pair) != 2 or pair[0].shape != pair[1].shape:
                return
            for value, target in (pair, pair[::-1]):
                if _is_chosen(value.grad_fn):
                    chosen.append(user_location())
                    if _is_bootstrapped(target.grad_fn) and _weights(value) & _weights(target):
                        carrying.append(user_location())
                elif (
                    _is_output(value.grad_fn) and _is_discounted(target.grad_fn) and _weights(value) == _weights(target)
                ):
                    of_states.append(user_location())

        watch_step(trial, look)
        if draws:
            chosen, carrying = chosen + of_states + weighing, carrying + of_states
        if not chosen:
            raise NotMeasured("no loss compares the value of a chosen action with a target")
        return cls(len(chosen), tuple(dict.fromkeys(carrying)), tuple(dict.fromkeys(weighing if draws else ())))


def _is_bootstrapped(node: Any) -> bool:
    """data + factor * chosen: in either order, each once or more."""
    added = multiplied = False
    for _ in range(_LONGEST):
        name = _name(node)
        parents = [parent for parent, _ in node.next_functions] if node is not None else []
        learnt = [parent for parent in parents if parent is not None]
        if name in _CHOOSING:
            return added and multiplied
        if len(learnt) != 1 or name not in _SHAPING | {"Add", "Mul", "Sub", "Neg"}:
            return False
        added |= name in ("Add", "Sub") and len(parents) > 1
        multiplied |= name == "Mul"
        node = learnt[0]
    return False


def _is_output(node: Any) -> bool:
    """What a linear layer gives, one number a row."""
    while _name(node) in _SHAPING:
        node = node.next_functions[0][0]
    return _name(node) in _OUTPUTS


def _is_discounted(node: Any) -> bool:
    """data + factor * output, the factors being one number from a half to 1, or 0 where an episode ends."""
    added, factor = False, torch.ones(())
    for _ in range(_LONGEST):
        name = _name(node)
        parents = [parent for parent, _ in node.next_functions] if node is not None else []
        learnt = [parent for parent in parents if parent is not None]
        if name in _OUTPUTS:
            different = torch.unique(factor[factor != 0])
            return added and len(different) == 1 and _LEAST_DISCOUNT <= float(different) <= 1 and factor.grad_fn is None
        if len(learnt) != 1 or name not in _SHAPING | {"Add", "Mul", "Sub"}:
            return False
        added |= name in ("Add", "Sub") and len(parents) > 1
        if name == "Mul":
            other = node._saved_self if parents[0] is None else node._saved_other
            factor = factor.squeeze() * torch.as_tensor(other).detach().squeeze()
        node = learnt[0]
    return False


def _is_weighed(factors: tuple[Any, ...]) -> bool:
    """Whether one is a number chosen among a policy's, and the other data less a number that is learnt, or scaled."""
    nodes = [one.grad_fn for one in factors if isinstance(one, Tensor) and one.ndim]
    if len(nodes) != 2 or None in nodes:
        return False
    return any(_is_likelihood(one) and _is_advantage(other) for one, other in (nodes, nodes[::-1]))


def _is_likelihood(node: Any) -> bool:
    """Of one of several actions, or of numbers by a normal density; or its ratio to that of before, or the negative."""
    while _name(node) in {"Neg", "Exp", "Sum", *_SHAPING}:
        node = node.next_functions[0][0]
    return _is_chosen(node) or _is_density(node) or (_name(node) == "Sub" and _is_likelihood(node.next_functions[0][0]))


def _is_density(node: Any) -> bool:
    """-(value - mean)² / (2 variance) - log(deviation) - a number, as `Normal.log_prob` computes it."""
    for name in ("Sub", "Sub", "Div", "Neg", "Pow"):
        if _name(node) != name:
            return False
        node = node.next_functions[0][0]
    return True


def _is_advantage(node: Any) -> bool:
    """data - output, less its mean and over its deviation or as it is."""
    subtracted = False
    for _ in range(_LONGEST):
        name = _name(node)
        parents = [parent for parent, _ in node.next_functions] if node is not None else []
        learnt = [parent for parent in parents if parent is not None]
        if name in _OUTPUTS:
            return subtracted
        if name not in _SHAPING | {"Add", "Mul", "Sub", "Neg", "Div"} or not learnt:
            return False
        subtracted |= name in ("Sub", "Add") and len(parents) > len(learnt)
        if len(learnt) > 1 and not (name in ("Sub", "Div") and _name(learnt[1]) in ("Mean", "Std", "Add")):
            return False
        node = learnt[0]
    return False


def _is_chosen(node: Any) -> bool:
    """One of several numbers a row, through nothing but another shape."""
    for _ in range(_LONGEST):
        name = _name(node)
        if name in _CHOOSING or name not in _SHAPING:
            return name in _CHOOSING
        node = node.next_functions[0][0]
    return False


def _name(node: Any) -> str:
    return node.name().split("Backward")[0] if node is not None else ""


def _weights(tensor: Tensor) -> set[int]:
    return {id(node.variable) for node in graph_nodes(tensor) if hasattr(node, "variable")}
