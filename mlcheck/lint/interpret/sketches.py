"""What a function does, at a glance: the names it calls, and whether some of it is what rules are about."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.patterns import pattern
from mlcheck.lint.interpret.module_names import module_names
from mlcheck.lint.nodes import is_name, last_name

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.scopes import Context, Defined

TRAINING = frozenset(["backward", "manual_backward"])
EVALUATING = frozenset(["eval", "train", "no_grad", "inference_mode", "set_grad_enabled", "trace"])
_MODES = frozenset(["eval", "train"])
_WITHOUT_GRADIENT = frozenset(["no_grad", "inference_mode"])
_LOSSES = frozenset(["kl_div", "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"])
_ACTIVATIONS = frozenset(["softmax", "log_softmax", "sigmoid", "logsigmoid", "sigmoid_", "expit"])
# Names that mean the same on whatever they are called. A rule that reads further calls adds their names here.
_TELLING = frozenset(["step", "zero_grad", "unscale_", "enable_grad", "requires_grad_", "load_state_dict", "autocast"])
_TELLING |= {"state_dict", "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "parameters", "super", "setattr"}
_TELLING |= {"detach", "detach_", "named_parameters"}
_TELLING |= TRAINING | EVALUATING | _ACTIVATIONS
_STATES = frozenset(["grad", "requires_grad", "training"])
_LIBRARIES: tuple[str, ...] = ("torch.nn.", "torch.optim.", "torch.utils.data.", "torch.autograd.", "torch.amp.")
_LIBRARIES += ("torch.cuda.amp.", "torchvision.models.", "torchvision.ops.")
_IDLE = pattern(r"^\s*torch\.(?:no_grad|inference_mode)\(\)\s*$", re.MULTILINE)
_ORDINARY = frozenset(name for kind in (str, list, dict, set, bytes, type(open)) for name in dir(kind))
_ABOUT_MODULES = frozenset(["eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict", "to"])
_ABOUT_MODULES |= {"cuda", "cpu", "zero_grad", "half", "float", "modules", "named_modules", "children", "apply", "size"}
_BUILTINS = frozenset(dir(builtins))
_VALUES = frozenset(["value", "item", "loop", "with", "param", "other"])


@dataclass(eq=False, slots=True)
class Sketch:
    """One function. `judged`: a rule may have something to say in it; `telling`: it may make or change what rules know.

    A constructor, and what makes its objects callable, go by the name of the class.

    `owner` is the class it is a method of; `scores`: it calls a variable with two arguments, as one calls a criterion.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef
    name: str
    owner: ast.AST | None
    calls: set[str] = field(default_factory=set)
    judged: bool = False
    telling: bool = False
    makes_loss: bool = False
    calls_values: bool = False
    calls_modules: bool = False
    hands_on: bool = False
    scores: bool = False


def is_loss_name(name: str) -> bool:
    """Whether a library's loss is called so: `CrossEntropyLoss`, `mse_loss`, `binary_cross_entropy`."""
    return name.endswith(("Loss", "_loss", "_loss2d")) or name in _LOSSES


def sketches(file: File, defined: Set[str]) -> dict[ast.AST, Sketch]:
    """All functions and methods of a file, nested ones too; what a nested one does counts for those around it.

    `defined` are the names of all functions of the program.
    """
    found: dict[ast.AST, Sketch] = {
        each.node: _sketch(each) for each in file.walk.defined if not isinstance(each.node, ast.ClassDef)
    }
    around: dict[Context, tuple[Sketch, ...]] = {}
    criteria, libraries, modules = _criteria(file), _libraries(file), module_names(file)
    scored = False
    for name, calls in file.walk.calls.items():
        loss = is_loss_name(name)
        told, judged = name in _TELLING or loss, name in TRAINING or name in criteria
        judged |= name == "trace" and "torch.jit" in file.text
        scored |= loss
        for call, context in calls:
            outer = _around(context, found, around)
            if not outer:
                continue
            value = _is_value(call.func, context, modules, defined)
            handed = _handed(call, defined)
            telling = told or value or _is_of(call.func, libraries)
            runs = name in modules and value and _in_loop(context)
            made = isinstance(call.func, ast.Call) and last_name(call.func.func) in defined  # `get_model()(x)`
            for sketch in outer:
                sketch.calls.add(name)
                if telling:
                    sketch.telling = True
                if judged:
                    sketch.judged = True
                if loss:
                    sketch.makes_loss = True
                if value:
                    sketch.calls_values = True
                    sketch.scores |= len(call.args) > 1
                    if name in modules and not _has_forward(sketch.owner):  # its layers are the module's own business
                        sketch.judged |= runs
                        sketch.calls_modules = True
                sketch.calls_modules |= made and not _has_forward(sketch.owner)
                if handed:
                    sketch.calls.update(handed)
                    sketch.hands_on = True
    for answer, context in file.walk.returned:
        given = _given_back(file, answer, defined)
        for sketch in _around(context, found, around) if given else ():
            sketch.calls |= given
            sketch.telling = True
    for assigned in file.walk.attributes:
        if assigned.target.attr in _STATES:
            for sketch in _around(assigned.context, found, around):
                sketch.telling = True
    _judge(found.values(), file, scored)
    return found


