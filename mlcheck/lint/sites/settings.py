"""Settings that the code writes out: dictionaries, dataclasses, OmegaConf and the like, also in other files.

What a command line, a file or the environment may change is not known: only what the text says and nobody sets again.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.changing import changed
from mlcheck.lint.sites.model import OPEN, Call, Class, Function, ProjectModule
from mlcheck.lint.sites.scopes import Binding, Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.project import Sites

_DEPTH, _MANY = 8, 8
_SAME = frozenset(
    [
        *("dataclasses.asdict", "builtins.vars", "copy.copy", "copy.deepcopy", "attr.asdict", "attrs.asdict"),
        *("omegaconf.OmegaConf.create", "omegaconf.OmegaConf.structured", "omegaconf.OmegaConf.to_container"),
        *("easydict.EasyDict", "munch.munchify", "munch.Munch", "ml_collections.ConfigDict", "addict.Dict", "box.Box"),
    ]
)
_BY_NAME = frozenset(["builtins.dict", "types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict"])
_PLAIN_BASES = frozenset(["builtins.object", "typing.NamedTuple", "pydantic.BaseModel", "enum.Enum"])
_DECORATORS = frozenset(["dataclasses.dataclass", "attr.s", "attr.dataclass", "attrs.define", "attrs.frozen"])
_FIELDS = frozenset(["dataclasses.field", "attr.ib", "attrs.field", "pydantic.Field"])
_FOR_SETTINGS = pattern(r"cfg|conf|arg|opt|setting|param|namespace", re.IGNORECASE)


class Entry(NamedTuple):
    """The expression a setting has, and where it stands."""

    file: File
    node: ast.expr
    context: Context


Entries = dict[str, Entry | None]  # None: a setting whose value the text does not tell


def _is_open(sites: Sites, name: str) -> bool:
    """Whether settings of that name may be set by strings, by others under another name too."""
    names = sites.once(changed)[1]
    return name in names or any(_FOR_SETTINGS.search(other) for other in names)


def setting(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Entry | None:
    """What `cfg.loader.shuffle`, `cfg["shuffle"]` or a constant of another module stands for, if the text tells."""
    if isinstance(node, ast.Name):
        bindings = file.bindings(node.id, context)
        return _imported(file, bindings[0]) if len(bindings) == 1 else None
    if isinstance(node, ast.Attribute) and isinstance(owner := file.resolve(node.value, context), ProjectModule):
        return _of_module(file.sites, owner, node.attr)
    if isinstance(node, ast.Attribute) and isinstance(owner, Class) and (own := _of_body(owner, node.attr)) is not None:
        return own
    key = _key(node)
    if key is None or not isinstance(node, ast.Attribute | ast.Subscript):
        return None
    held = entries(file, node.value, context, depth - 1)
    return held.get(key) if held is not None and key not in file.sites.once(changed)[0] else None


def handed(file: File, node: ast.expr, context: Context, key: str) -> ast.expr | None:
    """What `f(**node)` gives for the parameter `key`; OPEN where the text does not tell."""
    held = entries(file, node, context)
    if held is None or key in file.sites.once(changed)[0]:
        return OPEN
    if key not in held:
        return None
    found = held[key]
    return found.node if found is not None and isinstance(found.node, ast.Constant) else OPEN


def entries(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Entries | None:
    """All that a settings object holds, by name; None where it is not written out."""
    if depth <= 0:
        return None
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        pairs = zip(keys, node.values, strict=True)
        held: Entries = {key: Entry(file, value, context) for key, value in pairs if isinstance(key, str)}
        return held if len(held) == len(keys) else None
    if isinstance(node, ast.Call):
        return _made(file, node, context, depth)
    if isinstance(node, ast.Name):
        return _named(file, node, context, depth)
    if isinstance(node, ast.IfExp):  # `{"pin_memory": True} if cuda else {}`: what else it may hold is nothing
        arms = [entries(file, arm, context, depth - 1) for arm in (node.body, node.orelse)]
        return {key: None for arm in arms for key in arm or ()} if None not in arms else None
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return entries(file, node.value, context, depth - 1)
    found = setting(file, node, context, depth) if isinstance(node, ast.Attribute | ast.Subscript) else None
    if found is None and isinstance(node, ast.Attribute) and (kept := file.held(node, context)) is not None:
        found = Entry(file, *kept)
    return entries(*found, depth - 1) if found is not None else None


def _key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None


def _made(file: File, node: ast.Call, context: Context, depth: int) -> Entries | None:
    named = file.resolve(node.func, context)
    by_name: Entries = {word.arg: Entry(file, word.value, context) for word in node.keywords if word.arg is not None}
    if len(by_name) < len(node.keywords) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return None
    if named in _SAME and len(node.args) == 1:
        return entries(file, node.args[0], context, depth - 1)
    if named in _BY_NAME and not node.args:
        return by_name
    if not isinstance(named, Class) or (defaults := _of_class(named)) is None:
        return None
    order = list(defaults)
    if len(node.args) > len(order) or not by_name.keys() <= defaults.keys():
        return None
    by_place: Entries = {order[number]: Entry(file, arg, context) for number, arg in enumerate(node.args)}
    return defaults | by_place | by_name


def _named(file: File, node: ast.Name, context: Context, depth: int) -> Entries | None:
    if _is_open(file.sites, node.id) or file.is_mutated(node.id, context):
        return None
    if isinstance(cls := file.resolve(node, context), Class):
        return _of_class(cls)
    bindings = file.bindings(node.id, context)
    if len(bindings) != 1:
        return None
    (binding,) = bindings
    if binding.kind == "value" and isinstance(binding.value, ast.expr):
        return entries(file, binding.value, binding.context, depth - 1)
    if binding.kind == "param":
        return _of_parameter(file, binding, depth)
    found = _imported(file, binding)
    return entries(*found, depth - 1) if found is not None else None


def _asked(_: Sites) -> dict[tuple[int, int], Entries | None]:
    """What `_of_parameter` answered, by parameter and depth: many calls of many calls lead to the same few."""
    return {}


def _of_parameter(file: File, binding: Binding, depth: int) -> Entries | None:
    answers, key = file.sites.once(_asked), (id(binding.node), depth)
    if key not in answers:
        answers[key] = None  # whom the calls mean may depend on the very settings that are asked for
        answers[key] = _agreed(file, binding, depth)
    return answers[key]


def _agreed(file: File, binding: Binding, depth: int) -> Entries | None:
    """What all calls of the function agree on: settings that differ are not known."""
    function = file.function_around(binding.context)
    calls = file.sites.calls_of(function) if function is not None else None
    if function is None or not calls or len(calls) > _MANY or not isinstance(binding.node, ast.arg):
        return None
    agreed: Entries | None = None
    for call in calls:
        held = _handed_by(call, function, binding.node.arg, depth)
        if held is None:
            return None
        if agreed is None:
            agreed = held
        agreed = {key: entry if _alike(entry, held.get(key)) else None for key, entry in agreed.items()}
        agreed |= dict.fromkeys(held.keys() - agreed.keys())
    return agreed


def _handed_by(call: Call, function: Function, name: str, depth: int) -> Entries | None:
    names = list(function.parameters)
    value = call.argument(name, names.index(name) - (1 if function.receiver else 0)) if name in names else OPEN
    if value is None and (default := function.parameters[name]) is not None:
        return entries(function.file, default, function.defined.context, depth - 1)
    return entries(call.file, value, call.context, depth - 1) if value is not None and value is not OPEN else None


def _alike(one: Entry | None, two: Entry | None) -> bool:
    return one is not None and two is not None and (one.node is two.node or ast.dump(one.node) == ast.dump(two.node))


def _of_class(cls: Class) -> Entries | None:
    """The fields of a dataclass, or the constants of a plain class, with their defaults."""
    if any(base not in _PLAIN_BASES for base in cls.libraries) or cls.find("__init__") is not None:
        return None
    held: Entries = {}
    for each in reversed(cls.line):
        decorators = [node.func if isinstance(node, ast.Call) else node for node in each.node.decorator_list]
        if any(each.file.resolve(node, each.defined.context) not in _DECORATORS for node in decorators):
            return None
        for line in each.node.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
            if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name):
                held[target.id] = _default(each, line.value)
    own = {name for each in cls.line for name in each.attributes}
    return {name: None if name in own else entry for name, entry in held.items()}


def _of_body(cls: Class, name: str) -> Entry | None:
    """`Vocab.PAD`, which the body of a class assigns once, also in `PAD, EOS = 0, 1`."""
    home = next((each for each in cls.line if name in each.defined.inner.scope.bindings), None)
    bound = home.defined.inner.scope.bindings[name] if home is not None else []
    if home is None or len(bound) != 1 or name in cls.file.sites.once(changed)[0]:
        return None
    value = bound[0].value
    if bound[0].kind == "item" and isinstance(value, ast.Tuple) and isinstance(bound[0].node, ast.Assign):
        value = value.elts[bound[0].item] if bound[0].item < len(value.elts) else None
    return Entry(home.file, value, home.defined.inner) if isinstance(value, ast.Constant) else None


def _default(cls: Class, node: ast.expr | None) -> Entry | None:
    """The value of a field that is given none: `3`, `field(default=3)`, `field(default_factory=Loader)`."""
    file, context = cls.file, cls.defined.inner
    if isinstance(node, ast.Call) and file.resolve(node.func, context) in _FIELDS:
        words = {word.arg: word.value for word in node.keywords}
        factory = words.get("default_factory")
        if isinstance(factory, ast.Lambda):
            return Entry(file, factory.body, context)
        if factory is not None:
            made = ast.Call(factory, [], [], lineno=node.lineno, col_offset=node.col_offset)
            return Entry(file, made, context)
        node = words.get("default")
    return Entry(file, node, context) if node is not None else None


def _imported(file: File, binding: Binding) -> Entry | None:
    """A variable of another module that is bound once, and set by nobody else."""
    found = file.sites.variable(file, binding) if binding.kind == "from" else None
    if found is None or not isinstance(binding.value, ast.alias):
        return None
    return _unchanged(found[0], binding.value.name, found[1])


def _of_module(sites: Sites, module: ProjectModule, name: str) -> Entry | None:
    file = sites.files.get(module.name)
    bound = file.walk.module.scope.bindings.get(name, []) if file is not None else []
    if file is None or len(bound) != 1:
        return None
    if bound[0].kind == "value" and isinstance(bound[0].value, ast.expr):
        return _unchanged(file, name, bound[0].value)
    return _imported(file, bound[0])


def _unchanged(file: File, name: str, value: ast.expr) -> Entry | None:
    if name in file.sites.once(changed)[0] or _is_open(file.sites, name) or file.is_mutated(name, file.walk.module):
        return None
    return Entry(file, value, file.walk.module)
