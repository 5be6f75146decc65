"""The share of a picture that is left after so many steps of noise: the product of the `1 - beta` of all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites

_LEFT = pattern(r"^(?:sqrt_)?alphas?_?(?:cum|bar|hat|prod|t_bar|_?cumulative)")
_NOISE = pattern(r"^_?betas?$")
_SHARE = pattern(r"^_?alphas?$")
_MOVES = ("to", "float", "double", "numpy", "cuda", "cpu", "clone", "detach", "astype", "contiguous", "sqrt")


class WrongProduct(NamedTuple):
    """Where something else is taken together under the name of what is left, and what."""

    place: Place
    name: str
    what: str


def wrong_products(sites: Sites) -> Iterator[WrongProduct]:
    """`alphas_cumprod = torch.cumprod(betas, 0)`, `alpha_bar = torch.cumsum(alphas, 0)`."""
    for file in sites.mentioning(["cumprod", "cumsum"]) if sites.uses_torch else ():
        if "beta" not in file.text:
            continue
        for call in file.calls("cumprod", "cumsum"):
            name = next((name for name in _names(call) if _LEFT.search(name.lower())), "")
            taken = _taken(call)
            if not name or taken is None:
                continue
            if last_name(call.node.func) == "cumprod" and _NOISE.search(taken.lower()):
                yield WrongProduct(call.place, name, f"the product of `{taken}`")
            elif last_name(call.node.func) == "cumsum" and _SHARE.search(taken.lower()):
                yield WrongProduct(call.place, name, f"the sum of `{taken}`")


def _taken(call: Call) -> str | None:
    """The last name of what is multiplied up, through plain names."""
    of_library = call.file.called(call.node, call.context).startswith(("torch.", "numpy."))
    given = call.argument("input", 0) if of_library else call.owner
    if given is None:
        return None
    node = before_methods(given, _MOVES)
    while isinstance(node, ast.Name) and not _NOISE.search(node.id.lower()):
        made, _ = source(call.file, node, call.context)
        if made is node or not isinstance(made, ast.Name | ast.Attribute):
            break
        node = made
    return last_name(node) or None


def _names(call: Call) -> Iterator[str]:
    """The names that the product is kept under, right where it is made."""
    for defined in call.function.nodes if call.function is not None else call.file.module.source.tree.body:
        if isinstance(defined, ast.Assign) and before_methods(defined.value, _MOVES) is call.node:
            yield from (last_name(target) for target in defined.targets)
        elif isinstance(defined, ast.Call) and last_name(defined.func) == "register_buffer" and len(defined.args) > 1:
            named = defined.args[0]
            if before_methods(defined.args[1], _MOVES) is call.node and isinstance(named, ast.Constant):
                yield str(named.value)
