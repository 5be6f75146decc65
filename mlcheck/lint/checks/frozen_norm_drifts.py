"""frozen-norm-drifts: a frozen part is put into evaluation mode once, and `train()` takes it back out."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.evaluation.without_gradients import blocks_without
from mlcheck.lint.sites.guards import conditions, own_attribute
from mlcheck.lint.sites.known_by_parts import known_by_parts
from mlcheck.lint.sites.layers.modules import MODULE, module_classes, text_of
from mlcheck.lint.sites.layers.running_statistics import keeps_statistics
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.asked_freezes import asked_freezes
from mlcheck.lint.sites.training.woken_norms import woken_norms

LOOKS_AT = "module that sets modes"
WORDS = ("eval()",)
_NORM = pattern(r"BatchNorm|_NormBase|InstanceNorm")
_MOVES = ("to", "cuda", "cpu", "float", "double")
_PART_AGAIN = pattern(r"\.\w+\.eval\(\)|freeze|frozen", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for woken in woken_norms(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The batch norms are put into evaluation mode here, and `train()` puts them back: they follow the new data",
            woken.file.place(woken.frozen, woken.context).location,
            help="put them into evaluation mode after each `train()`",
            related=(woken.train.place.location,),
        )
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
            for asked in asked_freezes(facts.sites, cls, function) if _only_freezes(function) else ():
                yield Finding(
                    f"`{function.name}` puts the batch norms into evaluation mode here, once, and `train()` puts them "
                    "back: they follow the new data",
                    asked.init.place(asked.call).location,
                    help=f"call `{function.name}` after each `train()`, or override `train` in this class",
                    related=(asked.train.place.location,),
                )
            for call, train in _undone_calls(facts.sites, function):
                yield Finding(
                    f"`{function.name}` puts the batch norms into evaluation mode, and `train()` right after it puts "
                    "them back: they follow the new data",
                    call.place.location,
                    help=f"call `{function.name}` after each `train()`, or override `train` in this class",
                    related=(train.place.location,),
                )


def _undone_calls(sites: Sites, freezes: Function) -> Iterator[tuple[Call, Call]]:
    """`net.freeze_bn()` above `for epoch in ...: net.train()`, of a method that does nothing but that."""
    if freezes.name in ("__init__", "train") or not _only_freezes(freezes):
        return
    calls = [call for file in sites.mentioning([f".{freezes.name}("]) for call in file.calls(freezes.name)]
    alike = sum(freezes.name in cls.methods for cls in sites.classes)
    for call in calls if len(calls) == 1 == alike else ():
        name = _owner(call)
        for train in call.file.calls("train") if name else ():
            same = _owner(train) == name
            below = train.function is call.function and train.node.lineno > call.node.lineno and not call.loops
            if same and below and not train.node.args and not train.node.keywords and not conditions(train.context):
                if not any(_is_handed(node, name) for node in _between(call, train)):
                    yield call, train
                break


def _owner(call: Call) -> str:
    """`net` of `net.train()`."""
    match call.node.func:
        case ast.Attribute(value=ast.Name(id=name)):
            return name
    return ""


def _between(first: Call, last: Call) -> list[ast.Call]:
    nodes = first.function.nodes if first.function is not None else walk(first.file.module.source.tree)
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return [node for node in calls if first.node.lineno < node.lineno < last.node.lineno]


def _is_handed(call: ast.Call, name: str) -> bool:
    """Whether a call may run the model: it is the one that is called, or given as it is."""
    return any(is_name(each, name) for each in (call.func, *call.args, *(word.value for word in call.keywords)))


def _only_freezes(function: Function) -> bool:
    """`for m in self.modules(): if isinstance(m, nn.BatchNorm2d): m.eval()`, and parameters that are frozen there."""
    modes = [n for n in function.nodes if isinstance(n, ast.Call) and last_name(n.func) in ("eval", "train")]
    only = modes[0].func if len({ast.unparse(mode) for mode in modes}) == 1 else None
    frozen = isinstance(only, ast.Attribute) and only.attr == "eval" and isinstance(only.value, ast.Name)
    if not frozen or not isinstance(only, ast.Attribute) or not isinstance(only.value, ast.Name):
        return False
    return _is_norm(function, only.value.id)


def _runs_once(sites: Sites, function: Function) -> bool:
    """Whether it is the constructor, or a method that the constructor calls and nobody else names."""
    if function.name == "__init__":
        return True
    init = function.cls.methods.get("__init__") if function.cls is not None else None
    called = init is not None and f"self.{function.name}()" in init.text
    return called and not sites.is_named(function.name, times=3)


def _kept(function: Function) -> ast.Call | None:
    """`self.backbone.eval()` or `module.eval()` of its batch norms, in a method that freezes their weights too."""
    frozen = "requires_grad" in function.text
    for node in function.nodes:
        func = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "eval":
            continue
        if frozen and isinstance(func.value, ast.Name) and _is_norm(function, func.value.id):
            return node
        name = own_attribute(func.value, function)
        if name and (_is_frozen(function, name) or _is_only_asked(function, name)) and _has_norms(function, name):
            return node
    return None


def _is_norm(function: Function, name: str) -> bool:
    """`for m in self.backbone.modules(): if isinstance(m, nn.BatchNorm2d): m.eval()`."""
    over = [
        ast.unparse(node.iter) for node in function.nodes if isinstance(node, ast.For) and is_name(node.target, name)
    ]
    asked = [
        ast.unparse(node.args[1])
        for node in function.nodes
        if isinstance(node, ast.Call)
        and is_name(node.func, "isinstance")
        and len(node.args) == 2
        and is_name(node.args[0], name)
    ]
    inside = len(over) == 1 and over[0].startswith(f"{function.receiver}.") and over[0].endswith(".modules()")
    return inside and bool(asked) and all(_NORM.search(kind) for kind in asked)


def _is_frozen(function: Function, name: str) -> bool:
    text = function.text
    whole = (
        rf"self\.{name}\.requires_grad_\(False\)|in self\.{name}\.parameters\(\):\s*\w+\.requires_grad(?:_\(| = )False"
    )
    return re.search(whole, text) is not None


def _is_only_asked(function: Function, name: str) -> bool:
    """Whether the class calls that part under `torch.no_grad()`, and only there."""
    methods = function.cls.methods.values() if function.cls is not None else ()
    found = []
    for method in methods:
        calls = [node for node in method.all(ast.Call) if own_attribute(node.func, method) == name]
        whole = any("no_grad" in ast.unparse(each) for each in method.node.decorator_list)
        without = set(blocks_without(method.nodes)) if calls else set()
        found += [whole or node in without for node in calls]
    return bool(found) and all(found)


def _has_norms(function: Function, name: str) -> bool:
    sets = function.cls.attribute(name) if function.cls is not None else []
    made = sets[0][1].value if len(sets) == 1 else None
    return made is not None and keeps_statistics(sets[0][0].file, made, sets[0][1].context)


def _undone(sites: Sites, cls: Class) -> Call | None:
    """`model.train()` of such a module, in code that does not freeze the part again."""
    forward = cls.find("forward")
    if forward is not None and "eval()" in forward.text:
        return None
    for file in sites.mentioning([".train()"]):
        for call in file.calls("train"):
            owner = call.owner
            if owner is None or call.node.args or call.node.keywords:
                continue
            around = call.function.text if call.function is not None else file.text
            made = origins(file, owner, call.context)
            nodes = [before_methods(o.node, _MOVES) for o in made if o.file is file]
            kinds = {file.resolve(node.func, call.context) for node in nodes if isinstance(node, ast.Call)}
            is_cls = kinds == {cls} and len(made) == len(kinds)
            if (is_cls or known_by_parts(file, owner, call.context) is cls) and _PART_AGAIN.search(around) is None:
                return call
    return None
