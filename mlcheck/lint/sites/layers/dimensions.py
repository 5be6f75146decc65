"""What the sizes of a tensor are called: `b, t, c = x.shape`, and of what a linear layer makes of it."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.scopes import Binding, Context

_PARTS = ("chunk", "split", "tensor_split")
_LAST = ("-1", "2")
_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.stack", "torch.vstack")


def projected(call: Call, owner: ast.Name) -> list[str]:
    """The sizes of what a linear layer of the class made of a tensor whose sizes are known, the last one left out.

    So is each of the parts that it is cut into along the last dimension, also under the name of a comprehension.
    """
    made, context = source(call.file, owner, call.context)
    if made is not owner and not isinstance(made, ast.Name):
        return of_linear(call, made, context)
    bound = call.file.bindings(owner.id, call.context)
    if len(bound) == 1 and bound[0].kind == "loop" and isinstance(bound[0].node, ast.ListComp | ast.GeneratorExp):
        several = bound[0].value
        elements = several.elts if isinstance(several, ast.Tuple | ast.List) else []
        found = [_of_part(call, element, call.context) for element in elements]
        return found[0] if found and all(each == found[0] for each in found) else []
    return _of_part(call, owner, call.context)


def _of_part(call: Call, node: ast.expr, context: Context) -> list[str]:
    """`q, k, v = self.qkv(x).chunk(3, dim=-1)`."""
    found = latest(call.file, node, context) if isinstance(node, ast.Name) else None
    if found is None or found.kind != "item" or not isinstance(found.value, ast.Call):
        return of_linear(call, *source(call.file, node, context))
    func, words = found.value.func, {word.arg: word.value for word in found.value.keywords}
    if not isinstance(func, ast.Attribute) or func.attr not in _PARTS:
        return []
    dim = words.get("dim", found.value.args[1] if len(found.value.args) > 1 else None)
    if dim is None or ast.unparse(dim) not in _LAST:
        return []
    sizes = of_linear(call, *source(call.file, func.value, found.context))
    return sizes if ast.unparse(dim) == "-1" or len(sizes) == int(ast.unparse(dim)) else []


def of_linear(call: Call, made: ast.expr, context: Context) -> list[str]:
    """The sizes but for the last, where a linear layer of the class is called on a tensor whose sizes have names."""
    given = fed_to(call, made, ("Linear",))
    return unpacked(Call(call.file, made, context), given)[:-1] if given and isinstance(made, ast.Call) else []


def fed_to(call: Call, made: ast.expr, kinds: tuple[str, ...]) -> ast.Name | None:
    """`x` of `self.layer(x)`, where the class makes that layer once, and it is of one of the kinds."""
    if not isinstance(made, ast.Call) or len(made.args) != 1 or not isinstance(made.args[0], ast.Name):
        return None
    layer = made.func
    if not isinstance(layer, ast.Attribute) or call.cls is None:
        return None
    sets = call.cls.attribute(layer.attr)
    kind = sets[0][1].value or sets[0][1].unpacked if len(sets) == 1 else None
    if isinstance(kind, ast.Tuple) and sets[0][1].item < len(kind.elts):
        kind = kind.elts[sets[0][1].item]
    if isinstance(kind, ast.GeneratorExp | ast.ListComp):
        kind = kind.elt
    return made.args[0] if isinstance(kind, ast.Call) and ast.unparse(kind.func).endswith(kinds) else None


def dimension(node: ast.expr, owner: str) -> int | None:
    """Which dimension `x.size(2)` or `x.shape[2]` asks for."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=int(dim))]):
            return dim if name == owner else None
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(dim))
        ):
            return dim if name == owner else None
    return None


def positions(call: Call, owner: ast.Name, size: ast.expr, depth: int = 6) -> list[int]:
    """Which dimensions of a tensor a size is the product of: 2 and 3 for `n` after `n = x.size(2) * x.size(3)`."""
    if isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult) and depth:
        parts = [positions(call, owner, side, depth - 1) for side in (size.left, size.right)]
        return [*parts[0], *parts[1]] if all(parts) else []
    if not isinstance(size, ast.Name) or not depth:
        asked = dimension(size, owner.id)
        return [asked] if asked is not None else []
    found = latest(call.file, size, call.context)
    if found is None or not isinstance(found.value, ast.expr) or not _is_of_same(call, owner, found):
        return []
    if found.kind == "item":
        return [found.item] if _is_shape_of(found.value, owner.id) else []
    if found.kind != "value" or isinstance(found.value, ast.Name):
        return []
    return positions(Call(call.file, call.node, found.context), owner, found.value, depth - 1)


def _is_of_same(call: Call, owner: ast.Name, found: Binding) -> bool:
    """Whether the tensor was, where this name got its value, what it is at the call."""
    line = getattr(found.node, "lineno", 0)
    read = ast.Name(owner.id, ast.Load(), lineno=line, end_lineno=line)
    held = latest(call.file, owner, call.context)
    return held is not None and latest(call.file, read, found.context) is held


