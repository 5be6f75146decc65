"""half-without-scaling: a model is trained in half precision, or with float16 gradients that nothing scales."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.entered_blocks import blocks_entering
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.training import Optimizer

LOOKS_AT = "half-precision model"
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.amp.autocast_mode.autocast")
_HALVES = ("torch.float16", "torch.half")
_OTHERS = (
    "caler",
    "ccelerat",
    "deepspeed",
    "fabric",
    "Fabric",
    "bfloat16",
    "ightning",
    "apex",
    "loss_scale",
    "set_autocast",
)

_MASTERS = ("FP16_Optimizer", "BF16_Optimizer", "master_param", "MasterParam", "fp32_param")
"""Optimizers that keep the weights in float32 beside those of the model, and scale the loss themselves."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({forward.place.spot for forward in facts.forwards if forward.half})
    yield from _unscaled(facts.sites)
    if any(True for _ in facts.sites.mentioning(_MASTERS, tests=True)):
        return
    optimizers = facts.training.optimizers
    for backward in facts.backwards:
        moving = [
            optimizers[key] for key in backward.reached if key in optimizers and not _stands_still(optimizers[key])
        ]
        held = {owner for optimizer in moving for owner in optimizer.owners}
        for forward in backward.forwards:
            if forward.half is None or forward.frozen or not held:
                continue
            yield Finding(
                f"`{forward.name}` is trained with its weights in half precision: small gradients and updates are lost",
                forward.half.location,
                help="keep the weights in float32 and run the forward pass under `torch.autocast`",
                related=(backward.place.location,),
            )


def _stands_still(optimizer: Optimizer) -> bool:
    """`SGD(parameters, lr=0.0)`: it is there for the steps around the model, and moves no weight."""
    node = optimizer.place.node
    given = [word.value for word in node.keywords if word.arg == "lr"] if isinstance(node, ast.Call) else []
    return any(isinstance(rate, ast.Constant) and rate.value == 0 for rate in given)


def _unscaled(sites: Sites) -> Iterator[Finding]:
    """A backward of what was computed under `torch.autocast("cuda")`, in a program that knows of no scaler."""
    if any(True for _ in sites.mentioning(_OTHERS, tests=True)):
        return
    for call in sites.calls(*_AUTOCASTS):
        backward = _backward_of(call) if _is_float16(call) else None
        if backward is not None:
            yield Finding(
                "Under this autocast gradients are float16, and nothing scales the loss: small ones become zero",
                call.file.place(backward, call.context).location,
                help="scale the loss by a `torch.amp.GradScaler`, or use `dtype=torch.bfloat16`, which needs none",
                related=(call.place.location,),
            )


def _is_float16(call: Call) -> bool:
    named = call.file.resolve(call.node.func, call.context)
    of_cuda = isinstance(named, str) and named.startswith("torch.cuda.amp.")
    on_cuda = of_cuda or call.constant("device_type", 0) == "cuda"
    if not on_cuda or call.constant("enabled", 0 if of_cuda else 2, True) is not True:
        return False
    dtype = call.argument("dtype", 1)
    return dtype is None or call.file.resolve(dtype, call.context) in _HALVES


def _backward_of(call: Call) -> ast.Call | None:
    """The `loss.backward()` of a name that is assigned in the `with` block, where an optimizer steps as well.

    Or of what is returned out of it, and named where the function is called.
    """
    for block in blocks_entering(call):
        nodes = block.around or walk(call.file.module.source.tree)
        inside = walk(block.node)
        made = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        found = _differentiated(nodes, made, block.node.lineno)
        if found is None and block.function is not None and _is_returned(block.function, inside, made):
            found = _differentiated_outside(block.function)
        if found is not None:
            return found
    return None


def _is_returned(function: Function, inside: list[ast.AST], made: set[str]) -> bool:
    given = list(returns(function))
    return bool(given) and all(value in inside or (isinstance(value, ast.Name) and value.id in made) for value in given)


def _differentiated_outside(function: Function) -> ast.Call | None:
    """The backward of `loss = self.loss_of(batch)`."""
    for caller in callers(function.file.sites, function):
        names = set(caller.file.names_given(caller.node))
        nodes = caller.function.nodes if caller.function is not None and caller.file is function.file else []
        found = _differentiated(nodes, names, caller.node.lineno)
        if found is not None:
            return found
    return None


def _differentiated(nodes: list[ast.AST], names: set[str], line: int) -> ast.Call | None:
    if not any(isinstance(node, ast.Call) and last_name(node.func) == "step" for node in nodes):
        return None
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            if isinstance(node.func.value, ast.Name) and node.func.value.id in names and node.lineno > line:
                return node
    return None
