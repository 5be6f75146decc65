"""loss-weighs-itself: `loss.backward(loss)` multiplies the gradients of the loss by the loss."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.latest import origin

LOOKS_AT = "backward pass"
WORDS = ("backward",)
# Of activations it is meant: pictures that excite a layer climb the square of what it answers (DeepDream).
_MAKES_LOSS = pattern(r"loss|entropy|nll|kl_div|criterion|(?:^|_)(?:mean|sum|mse|bce|ce)$", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["backward"]):
        for call in file.calls("backward") if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            loss, weight = _weighed(call)
            if not (isinstance(loss, ast.Name | ast.Attribute) and isinstance(weight, ast.expr)):
                continue
            if ast.dump(loss) == ast.dump(weight) and _is_loss(call, loss):
                yield Finding(
                    f"`{ast.unparse(loss)}` is given as the gradient of itself: what is minimised is half its "
                    "square, with gradients that vanish as it falls",
                    call.place.location,
                    help=f"`{ast.unparse(loss)}.backward()`",
                )


def _is_loss(call: Call, loss: ast.expr) -> bool:
    """Whether it is computed as one, or given to a function that takes a step."""
    made, _ = origin(call.file, loss, call.context)
    if isinstance(made, ast.Call):
        return _MAKES_LOSS.search(last_name(made.func)) is not None
    return isinstance(made, ast.BinOp) or (call.function is not None and ".step(" in call.function.text)


def _weighed(call: Call) -> tuple[object, object]:
    """What is differentiated, and what its gradients are multiplied by."""
    if call.file.called(call.node, call.context) == "torch.autograd.backward":
        return call.argument("tensors", 0), call.argument("grad_tensors", 1)
    return call.owner, call.argument("gradient", 0)
