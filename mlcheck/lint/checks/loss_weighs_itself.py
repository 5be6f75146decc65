"""loss-weighs-itself: `loss.backward(loss)` multiplies the gradients of the loss by the loss."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call

LOOKS_AT = "backward pass"
WORDS = ("backward",)
# Of activations it is meant: pictures that excite a layer climb the square of what it answers (DeepDream).
_IS_LOSS = pattern(r"loss|cost|err|objective|criterion|nll|elbo", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["backward"]):
        for call in file.calls("backward") if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            loss, weight = _weighed(call)
            if (
                isinstance(loss, ast.Name | ast.Attribute)
                and isinstance(weight, ast.expr)
                and _IS_LOSS.search(ast.unparse(loss))
            ):
                if ast.dump(loss) == ast.dump(weight):
                    yield Finding(
                        f"`{ast.unparse(loss)}` is given as the gradient of itself: what is minimised is half its "
                        "square, with gradients that vanish as it falls",
                        call.place.location,
                        help=f"`{ast.unparse(loss)}.backward()`",
                    )


def _weighed(call: Call) -> tuple[object, object]:
    """What is differentiated, and what its gradients are multiplied by."""
    if call.file.called(call.node, call.context) == "torch.autograd.backward":
        return call.argument("tensors", 0), call.argument("grad_tensors", 1)
    return call.owner, call.argument("gradient", 0)
