"""Optimizers of a model that is never called itself: its deep copies are trained, on gradients of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_BROUGHT_BACK = pattern(
    r"\.grad\b|\.data\b|copy_\(|autograd|functional_call|functorch|higher|learn2learn|load_state_dict|\.param_groups|lerp_|sub_\(|add_\("
)
_ASKED_ONLY = ("parameters", "named_parameters", "state_dict", "train", "eval", "to", "cuda", "zero_grad", "cpu")


class ByCopy(NamedTuple):
    """The step, the model whose optimizer takes it, and the copy that gets the gradients."""

    step: Call
    model: str
    copy: Call


def learnt_by_copy(sites: Sites) -> Iterator[ByCopy]:
    """`fast = copy.deepcopy(self.net)`, `loss(fast(x)).backward()` and `self.meta_opt.step()`, of `self.net` alone."""
    for made in sites.once(optimizers):
        model, names = _whole_model(made), made.file.names_given(made.node)
        if not model or len(names) != 1 or _BROUGHT_BACK.search(made.file.text):
            continue
        copies = [call for call in sites.calls("copy.deepcopy") if call.file is made.file and _is_of(call, model)]
        if len(copies) != 1 or copies[0].function is None or _may_be_called(made, model, copies[0]):
            continue
        owner = f"{model.rpartition('.')[0]}.{names[0]}".removeprefix(".")
        steps = [
            call for call in made.file.calls("step") if call.owner is not None and ast.unparse(call.owner) == owner
        ]
        if len(steps) == 1 and _learns(steps[0], copies[0]):
            yield ByCopy(steps[0], model, copies[0])


def _whole_model(made: Call) -> str:
    """`self.net` of `Adam(self.net.parameters())`."""
    match made.argument("params", 0):
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr="parameters"), args=[]):
            return ast.unparse(owner)
    return ""


def _is_of(copy: Call, model: str) -> bool:
    return [ast.unparse(arg) for arg in copy.node.args] == [model]


def _may_be_called(made: Call, model: str, copy: Call) -> bool:
    """Whether the model is called, or given to anybody but what copies it."""
    name = model.rpartition(".")[2]
    for file in made.file.sites.mentioning([name], tests=True):
        nodes = walk(file.module.source.tree)
        idle = set[ast.AST](copy.node.args)
        idle |= {node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _ASKED_ONLY}
        idle |= {target for node in nodes if isinstance(node, ast.Assign) for target in node.targets}
        for node in nodes:
            if isinstance(node, ast.Name | ast.Attribute) and last_name(node) == name and node not in idle:
                return True
    return False


def _learns(step: Call, copy: Call) -> bool:
    """Whether the function of the step runs a backward pass, and has a copy: it makes it, or calls what returns it."""
    function = step.function
    if function is None or copy.function is None or ".backward(" not in function.text:
        return False
    called = re.search(rf"\b{copy.function.name}\(", function.text) is not None
    return copy.function is function or (called and copy.function.cls is function.cls)
