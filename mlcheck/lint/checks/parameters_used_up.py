"""parameters-used-up: `parameters()` is a generator, and this is not the first to go through it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import OPEN, Call, Context, File
from mlcheck.lint.sites.origins import Origin, given
from mlcheck.lint.sites.training.optimizers import optimizers

LOOKS_AT = "use of parameters"
WORDS = ("parameters()",)
_METHODS = ("parameters", "named_parameters")
_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if any(cls.find(method) for cls in facts.sites.classes for method in _METHODS):
        return
    for file in facts.sites.mentioning(["parameters()"]):
        for use, context, what in _uses(file):
            facts.sites.seen[LOOKS_AT] += 1
            found = list(_made(file, use, context))
            if not found or not all(map(_is_generator, found)):
                continue
            places = sorted({origin.file.place(origin.node, origin.context).location for origin in found})
            if all(_is_gone(file, use, context, origin) for origin in found):
                yield Finding(
                    f"`{ast.unparse(use)}` is a generator that is used up by now: {what}",
                    file.place(use, context).location,
                    help=f"keep a list: `list({ast.unparse(found[0].node)})`",
                    related=tuple(places),
                )


def _uses(file: File) -> Iterator[tuple[ast.expr, Context, str]]:
    """Where parameters are gone through that have a name: by clipping, by optimizers, and by loops over them."""
    for call in file.calls(*_CLIPS):
        if call.node.args and isinstance(call.node.args[0], ast.Name | ast.Attribute):
            yield call.node.args[0], call.context, "nothing is clipped"
    for call in file.sites.once(optimizers):
        params = call.argument("params", 0) if call.file is file else None
        if isinstance(params, ast.Name) and params is not OPEN:
            yield params, call.context, "the optimizer gets none of them"
    scopes = [file.walk.module, *(defined.inner for defined in file.walk.defined)]
    for context in {id(scope): scope for scope in scopes}.values():
        for bindings in context.scope.bindings.values():
            for binding in bindings:
                over = binding.value if binding.kind == "loop" else None
                if isinstance(over, ast.Name | ast.Attribute) and isinstance(binding.node, ast.For):
                    yield over, binding.context, "the loop is over before it begins"


def _made(file: File, use: ast.expr, context: Context) -> Iterator[Origin]:
    """What a name or attribute that is assigned once holds; of a parameter, what the calls give for it."""
    node, where = file.value(use, context)
    bound = file.bindings(node.id, where) if isinstance(node, ast.Name) else []
    if len(bound) == 1 and bound[0].kind == "param" and isinstance(node, ast.Name):
        function = file.function_around(bound[0].context)
        for origin in given(file.sites, function, node.id) if function is not None else ():
            value, there = origin.file.value(origin.node, origin.context)
            yield Origin(origin.file, value, there)
    else:
        yield Origin(file, node, where)


def _is_generator(origin: Origin) -> bool:
    """`model.parameters()`, `filter(..., model.parameters())`, `(p for p in model.parameters())`."""
    node = origin.node
    if isinstance(node, ast.GeneratorExp):
        return "parameters()" in ast.unparse(node)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and not node.args:
        return True
    named = origin.file.resolve(node.func, origin.context)
    lazy = named in ("builtins.filter", "builtins.map", "itertools.chain")
    return lazy and "parameters()" in ast.unparse(node)


def _is_gone(file: File, use: ast.expr, context: Context, origin: Origin) -> bool:
    """Whether somebody went through it before: an earlier turn of a loop, an earlier statement, an earlier call."""
    around = [outer.node for outer in context.outwards() if outer.kind == "loop" and outer.node is not use]
    loops = [loop for loop in around if not (isinstance(loop, ast.For) and loop.iter is use)]
    function = file.function_around(context)
    if isinstance(use, ast.Attribute):
        return (
            function is not None
            and function is not file.function_around(origin.context)
            and function.name != "__init__"
        )
    made = [outer.node for outer in origin.context.outwards() if outer.kind == "loop"]
    if origin.file is file and file.function_around(origin.context) is function:
        if any(loop not in made for loop in loops):
            return True
        return _went_through_before(file, use, context)
    return bool(loops)


def _went_through_before(file: File, use: ast.expr, context: Context) -> bool:
    """`Adam(params)` above `clip_grad_norm_(params)`, in the block of the one or around it."""
    function = file.function_around(context)
    tree: ast.AST = function.node if function is not None else file.module.source.tree
    assert isinstance(use, ast.Name)
    outwards = list(context.outwards())
    for call in file.calls(*_names_called(tree)):
        handed = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
        if (call.node.end_lineno or 0) >= use.lineno or call.context not in outwards:
            continue
        if any(_goes_through(arg, use.id) for arg in handed) and _consumes(call):
            return True
    return False


def _goes_through(arg: ast.expr, name: str) -> bool:
    """`params`, and `p.numel() for p in params`."""
    if isinstance(arg, ast.GeneratorExp | ast.ListComp):
        arg = arg.generators[0].iter
    return is_name(arg, name)


def _names_called(tree: ast.AST) -> set[str]:
    return {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }


def _consumes(call: Call) -> bool:
    named = call.file.resolve(call.node.func, call.context)
    if not isinstance(named, str):
        return False
    return named.startswith(("torch.optim.", "torch.nn.utils.clip")) or named in ("builtins.list", "builtins.sum")
