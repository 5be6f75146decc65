"""require-grad-typo: `require_grad` is an attribute that PyTorch never reads."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Context, File

LOOKS_AT = "frozen parameter"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for file in facts.sites.mentioning(["requires_grad", "require_grad"]))
    known = {place.spot for place in facts.training.frozen_in_vain}
    places = [place for place in _of_modules(facts) if place.spot not in known]
    for place in (*facts.training.frozen_in_vain, *places):
        yield Finding(
            "`requires_grad` of a module is an attribute like any other: its parameters keep theirs",
            place.location,
            help="call `requires_grad_(...)` of the module, or set `requires_grad` of each of its parameters",
        )
    files = list(facts.sites.mentioning([".require_grad"], tests=True))
    if not any("torch" in file.text for file in files):
        return
    nodes = [
        (file, node)
        for file in files
        for node in walk(file.module.source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "require_grad"
    ]
    if any(isinstance(node.ctx, ast.Load) for _, node in nodes):
        return
    for file, node in nodes:
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield Finding(
                "`require_grad` is no attribute of a tensor: nothing is frozen or set free by it",
                file.place(node, file.walk.module).location,
                help="write `requires_grad`",
            )


def _of_modules(facts: Facts) -> Iterator[Place]:
    """`requires_grad = ...` of what loops over `children()` give, and of what is asked for its parameters."""
    for file in facts.sites.mentioning([".requires_grad = "]):
        if "def requires_grad(" in file.text:
            continue
        for assigned in file.walk.attributes:
            owner = assigned.target.value
            if assigned.target.attr != "requires_grad" or not isinstance(assigned.value, ast.Constant):
                continue
            if isinstance(owner, ast.Name):
                bound = file.bindings(owner.id, assigned.context)
                loops = [binding.node for binding in bound if isinstance(binding.node, ast.For)]
                if len(loops) == len(bound) > 0 and all(_gives_modules(loop, owner.id) for loop in loops):
                    yield file.place(assigned.node, assigned.context)
            elif isinstance(owner, ast.Attribute) and _is_used_as_module(file, owner, assigned.context):
                yield file.place(assigned.node, assigned.context)


def _is_used_as_module(file: File, owner: ast.Attribute, context: Context) -> bool:
    """Whether it is asked for its parameters somewhere in the file; of `self.part`, or called, in its class."""
    name = rf"(?<![\w.]){re.escape(ast.unparse(owner))}"
    asked = rf"{name}\.(?:parameters|children|modules|eval|state_dict)\("
    if ast.unparse(owner.value) != "self":
        return re.search(asked, file.text) is not None
    function = file.function_around(context)
    text = file.module.text_of(function.cls.node) if function is not None and function.cls is not None else ""
    return re.search(rf"{asked}|{name}\(", text) is not None


def _gives_modules(loop: ast.For, name: str) -> bool:
    """`for child in model.children()`, `for name, child in list(model.named_children())[:-1]`."""
    over: ast.expr = loop.iter
    while isinstance(over, ast.Subscript) or (
        isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "list" and over.args
    ):
        over = over.value if isinstance(over, ast.Subscript) else over.args[0]
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return False
    if over.func.attr in ("children", "modules"):
        return isinstance(loop.target, ast.Name)
    target = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else None
    return over.func.attr in ("named_children", "named_modules") and isinstance(target, ast.Name) and target.id == name
