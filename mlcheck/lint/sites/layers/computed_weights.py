"""Fills of weights that a normalisation computes anew before every forward pass, from parameters of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.initialising import FILLS, kinds_named, kinds_told_apart
from mlcheck.lint.sites.layers.modules import CONTAINERS, flat, holds_parameters
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_PARAMETRIZED = tuple(f"torch.nn.utils.parametrizations.{name}" for name in ("weight_norm", "spectral_norm"))
# `torch.nn.utils.spectral_norm` is none of them: until the first pass its weight shares the memory of the parameter.
COMPUTES = frozenset(["torch.nn.utils.weight_norm", "torch.nn.utils.parametrizations.orthogonal", *_PARAMETRIZED])
_IN_PLACE = ("normal_", "uniform_", "zero_", "fill_", "copy_", "clamp_", "mul_", "div_")
_INITS = ("constant_", "ones_", "zeros_", "eye_", "dirac_", "sparse_", "trunc_normal_", "orthogonal_")
_SCALED = tuple(f"{way}_{kind}_" for way in ("xavier", "kaiming") for kind in ("normal", "uniform"))
_UNDOES = ("remove_weight_norm", "remove_spectral_norm", "remove_parametrizations", "cached(")
_GROWS = ("append", "extend", "insert", "add_module", "__setitem__")


class LostFill(NamedTuple):
    """The call that fills the weight, or applies what fills it, and the one that has it computed."""

    call: Call
    norm: Origin


def lost_fills(sites: Sites) -> Iterator[LostFill]:
    """`nn.init.xavier_uniform_(conv.weight)` of a `conv = weight_norm(nn.Conv1d(8, 8, 3))`."""
    if not any(True for _ in sites.calls(*COMPUTES)):
        return
    for file in sites.mentioning([".weight"]):
        for call in file.calls(*_IN_PLACE, *_INITS, *_SCALED):
            layer = _layer_filled(call)
            norms = _norms(call, layer) if layer is not None and not _is_undone(call) else []
            if norms:
                yield LostFill(call, norms[0])
    for file in sites.mentioning([".apply("]):
        for call in file.calls("apply"):
            given = call.argument("fn", 0)
            applied = file.resolve(given, call.context) if given not in (None, OPEN) else None
            if isinstance(applied, Function) and _fills_weights(applied) and not _is_undone(call):
                norms = _norms(call, call.owner)
                if norms and _has_any(norms, kinds_told_apart(applied) | kinds_named(applied)):
                    yield LostFill(call, norms[0])


def _is_undone(call: Call) -> bool:
    """Whether a line of the same function may give the layer its weight back, or keeps what is computed."""
    return call.function is not None and any(word in call.function.text for word in _UNDOES)


def _layer_filled(call: Call) -> ast.expr | None:
    """`conv` of `conv.weight.data.normal_()` and of `nn.init.ones_(conv.weight)`."""
    is_init = call.file.called(call.node, call.context).startswith("torch.nn.init.")
    filled = call.argument("tensor", 0) if is_init else call.owner if last_name(call.node.func) in _IN_PLACE else None
    if isinstance(filled, ast.Attribute) and filled.attr == "data":
        filled = filled.value
    return filled.value if isinstance(filled, ast.Attribute) and filled.attr == "weight" else None


def _norms(call: Call, layer: ast.expr | None) -> list[Origin]:
    """The calls that have the weights of a layer, or of each in a container, computed; none where one may not be."""
    found: list[Origin] = []
    for made in origins(call.file, layer, call.context) if layer is not None else ():
        parts = [made, *_put_in(call, layer)] if made.name in CONTAINERS else [made]
        for part in parts:
            norms = _norms_of(part)
            if norms is None:
                return []
            found += norms
    return found


def _norms_of(made: Origin) -> list[Origin] | None:
    """None where a layer holds weights of its own."""
    if made.name in COMPUTES:
        call = Call(made.file, made.node, made.context) if isinstance(made.node, ast.Call) else None
        return [made] if call is not None and call.constant("name", 1, "weight") == "weight" else None
    if made.name not in CONTAINERS or not isinstance(made.node, ast.Call):
        return [] if _is_without_weights(made) else None
    found: list[Origin] = []
    for part in flat(made.node.args):
        norms = _norms_of(Origin(made.file, part, made.context)) if not isinstance(part, ast.Starred) else None
        if norms is None:
            return None
        found += norms
    return found


def _is_without_weights(made: Origin) -> bool:
    return made.name.startswith("torch.nn.") and not holds_parameters(made.file, made.node, made.context)


def _put_in(call: Call, container: ast.expr | None) -> list[Origin]:
    """What the methods of the class append to its container; what they put in otherwise stands for itself."""
    name = own_attribute(container, call.function)
    if not name or call.cls is None:
        return []
    return [
        Origin(grown.file, grown.node.args[-1] if last_name(grown.node.func) == "append" else grown.node, grown.context)
        for grown in call.file.calls(*_GROWS)
        if grown.cls is call.cls and grown.node.args and own_attribute(grown.owner, grown.function) == name
    ]


def _fills_weights(function: Function) -> bool:
    """Whether what is applied fills the `weight` of the module that it is given."""
    given = next((name for name in function.parameters if name != function.receiver), "")
    return bool(given) and f"{given}.weight" in function.text and FILLS.search(function.text) is not None


def _has_any(norms: list[Origin], kinds: set[str]) -> bool:
    """Whether what is normalised may be a layer of one of the kinds, which may be parts of names."""
    layers = [norm.node.args[0] for norm in norms if isinstance(norm.node, ast.Call) and norm.node.args]
    names = {last_name(layer.func) if isinstance(layer, ast.Call) else "" for layer in layers}
    return not kinds or any(kind in name for kind in kinds for name in names)
