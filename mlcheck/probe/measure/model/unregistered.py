"""Parameters that no model has registered: where one keeps them, or that it makes them anew in every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.modules import ModelCall
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class Fleeting:
    """`count` parameters a step, of modules of these `kinds`, that live for that step alone."""

    count: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Stray:
    """A parameter that nothing trains. `kept` says that a model keeps it out of its registry, by this `name`.

    Otherwise the name is that of a variable of the program, and empty where none leads to it.
    """

    name: str
    shape: tuple[int, ...]
    kept: bool

    @classmethod
    def of(cls, leaf: torch.Tensor, trial: Trial) -> Stray:
        kept = where_kept(leaf, trial)
        return cls(kept or where_held(leaf, trial), tuple(leaf.shape), bool(kept))

    @property
    def told(self) -> str:
        return self.name or f"a parameter of shape {self.shape}"


class Leaves:
    """The leaves of the graphs that backward is called on, each with how often it was met and what it was at first."""

    def __init__(self) -> None:
        self.met: Counter[int] = Counter()
        self._leaves: dict[int, torch.Tensor] = {}
        self._first: dict[int, torch.Tensor] = {}

    def see(self, node: Any) -> None:
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in self._leaves and not isinstance(leaf, nn.Parameter):
                self._first[id(leaf)] = leaf.detach().clone()
            self._leaves[id(leaf)] = leaf
            self.met[id(leaf)] += 1

    def outside(self, known: Collection[int], given: Collection[int], trial: Trial) -> list[torch.Tensor]:
        """Parameters that are not `known`, and plain tensors that ask for gradients and that nothing ever moves.

        These a model keeps, or the program holds beside it; what is `given` to a model is a point in its space, where
        the loss wants a slope.
        """
        others = [leaf for key, leaf in self._leaves.items() if key not in known]
        return [leaf for leaf in others if isinstance(leaf, nn.Parameter) or self._is_left(leaf, given, trial)]

    def _is_left(self, leaf: torch.Tensor, given: Collection[int], trial: Trial) -> bool:
        again = self.met[id(leaf)] > 1 and torch.equal(leaf.detach(), self._first[id(leaf)])
        if not again:
            return False
        return bool(where_kept(leaf, trial) or (id(leaf) not in given and where_held(leaf, trial)))


def leaves_given(calls: Iterable[ModelCall]) -> set[int]:
    """The leaves that were arguments of models, or that these were made of."""
    found: set[int] = set()
    for call in calls:
        for _, tensor in leaves([*call.args, *call.kwargs.values()]):
            made_of = [getattr(node, "variable", None) for node in graph_nodes(tensor)] if tensor.grad_fn else [tensor]
            found |= {id(leaf) for leaf in made_of if leaf is not None}
    return found


def made_anew(met: list[tuple[torch.Tensor, int]], backwards: int, ran: Iterable[nn.Module]) -> Fleeting | None:
    """Where every one of these parameters was met in one backward pass of several, and as many in each."""
    if backwards < 2 or len(met) < backwards or len(met) % backwards or any(times > 1 for _, times in met):
        return None
    leaves = {id(leaf) for leaf, _ in met}
    owners = [type(module).__name__ for module in ran if any(id(p) in leaves for p in module.parameters(recurse=False))]
    return Fleeting(len(met) // backwards, tuple(sorted(set(owners))))


def followers(called: Iterable[nn.Module], trial: Trial, before: Mapping[int, torch.Tensor]) -> set[int]:
    """The parameters of modules that hold what a model held before: target networks, which follow and never train."""
    found: set[int] = set()
    for module in called:
        own = list(module.parameters())
        for model in trial.models.values():
            held = [before.get(id(parameter)) for parameter in model.parameters()]
            if type(model) is type(module) and own and len(own) == len(held) and _are_near(own, held):
                found |= {id(parameter) for parameter in own}
    return found


def _are_near(own: list[nn.Parameter], held: list[torch.Tensor | None]) -> bool:
    """By their matrices: biases that began at 0 are near to nothing, and scales that began at 1 to all others."""
    pairs = list(zip(own, held, strict=True))
    return all(_is_near(now, then) for now, then in [pair for pair in pairs if pair[0].ndim > 1] or pairs)


def _is_near(now: torch.Tensor, then: torch.Tensor | None) -> bool:
    """Whether one follows the other, which a second random start does not."""
    if then is None or now.shape != then.shape:
        return False
    return bool(torch.linalg.vector_norm(now.detach() - then) <= 0.5 * torch.linalg.vector_norm(then))


def where_kept(leaf: torch.Tensor, trial: Trial) -> str:
    """`blocks.0.weight`, where a module of the model keeps it in a plain list, dict or attribute."""
    for model in trial.models.values():
        for prefix, owner in model.named_modules():
            for attribute, value in vars(owner).items():
                if attribute.startswith("_"):
                    continue
                found = _search(value, leaf, attribute, 3)
                if found:
                    return f"{prefix}.{found}" if prefix else found
    return ""


def where_held(leaf: torch.Tensor, trial: Trial) -> str:
    """`critic.0.weight`, where a variable or an attribute of the program's own holds it, or a module in one."""
    for holder in trial.objects:
        variables = holder if isinstance(holder, dict) else vars(holder) if hasattr(holder, "__dict__") else {}
        for name, value in variables.items():
            if isinstance(name, str) and not name.startswith("_") and (found := _search(value, leaf, name, 2)):
                return found
    modules = [holder for holder in trial.objects if isinstance(holder, nn.Module)]
    return next((found for module in modules if (found := _search(module, leaf, type(module).__name__, 0))), "")


def _search(value: object, leaf: torch.Tensor, path: str, depth: int) -> str:
    if value is leaf:
        return path
    if isinstance(value, nn.Module):
        return next((f"{path}.{name}" for name, p in value.named_parameters() if p is leaf), "")
    if depth and isinstance(value, (list, tuple)):
        return next((found for i, v in enumerate(value) if (found := _search(v, leaf, f"{path}[{i}]", depth - 1))), "")
    if depth and isinstance(value, dict):
        return next((f for k, v in value.items() if (f := _search(v, leaf, f"{path}[{k!r}]", depth - 1))), "")
    return ""
