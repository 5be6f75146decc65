"""Latents of an autoencoder that are drawn with a spread that it learns, and whether anything but the draw knows it.

Where nothing else does, rebuilding alone sets the spread, and noise never helps to rebuild: it goes to zero.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from torch import Tensor
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.drawn_targets import NORMAL
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import batch_size, leaves
from mlcheck.trial.trial import Trial

_PRODUCTS = {"mul", "multiply", "__mul__", "__rmul__", "mul_", "__imul__"}
_NUMBER_BY_NUMBER = {
    "Exp", "Exp2", "Expm1", "Softplus", "Sigmoid", "Tanh", "Sqrt", "Pow", "Abs", "Clamp", "ClampMin", "Hardtanh",
    "Relu", "Elu", "Mul", "Div", "Add", "Sub", "Neg", "Expand", "View", "UnsafeView", "ReshapeAlias", "Squeeze",
    "Unsqueeze", "Alias", "Clone", "ToCopy", "Permute", "Transpose",
}  # fmt: skip
Edge = tuple[Any, int]


@dataclass(frozen=True, slots=True)
class UnheldSpreads:
    """Of `seen` spreads that normal numbers are multiplied by, and that differ from sample to sample, the places of
    those that reach the loss by that product alone."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    seen: int
    unheld: tuple[Location, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & NORMAL and called & _PRODUCTS else "no drawn number is multiplied by anything"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batch = first_batches(trial, 1)[0]
        modules, draws, roots = ModuleWatch(), _Draws(batch_size(batch) or 0), list[Edge]()

        def keep(root: Tensor) -> None:
            if root.grad_fn is not None:
                roots.append((root.grad_fn, root.output_nr))

        with stilled(trial), draws, modules, GradientWatch([], keep):
            trial.train_step(batch, 0)
        if not draws.spreads:
            raise NotMeasured("no step draws with a spread that is learnt for each sample")
        if not _is_rebuilt(modules):
            raise NotMeasured("no model gives as many numbers a sample as it was given")
        products = {product for product, _, _ in draws.spreads}
        every, others = _reached(roots, set()), _reached(roots, products)
        in_loss = [one for one in draws.spreads if (one[0], 0) in every]
        if not _is_decoded(every, {product for product, _, _ in in_loss}):
            raise NotMeasured("what is drawn comes to no loss by way of any weights")
        return cls(len(in_loss), tuple(place for _, source, place in in_loss if source not in others))


@dataclass
class _Draws(TorchFunctionMode):
    """Products of normal numbers and a spread: the product's node, where the spread is from, and its place."""

    samples: int
    spreads: list[tuple[Any, Edge, Location]] = field(default_factory=list)
    _drawn: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        pair = args[:2] if name in _PRODUCTS and len(args) > 1 else ()
        spread = next((one for one, other in (pair, pair[::-1]) if self._is_spread(one, other)), None) if pair else None
        source = _source(spread) if spread is not None else None
        result = func(*args, **(kwargs or {}))
        if name in NORMAL and isinstance(result, Tensor):
            self._drawn.append(result)
        if source is not None:
            self.spreads.append((result.grad_fn, source, user_location()))
        return result

    def _is_spread(self, one: Any, other: Any) -> bool:
        if not (isinstance(one, Tensor) and one.grad_fn is not None and any(other is drawn for drawn in self._drawn)):
            return False
        rows = one.detach()
        return one.ndim > 1 and len(one) == self.samples > 1 and bool((rows != rows[:1]).any())


def _source(spread: Tensor) -> Edge:
    """What the spread is a function of, number by number: the output of a layer, or a part of one."""
    node, place = spread.grad_fn, spread.output_nr
    while node is not None and node.name().split("Backward")[0] in _NUMBER_BY_NUMBER:
        learnt = [edge for edge in node.next_functions if edge[0] is not None]
        if len(learnt) != 1:
            break
        node, place = learnt[0]
    return node, place


def _reached(roots: list[Edge], without: set[Any]) -> set[Edge]:
    seen: set[Edge] = set()
    waiting = [root for root in roots if root[0] not in without]
    while waiting:
        edge = waiting.pop()
        if edge in seen:
            continue
        seen.add(edge)
        waiting.extend(up for up in edge[0].next_functions if up[0] is not None and up[0] not in without)
    return seen


def _is_decoded(edges: set[Edge], products: set[Any]) -> bool:
    """Whether weights make something of what is drawn: noise on the answers themselves is no latent.

    (Kendall and Gal 2017, section 3.3, learn how uncertain an answer is by drawing around it.)
    """
    users = defaultdict[Any, list[Any]](list)
    for node, _ in edges:
        for up, _ in node.next_functions:
            users[up].append(node)
    later, waiting = set[Any](), list(products)
    while waiting:
        new = [user for user in users[waiting.pop()] if user not in later]
        later.update(new)
        waiting += new
    return any(_is_weight(up) for node in later for up, _ in node.next_functions)


def _is_weight(node: Any) -> bool:
    """A leaf of the graph, or one that was only given another form, as a linear layer turns its own."""
    while node is not None and len(node.next_functions) == 1:
        node = node.next_functions[0][0]
    return node is not None and node.name().endswith("AccumulateGrad")


def _is_rebuilt(modules: ModuleWatch) -> bool:
    calls = [call for call in modules.calls if call.returned]
    given = [one for call in calls[:1] for _, one in leaves((call.args, call.kwargs)) if one.is_floating_point()]
    return any(
        one.ndim > 1 and len(one) == len(tensor) and one.numel() == tensor.numel()
        for call in calls
        for _, tensor in leaves(call.output)
        if tensor.ndim
        for one in given
    )
