"""clip-before-unscale: gradients are clipped while they are multiplied by the loss scale."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.training.hooked_clips import hooked_clips
from mlcheck.lint.sites.training.scaled_clips import scaled_clips

LOOKS_AT = "gradient clipping"
WORDS = ("clip_grad", ".scale(", "register_hook")


_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _other_unscaled(facts.sites)
    for place, hook in hooked_clips(facts.sites):
        yield Finding(
            "The hooks clip each gradient as it comes out of the backward pass, still multiplied by the loss scale",
            place.place.location,
            help="call `torch.nn.utils.clip_grad_value_` behind `scaler.unscale_(optimizer)` instead",
            related=(hook.place.location,),
        )
    for scaled in scaled_clips(facts.sites):
        named = ast.unparse(scaled.scaler)
        yield Finding(
            f"`{ast.unparse(scaled.clip.node.func)}` cuts gradients still multiplied by the scale of `{named}`",
            scaled.clip.place.location,
            help=f"call `{named}.unscale_(optimizer)` between the backward and the clipping",
            related=(scaled.backward.place.location,),
        )
    for clip in facts.clips:
        if {state.kind for state in clip.states} == {"scaled"}:
            name = clip.name.rpartition(".")[2]
            yield Finding(
                f"`{name}` clips gradients that are still multiplied by the loss scale",
                clip.place.location,
                help="call `scaler.unscale_(optimizer)` between the backward and the clipping",
                related=tuple(state.place.location for state in clip.states if state.place),
            )


def _other_unscaled(sites: Sites) -> Iterator[Finding]:
    """`scaler.unscale_(opt_d)`, a clip, and `scaler.step(opt_g)`, in a function that unscales and steps no other."""
    for clip in sites.calls(*_CLIPS):
        function = clip.function
        if function is None or "unscale_(" not in function.text:
            continue
        unscaled, stepped = _given(function, "unscale_"), _given(function, "step")
        if len(unscaled) != 1 or len(stepped) != 1 or ast.dump(unscaled[0][1]) == ast.dump(stepped[0][1]):
            continue
        (before, one), (after, other) = unscaled[0], stepped[0]
        values = [function.file.value(node, function.inner)[0] for node in (one, other)]
        if before.node.lineno < clip.node.lineno < after.node.lineno and values[0] is not values[1]:
            yield Finding(
                f"`{ast.unparse(one)}` is unscaled, and `{ast.unparse(other)}` is stepped: its gradients are clipped "
                "while they are still multiplied by the loss scale",
                clip.place.location,
                help=f"`unscale_({ast.unparse(other)})`",
                related=(before.place.location, after.place.location),
            )


def _given(function: Function, method: str) -> list[tuple[Call, ast.expr]]:
    """The calls of a method of one argument in a function, with what they are given."""
    return [
        (call, call.node.args[0])
        for call in function.file.calls(method)
        if call.function is function
        and len(call.node.args) == 1
        and isinstance(call.node.args[0], ast.Name | ast.Attribute)
    ]