def unpacked(call: Call, owner: ast.Name) -> list[str]:
    """The names that hold all sizes of `owner`, as it is at the call, in order: `b, t, c = x.shape`."""
    held = latest(call.file, owner, call.context)
    scope = call.context.scope
    for bindings in scope.bindings.values():
        for binding in bindings:
            node = binding.node
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
                continue
            if _is_shape_of(node.value, owner.id) and node.lineno < call.node.lineno:
                read = ast.Name(owner.id, ast.Load(), lineno=node.lineno, end_lineno=node.lineno)
                if latest(call.file, read, binding.context) is held and held is not None:
                    names = [ast.unparse(element) for element in node.targets[0].elts]
                    return names if all(_is_same(call, name, node) for name in names) else []
    return []


def before_joining(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> tuple[ast.expr, list[ast.expr]]:
    """`x` and (batch, ...) of `torch.cat([x, y]).view(batch * 2, ...)`: the first of several that are alike."""
    made, _ = source(call.file, owner, call.context)
    if not isinstance(made, ast.Call) or call.file.called(made, call.context) not in _JOINS or not sizes:
        return owner, sizes
    along = Call(call.file, made, call.context).constant("dim", 1, default=0)
    listed = made.args[0] if made.args else None
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) and along == 0 else []
    if not parts or not isinstance(parts[0], ast.Name):
        return owner, sizes
    first, count = sizes[0], str(len(parts))
    if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Mult):
        rest = [side for side in (first.left, first.right) if ast.unparse(side) != count]
        first = rest[0] if len(rest) == 1 else first
    return parts[0], [first, *sizes[1:]]


def sizes_of_other(call: Call, node: ast.expr) -> list[ast.expr]:
    """The sizes in `view(x.shape)`, where they have names: `batch, time, width = x.shape`."""
    asked = node.func if isinstance(node, ast.Call) else node
    if isinstance(asked, ast.Attribute) and asked.attr in ("shape", "size") and isinstance(asked.value, ast.Name):
        return [ast.Name(name, ast.Load()) for name in unpacked(call, asked.value)]
    return []


def _is_same(call: Call, name: str, node: ast.Assign) -> bool:
    """Whether the name still holds what this statement gave it, where its arm of a branch was taken."""
    if not name.isidentifier():
        return False
    use = ast.Name(name, ast.Load(), lineno=call.node.lineno)
    found = latest(call.file, use, call.context)
    if found is not None:
        return found.node is node
    above = [
        each for each in call.file.bindings(name, call.context) if getattr(each.node, "lineno", 0) < call.node.lineno
    ]
    own = next((each.context for each in above if each.node is node), None)
    rest = [each for each in above if own is None or not each.context.excludes(own)]
    return bool(rest) and rest[-1].node is node and _is_of_arm(own, call.context)


def _is_of_arm(own: Context | None, later: Context) -> bool:
    """Whether a statement stands in an arm of a branch that the later one stands behind, and in nothing else."""
    around = list(later.outwards())
    inner = [outer for outer in own.outwards() if outer not in around] if own is not None else []
    return [outer.kind for outer in inner] == ["if"]


def _is_shape_of(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Tuple) and len(node.elts) > 1:
        return [dimension(element, name) for element in node.elts] == list(range(len(node.elts)))
    if isinstance(node, ast.Call) and not node.args:
        return is_attribute(node.func, name, "size")
    return is_attribute(node, name, "shape")


def moves(call: Call, names: list[str], groups: list[list[ast.expr]]) -> bool:
    """Whether a dimension that stays has more before it than it had: `(b, t, c)` as `(b, heads, t, c // heads)`."""
    texts = [sorted(ast.unparse(factor) for factor in group) for group in groups]
    unnamed = [name for name in names if not any(name in text for text in texts)]
    if texts.count(["-1"]) == len(unnamed) == 1 and texts[-1] != ["-1"]:
        texts[texts.index(["-1"])] = unnamed
    for index, name in enumerate(names[1:], 1):
        if texts.count([name]) != 1 or names.count(name) != 1:
            continue
        before = [text for group in texts[: texts.index([name])] for text in group if text != "1"]
        if "-1" in before or any("//" in text or "/" in text for text in before):
            continue
        added = list(before)
        for known in names[:index]:
            if known in added:
                added.remove(known)
            else:
                break
        else:
            if added and all(_is_share(call, last, text) for text in added for last in groups[-1]):
                return True
    return False


def _is_share(call: Call, size: ast.expr, heads: str) -> bool:
    """Whether a size is what is left of the width for each of the heads: `c // heads`, or an attribute set to that."""
    if heads in ast.unparse(size):
        return True
    size, _ = source(call.file, size, call.context)
    held = [_own_value(call, text) for text in (ast.unparse(size), heads)]
    return "//" in held[0] and held[1] in held[0].split("//")[1]


def _own_value(call: Call, text: str) -> str:
    """What `self.size` is set to, where that is once; a name as it is."""
    receiver, _, name = text.partition(".")
    if call.cls is None or call.function is None or receiver != call.function.receiver:
        return text
    sets = call.cls.attributes.get(name, [])
    return ast.unparse(sets[0][1].value) if len(sets) == 1 and sets[0][1].value is not None else text
