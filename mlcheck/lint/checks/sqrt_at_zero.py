"""sqrt-at-zero: the gradient of a root is infinite where a loss arrives at zero."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call

LOOKS_AT = "square root"
WORDS = ("sqrt",)
_DISTANCE = pattern(r"mse_loss\(|\bmse\(|MSELoss\(\)\(|(?:\*\*\s*2|\.pow\(2\)|\.square\(\))\)?\.(?:sum|mean)\(")
_SAFE = pattern(r"eps|1e-|clamp|maximum|\+ *\d|\+ *self|relu")
_TRAINED = pattern(r"loss|rmse|criterion", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    trains = any(True for _ in facts.sites.mentioning([".backward(", "Trainer("]))
    calls = [*facts.sites.calls("torch.sqrt"), *_methods(facts)] if trains else []
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        inner = call.node.args[0] if call.node.args else call.node.func
        text = ast.unparse(inner)
        if _DISTANCE.search(text) and "-" in text.replace("1e-", "") + _of_losses(text) and not _SAFE.search(text):
            if _is_trained(call):
                yield Finding(
                    "The gradient of this root is infinite where the distance is zero, and NaN after it",
                    call.place.location,
                    help="`torch.sqrt(x + 1e-8)`",
                )


def _of_losses(text: str) -> str:
    return "-" if "mse" in text.lower() else ""


def _methods(facts: Facts) -> Iterator[Call]:
    """`x.sqrt()`."""
    for file in facts.sites.mentioning([".sqrt()"]):
        for call in file.calls("sqrt"):
            if not call.node.args and file.resolve(call.node.func, call.context) is None and "torch" in file.text:
                yield call


def _is_trained(call: Call) -> bool:
    """Whether what it becomes is a loss, by the names around it, and gradients are wanted."""
    function = call.function
    names = [*call.file.names_given(call.node), function.name if function is not None else ""]
    if call.cls is not None and call.function is not None and call.function.name in ("forward", "__call__"):
        names.append(call.cls.name)
    around = function.text if function is not None else ""
    quiet = (
        "no_grad" in around or any("no_grad" in ast.unparse(d) for d in function.node.decorator_list)
        if function
        else False
    )
    return any(_TRAINED.search(name) for name in names) and not quiet and "eval" not in "".join(names).lower()
