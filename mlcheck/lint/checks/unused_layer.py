"""unused-layer: a layer that is made and never called."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import AttributeSet, Class, Function, Sites
from mlcheck.lint.sites.fetching import SETTINGS
from mlcheck.lint.sites.layers.ignored_rates import ignored_rates
from mlcheck.lint.sites.layers.modules import MODULE, flat, holds_parameters, makes_dropout, module_classes, text_of
from mlcheck.lint.sites.layers.named_elsewhere import heirs_of, is_named_elsewhere
from mlcheck.lint.sites.layers.unread_results import unread_results
from mlcheck.lint.words import lines_with, occurrences

LOOKS_AT = "module class"
_ASKS = ("isinstance", "hasattr", "type")
_ANY = ("children(", "modules(", "_modules", "__dict__", "eval(", "vars(", "locals(")


def check(facts: Facts) -> Iterator[Finding]:
    classes = facts.sites.once(module_classes)
    for method, call, unread in unread_results(facts.sites):
        yield Finding(
            f"`{ast.unparse(call.func)}` is called for `{unread}`, and nothing reads it: its input goes on instead",
            method.place(call).location,
            help=f"read `{unread}`, or remove the call",
        )
    for init, rate, number in ignored_rates(facts.sites):
        yield Finding(
            f"`{rate}` is never read: the rate is {ast.unparse(number)}, whatever is asked for",
            init.place(number).location,
            help=f"pass `{rate}` on, or remove it",
        )
    for cls in classes:
        if cls.libraries != {MODULE} or not _runs(facts.sites, cls):
            continue
        text = text_of(cls)
        layers = [
            (name, assigned)
            for name, assigned in cls.attributes.items()
            if "dummy" not in name
            if _is_never_read(name, len(assigned), text) or _is_unread_dropout(cls, name, assigned)
        ]
        if not layers or any(word in _without_initialising(cls, text) for word in _ANY):
            continue
        for name, sets in layers:
            kinds = (_holds_parameters, _makes_dropout)
            made = next((each for each in sets if any(kind(cls, each[1]) for kind in kinds)), None)
            if made is None or any(each[1].value is None for each in sets):
                continue
            function, assigned = made
            assert assigned.value is not None
            if isinstance(assigned.node, ast.Assign) and len(assigned.node.targets) > 1:
                continue  # `self.head = self.fc = nn.Linear(8, 2)`: it has another name
            drops = _makes_dropout(cls, assigned)
            if drops and (_is_commented_out(cls, name) or _drops_elsewhere(cls, assigned)):
                continue
            if _is_list_of_own(assigned.value, function):
                continue
            if is_named_elsewhere(facts.sites, cls, name) or _is_for_loading(function):
                continue
            lost, more = "its weights get no gradient", "; DistributedDataParallel stops at such parameters"
            if drops:
                lost, more = "nothing is dropped out, whatever rate is asked for", ""
            elif _wraps(assigned.value, function):
                lost, more = "if the layers in it are called, then without it", ""
            yield Finding(
                f"`self.{name}` is made here and never used: {lost}",
                function.place(assigned.node).location,
                help=f"call it in `forward`, or remove it{more}",
            )


def _runs(sites: Sites, cls: Class) -> bool:
    """Whether it has a `forward` that does something, or is the base of such a class."""
    forward = cls.find("forward")
    if forward is None:
        return any(heir.libraries == {MODULE} and heir.find("forward") is not None for heir in heirs_of(sites, cls))
    return not _does_nothing(forward)


def _is_unread_dropout(cls: Class, name: str, sets: list[tuple[Function, AttributeSet]]) -> bool:
    """The same of a layer of dropout, which often is called as the argument is that tells its rate."""
    if len(sets) != 1 or not _makes_dropout(cls, sets[0][1]):
        return False
    return not any(
        node.attr == name and isinstance(node.ctx, ast.Load) and last_name(node.value) not in SETTINGS
        for base in cls.line
        for method in base.methods.values()
        for node in method.all(ast.Attribute)
    )


def _makes_dropout(cls: Class, assigned: AttributeSet) -> bool:
    if assigned.value is None or "rop" not in ast.unparse(assigned.value):
        return False
    return makes_dropout(cls.file, assigned.value, assigned.context)


def _drops_elsewhere(cls: Class, assigned: AttributeSet) -> bool:
    """Whether its class speaks of dropout elsewhere too: a layer is handed the rate, or a function drops out."""
    own = set(walk(assigned.node))
    return any(
        "drop" in (node.arg or "" if isinstance(node, ast.keyword) else last_name(node)).lower()
        for base in cls.line
        for method in base.methods.values()
        for node in method.nodes
        if isinstance(node, ast.Name | ast.Attribute | ast.keyword) and node not in own
    )


def _is_commented_out(cls: Class, name: str) -> bool:
    """`# x = self.dropout(x)`: it is left out on purpose."""
    call = f".{name}("
    return any("#" in line.partition(call)[0] for line in lines_with(call, cls.file.module.source.text))


def _does_nothing(function: Function) -> bool:
    """`def forward(self): pass`, of a class that is there for its parameters; or one that is yet to be written."""
    return "raise NotImplementedError" in function.text or all(
        isinstance(line, ast.Pass) for line in function.node.body
    )


def _wraps(value: ast.expr, function: Function) -> bool:
    """`nn.Sequential(nn.SiLU(), self.linear)`: its weights are those of a layer that may be called by itself."""
    given = value.args if isinstance(value, ast.Call) and last_name(value.func) == "Sequential" else []
    return any(isinstance(one, ast.Attribute) and is_name(one.value, function.receiver) for one in given)


def _is_list_of_own(value: ast.expr, function: Function) -> bool:
    """`nn.ModuleList([self.down, self.up])`: these are called by their own names."""
    listed = isinstance(value, ast.Call) and last_name(value.func) in ("ModuleList", "ModuleDict")
    parts = flat(list(value.args)) if listed and isinstance(value, ast.Call) else []
    return bool(parts) and all(isinstance(p, ast.Attribute) and is_name(p.value, function.receiver) for p in parts)


def _is_for_loading(function: Function) -> bool:
    """Whether the layer is made where published weights are loaded, which name it too."""
    text = function.text
    return function.name != "__init__" and f"{function.receiver}.load_state_dict(" in text


def _without_initialising(cls: Class, text: str) -> str:
    """The text of a class without the loops that go through its modules and fill their weights, and call none."""
    for base in cls.line if "modules()" in text else ():
        for method in base.methods.values():
            for loop in method.nodes:
                if isinstance(loop, ast.For) and ast.unparse(loop.iter) == f"{method.receiver}.modules()":
                    if isinstance(loop.target, ast.Name) and _is_only_asked(loop, loop.target.id):
                        text = text.replace(base.file.module.text_of(loop), "")
    return text


def _is_only_asked(loop: ast.For, name: str) -> bool:
    """Whether the module is asked for its class and its attributes, and goes nowhere else."""
    nodes = [node for line in loop.body for node in walk(line)]
    asked = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    asked |= {
        arg for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in _ASKS for arg in node.args
    }
    return all(node in asked for node in nodes if is_name(node, name))


def _holds_parameters(cls: Class, assigned: AttributeSet) -> bool:
    return assigned.value is not None and holds_parameters(cls.file, assigned.value, assigned.context)


def _is_never_read(name: str, times: int, text: str) -> bool:
    """Whether the word stands in the text where it is assigned alone; most layers are met again soon."""
    return occurrences(name, text, most=times + 1) == times
