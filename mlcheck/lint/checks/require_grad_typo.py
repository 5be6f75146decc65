"""require-grad-typo: `require_grad` is an attribute that PyTorch never reads."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites import Class, Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.surely_modules import has_module, is_surely_module
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.settings import setting
from mlcheck.lint.sites.training.freezing import compared, of_copies, unread_names
from mlcheck.lint.sites.training.frozen_names import named_nowhere

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
    for place, name in compared(facts.sites):
        yield Finding(
            f"This compares `{name}` and changes nothing",
            place.location,
            help=f"assign it, with one `=`: `{name} = ...`",
        )
    for place in of_copies(facts.sites):
        yield Finding(
            "This sets `requires_grad` on detached values of a `state_dict`: the model's parameters keep theirs",
            place.location,
            help="loop over `named_parameters()`",
        )
    for place, name in _whole_names(facts):
        yield Finding(
            f"No parameter is called `{name}`: that is the module, and this freezes nothing",
            place.location,
            help=f'ask for the beginning of the name: `name.startswith("{name}.")`',
        )
    for place, asked, holder in named_nowhere(facts.sites):
        how = {"startswith": "begins with", "endswith": "ends with", "in": "has"}[asked.way]
        yield Finding(
            f"No parameter of this `{holder}` has a name that {how} `{asked.word}`: this changes nothing",
            place.location,
            help="print the names that `named_parameters()` gives, and ask for one of these",
        )
    for place, name in unread_names(facts.sites):
        yield Finding(
            f"`{name}` is not an attribute of a tensor: this neither freezes nor unfreezes anything",
            place.location,
            help="write `requires_grad`",
        )


def _whole_names(facts: Facts) -> Iterator[tuple[Place, str]]:
    """`if name in ["conv1", "layer1"]: p.requires_grad = False` over `named_parameters()`: names of modules alone."""
    for file in facts.sites.mentioning(["named_parameters()"]):
        for assigned in file.walk.attributes:
            owner, guard = assigned.target.value, assigned.context.node
            if assigned.target.attr != "requires_grad" or not isinstance(guard, ast.If) or guard.orelse:
                continue
            loop = next((outer.node for outer in assigned.context.outwards() if outer.kind == "loop"), None)
            if not isinstance(loop, ast.For) or not isinstance(owner, ast.Name):
                continue
            match guard.test, loop.target:
                case (
                    ast.Compare(left=ast.Name(id=asked), ops=[ast.In() | ast.Eq()], comparators=[among]),
                    ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=parameter)]),
                ) if asked == name and parameter == owner.id:
                    words = _words(file, among, assigned.context)
                    if words and all(_is_module_of(file, loop, assigned.context, word) for word in words):
                        yield file.place(guard.test, assigned.context), words[0]


def _words(file: File, among: ast.expr, context: Context) -> list[str]:
    value, where = file.value(among, context)
    if isinstance(value, ast.Name | ast.Attribute) and (entry := setting(file, value, where)) is not None:
        value = entry.node
    parts = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
    words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return words if len(words) == len(parts) else []


def _is_module_of(file: File, loop: ast.For, context: Context, word: str) -> bool:
    """Whether the model of `model.named_parameters()` has a module of that name, so no parameter is called so."""
    over = loop.iter
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return False
    if over.func.attr != "named_parameters" or over.args or over.keywords:
        return False
    found = origins(file, over.func.value, context)
    return bool(found) and all(has_module(origin, word) for origin in found)


def _of_modules(facts: Facts) -> Iterator[Place]:
    """`requires_grad = ...` of what loops over `children()` give, and of what is asked for its parameters."""
    if any(True for _ in facts.sites.mentioning(["def requires_grad("])):
        return
    for file in facts.sites.mentioning([".requires_grad = "]):
        for assigned in file.walk.attributes:
            owner = assigned.target.value
            if assigned.target.attr != "requires_grad" or assigned.value is None:
                continue
            if _has_its_own(file, owner, assigned.context):
                continue
            if _is_given_modules(file, owner, assigned.context):
                yield file.place(assigned.node, assigned.context)
            elif isinstance(owner, ast.Name) and isinstance(assigned.value, ast.Constant):
                bound = file.bindings(owner.id, assigned.context)
                loops = [binding.node for binding in bound if isinstance(binding.node, ast.For)]
                over = [source(file, loop.iter, assigned.context)[0] for loop in loops]
                given = zip(loops, over, strict=True)
                if len(loops) == len(bound) > 0 and all(_gives_modules(*each, owner.id) for each in given):
                    yield file.place(assigned.node, assigned.context)
            elif isinstance(owner, ast.Attribute) and _is_used_as_module(file, owner, assigned.context):
                yield file.place(assigned.node, assigned.context)


def _has_its_own(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether it is of a class of the project that keeps an attribute of that name for itself."""
    made = [each for each in origins(file, owner, context) if isinstance(each.node, ast.Call)]
    named = [each.file.resolve(each.node.func, each.context) for each in made if isinstance(each.node, ast.Call)]
    return any(isinstance(cls, Class) and cls.attribute("requires_grad") for cls in named)


def _is_given_modules(file: File, owner: ast.expr, context: Context) -> bool:
    """Whether it is a module for certain; `self` of a module that keeps what it was given may well read it."""
    function = file.function_around(context)
    own = function is not None and is_name(owner, function.receiver)
    return not own and is_surely_module(file, owner, context)


def _is_used_as_module(file: File, owner: ast.Attribute, context: Context) -> bool:
    """Whether it is asked for its parameters somewhere in the file; of `self.part`, or called, in its class."""
    name = rf"(?<![\w.]){re.escape(ast.unparse(owner))}"
    asked = rf"{name}\.(?:parameters|children|modules|eval|state_dict)\("
    if ast.unparse(owner.value) != "self":
        return re.search(asked, file.text) is not None
    function = file.function_around(context)
    text = file.module.text_of(function.cls.node) if function is not None and function.cls is not None else ""
    return re.search(rf"{asked}|{name}\(", text) is not None


def _gives_modules(loop: ast.For, over: ast.expr, name: str) -> bool:
    """`for child in model.children()`, `for name, child in list(model.named_children())[:-1]`."""
    while isinstance(over, ast.Subscript) or (isinstance(over, ast.Call) and is_name(over.func, "list") and over.args):
        over = over.value if isinstance(over, ast.Subscript) else over.args[0]
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute):
        return False
    if over.func.attr in ("children", "modules"):
        return isinstance(loop.target, ast.Name)
    target = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else None
    return over.func.attr in ("named_children", "named_modules") and is_name(target, name)
