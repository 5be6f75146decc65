"""Clips and steps of two optimizers in one block, where what is clipped is not what is stepped next."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_CLIPS = tuple(f"torch.nn.utils.clip_grad_{kind}" for kind in ("norm_", "value_", "norm"))


class Crossed(NamedTuple):
    """A clip of `clipped`, the step behind it, and the optimizer that takes that step along `stepped`."""

    clip: Call
    step: Call
    made: Call
    clipped: str
    stepped: str


def crossed(sites: Sites) -> Iterator[Crossed]:
    """`clip(a.parameters()); for_b.step()`, though `for_a` steps only behind another backward pass."""
    for clip in sites.calls(*_CLIPS):
        given = clip.argument("parameters", 0)
        function = clip.function
        if function is None or not isinstance(given, ast.expr):
            continue
        clipped, held = ast.unparse(given), _made_beside(sites, function)
        steps = [call for call in clip.file.calls("step") if call.context is clip.context and _owner(call) in held]
        backwards = [call for call in clip.file.calls("backward") if call.context is clip.context]
        end = min((call.node.lineno for call in backwards if call.node.lineno > clip.node.lineno), default=0)
        behind = [call for call in steps if clip.node.lineno < call.node.lineno and (call.node.lineno < end or not end)]
        own = [call for call in steps if _parameters(held[_owner(call)]) == clipped]
        if not behind or not own or any(call in behind for call in own):
            continue
        made = held[_owner(behind[0])]
        stepped = _parameters(made)
        if not _overlap(clipped, stepped):
            yield Crossed(clip, behind[0], made, clipped, stepped)


def _made_beside(sites: Sites, function: Function) -> dict[str, Call]:
    """The optimizers that the function makes, or that its class keeps, by their names; of those made once."""
    found: dict[str, list[Call]] = {}
    for made in sites.once(optimizers):
        kept = made.cls is not None and made.cls is function.cls
        if made.function is function or kept:
            for name in made.file.names_given(made.node):
                key = f"{function.receiver}.{name}" if kept and made.function is not function else name
                found.setdefault(key, []).append(made)
                found.setdefault(f"{function.receiver}.{name}", []).append(made)
    return {name: calls[0] for name, calls in found.items() if len({id(call.node) for call in calls}) == 1}


def _parameters(made: Call) -> str:
    given = made.argument("params", 0)
    return ast.unparse(given) if isinstance(given, ast.expr) else ""


def _owner(step: Call) -> str:
    return ast.unparse(step.owner) if step.owner is not None and last_name(step.node.func) == "step" else ""


def _overlap(one: str, other: str) -> bool:
    """Whether one may be a part of the other: `model.parameters()`, `model.head.parameters()`."""
    one, other = one.removesuffix(".parameters()"), other.removesuffix(".parameters()")
    names = all(part.replace(".", "_").isidentifier() for part in (one, other))
    return not names or f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
