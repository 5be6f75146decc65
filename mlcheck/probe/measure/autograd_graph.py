"""Reads the graph that autograd keeps: what made a tensor, and what contributes to it."""

from __future__ import annotations

from typing import Any

import torch

SQUASHING = {"Softmax": "softmax", "SafeSoftmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}
CHANGING = {"Softmax": "softmax", "SafeSoftmax": "softmax", "Sigmoid": "sigmoid", "Relu": "relu"}
BOUNDED = {**SQUASHING, "Tanh": "tanh", "Relu": "relu", "Softplus": "softplus", "Exp": "exp"}
_SHAPING = (
    "View",
    "UnsafeView",
    "ReshapeAlias",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Permute",
    "T",
    "Clone",
    "ToCopy",
    "Slice",
    "Select",
    "Expand",
    "Unsafe",
    "Alias",
    "Index",
    "IndexSelect",
    "MaskedSelect",
    "Split",
    "SplitWithSizes",
    "Unbind",
)


def last_operation(tensor: torch.Tensor, known: dict[str, str], through: str = "") -> str:
    """The operation among `known` whose result this is, looking through views, reshapes, casts and choices of
    rows, and through one operation more; empty if none.
    """
    node = tensor.grad_fn
    while node is not None:
        name = node.name().removesuffix(" ").split("Backward")[0].removeprefix("_")
        if name in known:
            return known[name]
        if name not in _SHAPING and name != through:
            return ""
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def graph_nodes(root: torch.Tensor, limit: int = 50_000) -> set[Any]:
    """Every autograd node that contributes to `root`."""
    return nodes_behind(root.grad_fn, limit)


def nodes_behind(node: Any, limit: int = 50_000) -> set[Any]:
    """This node and every one that contributes to it."""
    seen: set[Any] = set()
    waiting = [node]
    while waiting and len(seen) < limit:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(parent for parent, _ in node.next_functions)
    return seen


_ADDING_UP = (
    "Neg", "Add", "Sub", "Mul", "Div", "Sum", "Mean", "Stack", "Squeeze", "Unsqueeze", "Expand", "View", "UnsafeView",
    "ReshapeAlias", "Alias", "ToCopy", "Clone",
)  # fmt: skip


def summed_nodes(root: torch.Tensor) -> set[Any]:
    """The nodes whose results `root` is a sum of, each by a factor that has no graph of its own."""
    seen: set[Any] = set()
    waiting: list[Any] = [root.grad_fn]
    while waiting:
        node = waiting.pop()
        name = node.name().split("Backward")[0] if node is not None else ""
        parents = [parent for parent, _ in node.next_functions if parent is not None] if node is not None else []
        if name not in _ADDING_UP or node in seen or (name in ("Mul", "Div") and len(parents) > 1):
            continue
        seen.add(node)
        waiting += parents
    return seen


def summands(root: torch.Tensor) -> set[Any]:
    """The nodes of a sum, and those whose results are added up in it."""
    nodes = summed_nodes(root)
    return {root.grad_fn} | nodes | {parent for node in nodes for parent, _ in node.next_functions}


_KEEPING = ("Neg", "Add", "Sub", "Squeeze", "View", "ReshapeAlias", "Alias", "ToCopy", "Clone")


def added_up(root: torch.Tensor) -> list[Any]:
    """The nodes of the terms of a loss, each of which enters by a factor that is a number."""
    found: dict[Any, None] = {}
    waiting: list[Any] = [root.grad_fn]
    while waiting:
        node = waiting.pop()
        name = node.name().split("Backward")[0]
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if name in _KEEPING or (name in ("Mul", "Div") and len(parents) == 1):
            waiting += parents
        else:
            found[node] = None
    return list(found)


def is_plain_mean(root: torch.Tensor) -> bool:
    """Whether one term of a loss is a mean that nothing is multiplied or divided by, right before it or right after."""
    waiting: list[Any] = [root.grad_fn]
    while waiting:
        node = waiting.pop()
        name = node.name().split("Backward")[0] if node is not None else ""
        if name == "Mean" and _is_unscaled(node.next_functions[0][0]):
            return True
        if name in _KEEPING:
            waiting += [parent for parent, _ in node.next_functions]
    return False


def _is_unscaled(node: Any) -> bool:
    """Whether what is averaged was added up, or is the negative of such: a factor would hide in a product."""
    while node is not None and node.name().split("Backward")[0] in ("Neg", "Squeeze", "View"):
        node = node.next_functions[0][0]
    return node is not None and node.name().split("Backward")[0] in ("Add", "Sub")


def weighed(root: torch.Tensor, *weights: object) -> torch.Tensor:
    """What `root.backward(weights)` goes down from: -1 turns it."""
    for given in weights:
        if isinstance(given, torch.Tensor) and bool((given != 1).any()):
            return root * given
    return root
