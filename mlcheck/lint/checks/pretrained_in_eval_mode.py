"""pretrained-in-eval-mode: a network is fine-tuned in the eval mode in which `from_pretrained` hands it out."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import File

LOOKS_AT = "pretrained network"
WORDS = ("from_pretrained",)
_CHOSEN = pattern(r"requires_grad|freez|frozen|\.training *=")
"""Who freezes parts of a network, or sets modes by hand, has thought about them."""
_MODULES = ("self", "model", "net", "network", "module")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(len(file.calls("from_pretrained")) for file in facts.sites.mentioning(WORDS))
    put_back = {forward.place.spot for forward in facts.forwards if forward.trained and not forward.loaded}
    for forward in facts.forwards:
        if forward.place.spot in put_back or not _is_trained(forward):
            continue
        for place in forward.loaded:
            files = [facts.sites.at(path) for path in (place.path, forward.place.path)]
            if not any(file is None or _CHOSEN.search(file.text) or _switches(file, forward.name) for file in files):
                yield Finding(
                    f"`{forward.name}` is trained with its dropout off: `from_pretrained` hands networks out in eval "
                    "mode, and nothing calls `train()`",
                    place.location,
                    help=f"call `{forward.name}.train()` before the loop that trains",
                    related=(forward.place.location,),
                )


def _is_trained(forward: Forward) -> bool:
    """In a loop whose steps move its weights, or in the step of a framework that has the loop."""
    return forward.trained and ((forward.learns and bool(forward.loops)) or "training_step" in forward.functions)


def _switches(file: File, name: str) -> bool:
    """Whether `train()` is called on what may be this network, or hold it, under whatever condition."""
    for call in file.calls("train"):
        owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        if owner is None or call.node.args[1:]:
            continue
        own = isinstance(owner, ast.Name) and owner.id == "self" and call.cls is not None and call.cls.find("train")
        if last_name(owner) in (name, *_MODULES) and not own:
            return True
    return False