def _judge(found: Iterable[Sketch], file: File, scored: bool) -> None:
    """Mark the functions of which only all their calls together tell that a rule may have something to say."""
    idle = _idle_lines(file.text) if not _WITHOUT_GRADIENT.isdisjoint(file.walk.calls) else []
    for sketch in found:
        sketch.judged |= not sketch.calls.isdisjoint(_MODES) and (sketch.calls_values or sketch.hands_on)
        sketch.judged |= sketch.calls_modules and _runs_without_gradient(sketch)
        sketch.judged |= sketch.makes_loss or (scored and sketch.scores)
        if idle and not sketch.judged:
            sketch.judged = any(sketch.node.lineno <= line <= (sketch.node.end_lineno or 0) for line in idle)


def _runs_without_gradient(sketch: Sketch) -> bool:
    """In a `with` block, or as a whole by a decorator."""
    around = (each.func if isinstance(each, ast.Call) else each for each in sketch.node.decorator_list)
    return not _WITHOUT_GRADIENT.isdisjoint({*sketch.calls, *map(last_name, around)})


def _handed(call: ast.Call, defined: Set[str]) -> list[str]:
    """The functions of the program, by their names, that a call is given."""
    names = [last_name(part) for part in call.args] if call.args else []
    if call.keywords:
        names += [last_name(each.value) for each in call.keywords]
    return [name for name in names if name in defined]


def _given_back(file: File, value: ast.expr, defined: Set[str]) -> set[str]:
    """The classes and functions of the program that a function chooses for its caller, who then calls one."""
    name = last_name(value)
    if name in defined:
        return {name}
    return {each for each, names in file.walk.aliases.items() if name in names and each in defined}


def _idle_lines(text: str) -> list[int]:
    """The lines on which a context manager is called and not entered."""
    return [text.count("\n", 0, match.end()) + 1 for match in _IDLE.finditer(text)]


def _sketch(defined: Defined) -> Sketch:
    node, owner = defined.node, _owner(defined.context)
    assert not isinstance(node, ast.ClassDef)
    named = owner is not None and node.name in ("__init__", "__call__")
    return Sketch(node, owner.name if owner is not None and named else node.name, owner)


def _owner(context: Context | None) -> ast.ClassDef | None:
    while context is not None and context.kind in ("if", "try", "with"):
        context = context.outer
    return context.node if context is not None and isinstance(context.node, ast.ClassDef) else None


def _around(
    context: Context, found: dict[ast.AST, Sketch], known: dict[Context, tuple[Sketch, ...]]
) -> tuple[Sketch, ...]:
    """The functions around a place, innermost first."""
    if context not in known:
        outer = _around(context.outer, found, known) if context.outer is not None else ()
        known[context] = (found[context.node], *outer) if context.kind == "function" else outer
    return known[context]


def _has_forward(owner: ast.AST | None) -> bool:
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    return any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in body)


def _in_loop(context: Context) -> bool:
    for outer in context.outwards():
        if outer.kind in ("function", "lambda"):
            return False
        if outer.kind in ("loop", "comprehension"):
            return True
    return False


def _is_value(func: ast.expr, context: Context, modules: Set[str], defined: Set[str]) -> bool:
    """Whether what is called is a variable or an attribute of one, which may hold a model or a loss."""
    if isinstance(func, ast.Attribute):
        if func.attr in modules or (last_name(func.value) in modules and func.attr not in _ABOUT_MODULES):
            return True
        own = is_name(func.value, "self")
        return own and func.attr not in _ORDINARY and func.attr not in defined
    if not isinstance(func, ast.Name) or (func.id in defined and func.id not in modules):
        return False
    return func.id not in _BUILTINS and _is_variable(func, context)


def _is_variable(name: ast.Name, context: Context) -> bool:
    scope = context.scope
    while True:
        bindings = scope.bindings.get(name.id)
        if bindings is not None and scope.kind != "class":
            return bindings[-1].kind in _VALUES
        if scope.outer is None:
            return False
        scope = scope.outer


def _criteria(file: File) -> frozenset[str]:
    """The names that a file gives to losses: `divergence` in `self.divergence = nn.KLDivLoss()`."""
    found = set()
    for assigned in file.walk.attributes:
        if isinstance(assigned.value, ast.Call) and is_loss_name(last_name(assigned.value.func)):
            found.add(assigned.target.attr)
    for name, bindings in file.walk.module.scope.bindings.items():
        for binding in bindings:
            if isinstance(binding.value, ast.Call) and is_loss_name(last_name(binding.value.func)):
                found.add(name)
    return frozenset(found)


def _libraries(file: File) -> frozenset[str]:
    """The names under which a file knows the parts of libraries that make and change what rules know."""
    found = set()
    scopes = [file.walk.module.scope, *(each.inner.scope for each in file.walk.defined)]
    for scope in scopes:
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                alias, node = binding.value, binding.node
                if isinstance(alias, ast.alias) and isinstance(node, ast.ImportFrom):
                    full = f"{node.module}.{alias.name}"
                elif isinstance(alias, ast.alias):
                    full = alias.name if alias.asname else ""
                else:
                    continue
                if f"{full}.".startswith(_LIBRARIES):
                    found.add(name)
    return frozenset(found)


def _is_of(func: ast.expr, libraries: frozenset[str]) -> bool:
    """Whether the callee is one of those parts: `nn.Linear`, `torch.optim.SGD`, `DataLoader`."""
    names = []
    while isinstance(func, ast.Attribute):
        names.append(func.attr)
        func = func.value
    if not isinstance(func, ast.Name):
        return False
    return func.id in libraries or f"{'.'.join([func.id, *reversed(names)])}.".startswith(_LIBRARIES)
