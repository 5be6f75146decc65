"""frozen-norm-drifts: a frozen part is put into evaluation mode once, and `train()` takes it back out."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import MODULE, module_classes, text_of
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "module that sets modes"
WORDS = ("eval()",)
_NORM = pattern(r"BatchNorm|_NormBase|InstanceNorm")
_WITH_NORMS = pattern(
    r"torchvision\.models\.(?:\w+\.)?(?:wide_)?(?:resne|densenet|mobilenet|efficientnet|regnet|shufflenet|inception"
    r"|googlenet|mnasnet)\w*"
)
_PART_AGAIN = pattern(r"\.\w+\.eval\(\)|freeze|frozen", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for cls in facts.sites.once(module_classes):
        if cls.libraries != {MODULE} or "eval()" not in text_of(cls) or cls.find("train") is not None:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        for function in cls.methods.values():
            kept = _kept(function) if _runs_once(facts.sites, function) else None
            undone = _undone(facts.sites, cls) if kept is not None else None
            if kept is not None and undone is not None:
                yield Finding(
                    "The frozen part is put into evaluation mode once, and `train()` puts it back: "
                    "its batch norms follow the new data",
                    function.place(kept).location,
                    help="override `train` in this class: `super().train(mode)`, and `eval()` on the frozen part",
                    related=(undone.place.location,),
                )


def _runs_once(sites: Sites, function: Function) -> bool:
    """Whether it is the constructor, or a method that the constructor calls and nobody else names."""
    if function.name == "__init__":
        return True
    init = function.cls.methods.get("__init__") if function.cls is not None else None
    called = init is not None and f"self.{function.name}()" in init.file.module.text_of(init.node)
    return called and not sites.is_named(function.name, times=3)


def _kept(function: Function) -> ast.Call | None:
    """`self.backbone.eval()` or `module.eval()` of its batch norms, in a method that freezes their weights too."""
    text = function.file.module.text_of(function.node)
    if "requires_grad" not in text:
        return None
    for node in function.nodes:
        func = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "eval":
            continue
        if isinstance(func.value, ast.Name) and _is_norm(function, func.value.id):
            return node
        name = own_attribute(func.value, function)
        if name and _is_frozen(function, name) and _has_norms(function, name):
            return node
    return None


def _is_norm(function: Function, name: str) -> bool:
    """`for m in self.backbone.modules(): if isinstance(m, nn.BatchNorm2d): m.eval()`."""
    over = [ast.unparse(node.iter) for node in function.nodes if isinstance(node, ast.For) and _is(node.target, name)]
    asked = [
        ast.unparse(node.args[1])
        for node in function.nodes
        if isinstance(node, ast.Call)
        and _is(node.func, "isinstance")
        and len(node.args) == 2
        and _is(node.args[0], name)
    ]
    inside = len(over) == 1 and over[0].startswith(f"{function.receiver}.") and over[0].endswith(".modules()")
    return inside and len(asked) == 1 and _NORM.search(asked[0]) is not None


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_frozen(function: Function, name: str) -> bool:
    text = function.file.module.text_of(function.node)
    whole = (
        rf"self\.{name}\.requires_grad_\(False\)|in self\.{name}\.parameters\(\):\s*\w+\.requires_grad(?:_\(| = )False"
    )
    return re.search(whole, text) is not None


def _has_norms(function: Function, name: str) -> bool:
    sets = function.cls.attribute(name) if function.cls is not None else []
    made = sets[0][1].value if len(sets) == 1 else None
    for node in walk(made) if made is not None else ():
        named = sets[0][0].file.resolve(node.func, sets[0][1].context) if isinstance(node, ast.Call) else None
        if isinstance(named, Class) and _NORM.search(text_of(named)):
            return True
        if isinstance(named, str) and _WITH_NORMS.fullmatch(named):
            return True
    return False


def _undone(sites: Sites, cls: Class) -> Call | None:
    """`model.train()` of such a module, in code that does not freeze the part again."""
    forward = cls.find("forward")
    if forward is not None and "eval()" in forward.file.module.text_of(forward.node):
        return None
    for file in sites.mentioning([".train()"]):
        for call in file.calls("train"):
            owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
            if owner is None or call.node.args or call.node.keywords:
                continue
            around = file.module.text_of(call.function.node) if call.function is not None else file.text
            made = origins(file, owner, call.context)
            kinds = {
                file.resolve(o.node.func, o.context) for o in made if isinstance(o.node, ast.Call) and o.file is file
            }
            if kinds == {cls} and len(made) == len(kinds) and _PART_AGAIN.search(around) is None:
                return call
    return None
