"""loss-rewrapped: a backward from a new tensor that holds the loss's value and nothing of its graph."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call

LOOKS_AT = "backward pass"
_MAKERS = ("torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor")
_COMPUTED = re.compile(r"loss|log_?p|logits")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _collected(facts)
    for backward in facts.backwards:
        if backward.severed is not None:
            yield Finding(
                "The loss is cut off from the model here: its `backward()` reaches no parameter",
                backward.severed.location,
                help="call `backward()` on the loss itself; take `item()` or `detach()` only for what is logged",
                related=(backward.place.location,),
            )


def _collected(facts: Facts) -> Iterator[Finding]:
    """`torch.tensor(losses, requires_grad=True)` of a list that the same function filled, under its `backward()`."""
    for call in facts.sites.calls(*_MAKERS):
        given = call.node.args[0] if call.node.args else None
        function = call.function
        if function is None or not isinstance(given, ast.Name) or not _COMPUTED.search(given.id.lower()):
            continue
        called = {ast.unparse(node.func) for node in function.nodes if isinstance(node, ast.Call)}
        if f"{given.id}.append" not in called or not _asks_gradient(call):
            continue
        if any(name.endswith(".backward") for name in called) and any(name.endswith(".step") for name in called):
            yield Finding(
                f"A new tensor of the numbers in `{given.id}`: no gradient reaches what they were computed with",
                call.place.location,
                help=f"`torch.stack({given.id})`, of the tensors as they were computed, without `item()`",
            )


def _asks_gradient(call: Call) -> bool:
    """`torch.tensor(x, requires_grad=True)`, `torch.FloatTensor(x).requires_grad_()`."""
    if call.constant("requires_grad") is True:
        return True
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    return any(
        isinstance(node, ast.Attribute) and node.attr == "requires_grad_" and node.value is call.node for node in nodes
    )
