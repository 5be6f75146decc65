"""modules-in-list: layers kept in a plain list or dict, where `nn.Module` does not see them."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk
from mlcheck.lint.sites import AttributeSet, Class, Context, File, Function, Sites
from mlcheck.lint.sites.heirs import heirs
from mlcheck.lint.sites.layers.by_hand import is_handed_out, is_handled, is_strung_together
from mlcheck.lint.sites.layers.holders import hidden_in_objects
from mlcheck.lint.sites.layers.modules import (
    CONTAINERS,
    flat,
    holds_parameters,
    module_classes,
    moves_by_hand,
    text_of,
    with_mixins,
)
from mlcheck.lint.sites.layers.registering import READS, is_registered, registered_over
from mlcheck.lint.sites.layers.surely_modules import is_checked
from mlcheck.lint.sites.layers.variadic import keeps_arguments
from mlcheck.lint.sites.origins import given, returns

LOOKS_AT = "module class"
_REGISTERS = re.compile(
    r"add_module\(|register_module\(|register_parameter\(|setattr\(|__setattr__\(|__dict__|def \w*parameters\("
    r"|(?:self|super\([^)]*\))\._(?:modules|parameters)\b|\._(?:modules|parameters)(?:\[[^\]\n]*\] = |\.update\()"
)


def check(facts: Facts) -> Iterator[Finding]:
    for cls in dict.fromkeys(base for each in facts.sites.once(module_classes) for base in with_mixins(each)):
        for call in registered_over(cls):
            yield Finding(
                "Every iteration registers its layer under the same name: only the last one is trained",
                call.place.location,
                help='give each its own name: `f"block{i}"`; or keep them in an `nn.ModuleList`',
            )
        for name, assignments in cls.attributes.items():
            yield from _in_object(facts.sites, cls, name)
            hidden = [found for found in assignments if _hides(cls, name, *found)]
            if hidden and not _is_reached(facts.sites, cls, name):
                function, assigned = hidden[0]
                kind = "dict" if _is_dict(cls, assigned) else "list"
                moved = "" if moves_by_hand(cls) else ", not moved"
                yield Finding(
                    f"`self.{name}` is a plain {kind}: its layers are not trained{moved} and not saved",
                    function.place(assigned.node).location,
                    help=f"wrap it in `{'nn.ModuleDict' if kind == 'dict' else 'nn.ModuleList'}` "
                    f"(`nn.Parameter{kind.title()}` for parameters)",
                )


def _in_object(sites: Sites, cls: Class, name: str) -> Iterator[Finding]:
    """`self.heads = Heads(...)`, an object that is no module and makes layers."""
    for function, assigned, holder, inside in hidden_in_objects(sites, cls, name):
        if not _is_reached(sites, cls, name):
            yield Finding(
                f"`{holder.name}` is no module: the layers that `self.{name}.{inside}` holds are not trained, "
                "not moved and not saved",
                function.place(assigned.node).location,
                help=f"derive `{holder.name}` from `nn.Module`, with its layers in attributes or `nn.ModuleList`",
                related=(holder.place.location,),
            )


def _is_reached(sites: Sites, cls: Class, name: str) -> bool:
    """Whether the layers may be registered, trained or moved in another way."""
    for kin in sites.once(heirs).get(cls, [cls]):
        text = text_of(kin)
        if _REGISTERS.search(text) or f"del self.{name}\n" in text:
            return True
        if is_registered(kin, name) or is_strung_together(kin, name) or is_handed_out(kin, name):
            return True
    return is_handled(sites, name)


def _is_dict(cls: Class, assigned: AttributeSet) -> bool:
    assert assigned.value is not None
    value, context = cls.file.value(assigned.value, assigned.context)
    named = cls.file.resolve(value.func, context) if isinstance(value, ast.Call) else None
    if isinstance(named, Function):
        return all(
            isinstance(named.file.value(each, named.inner)[0], ast.Dict | ast.DictComp) for each in returns(named)
        )
    listed = named in ("builtins.list", "builtins.tuple")
    return isinstance(value, ast.Dict | ast.DictComp) or (isinstance(value, ast.Call) and not value.args and not listed)


def _hides(cls: Class, name: str, function: Function, assigned: AttributeSet) -> bool:
    """Whether the assignment makes a plain container that holds, or is filled with, layers made here."""
    if assigned.value is None:
        return False
    if _is_filled_elsewhere(cls, assigned) or keeps_arguments(function, assigned.value):
        return True
    if isinstance(assigned.value, ast.Name) and _handed_on_singly(assigned.value.id, function):
        return False
    value, context = cls.file.value(assigned.value, assigned.context)
    maker, value, context = _returned(function, value, context)
    file = maker.file
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        value = value.left
    if isinstance(value, ast.Call) and len(value.args) == 1 and not isinstance(value.args[0], ast.Starred):
        if file.resolve(value.func, context) in ("builtins.list", "builtins.tuple"):
            value, context = file.value(value.args[0], context)
            if isinstance(value, ast.GeneratorExp):
                value = ast.ListComp(value.elt, value.generators)
    if isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.DictComp):
        where = _inside(context, value)
        if any(_is_hidden_layer(cls, maker, element, where) for element in flat([value])):
            return True
        empty = isinstance(value, ast.List | ast.Dict) and not flat([value])
    else:
        named = file.resolve(value.func, context) if isinstance(value, ast.Call) and not value.args else None
        empty = named in ("builtins.list", "builtins.dict", "collections.OrderedDict") or _of_lists(
            file, value, context
        )
    called = (assigned.value, *getattr(assigned.node, "targets", ()))  # `layers = self.layers = []`
    local = next((each.id for each in called if isinstance(each, ast.Name)), "")
    if not empty or (local and _handed_on(local, function.node)):
        return False
    return bool(empty) and any(
        _is_hidden_layer(cls, where, part, _inside(context, element))
        for where, element, context in _put_in(cls, name, local, function)
        for part in flat([element])
    )


def _of_lists(file: File, value: ast.expr, context: Context) -> bool:
    """`defaultdict(list)`."""
    made = isinstance(value, ast.Call) and file.resolve(value.func, context) == "collections.defaultdict"
    args = value.args if isinstance(value, ast.Call) and made else []
    return len(args) == 1 and file.resolve(args[0], context) == "builtins.list"


def _is_filled_elsewhere(cls: Class, assigned: AttributeSet) -> bool:
    """`self.heads = make_heads()`, a function that fills a list or dict with layers made there, and returns it."""
    value = assigned.value
    named = cls.file.resolve(value.func, assigned.context) if isinstance(value, ast.Call) else None
    own = isinstance(named, Function) and (named.cls is None or named.cls in cls.line)
    found = list(returns(named)) if isinstance(named, Function) and own else []
    if not isinstance(named, Function) or len(found) != 1 or not isinstance(found[0], ast.Name):
        return False
    made, _ = named.file.value(found[0], named.inner)
    if not isinstance(made, ast.List | ast.Dict) or flat([made]):
        return False
    for node in named.nodes:
        layer = None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            layer = node.value if _names(node.targets[0].value) == found[0].id else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            layer = node.args[0] if _names(node.func.value) == found[0].id and node.args else None
        if isinstance(layer, ast.Call) and holds_parameters(named.file, layer, named.inner):
            return True
    return False


def _returned(function: Function, value: ast.expr, context: Context) -> tuple[Function, ast.expr, Context]:
    """The list that a function returns, for a call of it, and that function; else the value as it is."""
    named = function.file.resolve(value.func, context) if isinstance(value, ast.Call) else None
    found = list(returns(named)) if isinstance(named, Function) else []
    if isinstance(named, Function) and len(found) == 1:
        return named, *named.file.value(found[0], named.inner)
    return function, value, context


def _inside(context: Context, value: ast.expr) -> Context:
    if isinstance(value, ast.ListComp | ast.DictComp):
        return Context("comprehension", value, context, context.scope)
    return context


def _put_in(cls: Class, name: str, local: str, function: Function) -> Iterator[tuple[Function, ast.expr, Context]]:
    """What is appended to `self.name`, or to the local name it is assigned from."""
    for call in cls.file.calls("append"):
        if call.cls is not cls:
            continue
        around, owner = call.function, call.node.func
        if around is None or around.cls is not cls or not isinstance(owner, ast.Attribute) or len(call.node.args) != 1:
            continue
        row = owner.value.value if isinstance(owner.value, ast.Subscript) else owner.value  # `self.stages["up"]`
        if is_attribute(row, around.receiver, name) or (local and around is function and is_name(owner.value, local)):
            yield around, call.node.args[0], call.context
    for around in cls.methods.values():
        for node in around.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                if is_attribute(node.targets[0].value, around.receiver, name):
                    yield around, node.value, around.inner


def _is_hidden_layer(cls: Class, function: Function, element: ast.expr, context: Context) -> bool:
    """A layer that is made for this place alone, or a name known to be a module and kept nowhere else."""
    if isinstance(element, ast.Call):
        return holds_parameters(function.file, element, context)
    if not isinstance(element, ast.Name):
        return False
    handed = list(given(cls.file.sites, function, element.id))
    if handed and all(isinstance(each.node, ast.Call) and holds_parameters(*each[:3]) for each in handed):
        return not _handed_on(element.id, function.node, containers_only=True)
    kept = any(is_name(assigned.value, element.id) for values in cls.attributes.values() for _, assigned in values)
    if kept or _handed_on(element.id, function.node, containers_only=True) or _is_listed_twice(element.id, function):
        return False
    if _is_fixed(element.id, function):
        return False
    return holds_parameters(function.file, element, context) or is_checked(function.file, element.id, context)


def _is_fixed(name: str, function: Function) -> bool:
    """`layer.weight = nn.Parameter(kernel, requires_grad=False)`: a filter that is written down, not learned."""
    for line in function.all(ast.Assign):
        target, words = line.targets[0], line.value.keywords if isinstance(line.value, ast.Call) else []
        if isinstance(target, ast.Attribute) and target.attr == "weight" and is_name(target.value, name):
            return any(word.arg == "requires_grad" and ast.unparse(word.value) == "False" for word in words)
    return False


def _handed_on(name: str, node: ast.AST, containers_only: bool = False) -> bool:
    """Whether a local name is given to a call that may register it."""
    for call in walk(node):
        if isinstance(call, ast.Call) and any(_names(arg) == name for arg in call.args):
            last = last_name(call.func)
            if last in READS or (containers_only and f"torch.nn.{last}" not in CONTAINERS):
                continue
            if last != "append" or not containers_only:
                return True
    return False


def _handed_on_singly(name: str, function: Function) -> bool:
    """`for layer, size in zip(layers, sizes): sequence.append(layer)`, where the sequence may register it."""
    for loop in function.all(ast.For):
        if any(is_name(part, name) for part in walk(loop.iter)):
            brought = [part.id for part in walk(loop.target) if isinstance(part, ast.Name)]
            if any(_handed_on(each, loop) for each in brought):
                return True
    return False


def _is_listed_twice(name: str, function: Function) -> bool:
    """`every.append(layer)` beside `layers.append(layer)`, where `nn.ModuleList(layers)` registers what is in that."""
    lists = [
        call.func.value.id
        for call in function.all(ast.Call)
        if last_name(call.func) == "append"
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and [_names(arg) for arg in call.args] == [name]
    ]
    return any(_handed_on(each, function.node, containers_only=True) for each in dict.fromkeys(lists))


def _names(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Starred) else node
    return node.id if isinstance(node, ast.Name) else ""
