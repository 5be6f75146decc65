"""The function that makes the plain tensor which a module keeps in an attribute."""

import ast

from mlcheck.lint.nodes import before_methods, is_none
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.tensors import is_on_cpu
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.scopes import AttributeSet, Context

_NAMES = "tensor zeros ones full eye arange linspace randn rand FloatTensor Tensor"
_FACTORIES = frozenset(f"torch.{name}" for name in _NAMES.split())
_SPREADS = frozenset(
    ["view", "reshape", "unsqueeze", "repeat", "expand", "expand_as", "transpose", "t", "tril", "triu"]
)
_KEEPS = _SPREADS | {"float", "double", "long", "bool", "clone", "div", "log", "exp", "sqrt", "pow", "abs", "cumsum"}
_KEEPS |= {"sin", "cos", "contiguous", "softmax", "flip", "square"}
_NUMBERS = ("numpy.pi", "math.pi", "numpy.e", "math.e", "math.tau", "torch.pi")
_JOINS = ("torch.stack", "torch.cat", "torch.hstack", "torch.vstack")
_WRAPPERS = ("torch.autograd.Variable", "torch.autograd.variable.Variable")  # of PyTorch before 0.4
ANY = "torch.tensor of anything"  # perhaps of a single number, which works from the CPU


def made_by(cls: Class, assigned: AttributeSet) -> str | None:
    """The function that makes the tensor, of at least one dimension, on the default device; None for anything else."""
    found: set[str | None] = set()
    todo = [(assigned.value, assigned.context)] if assigned.value is not None else []
    seen: set[ast.expr] = set()
    joined = False
    while todo:
        node, context = todo.pop()
        spread = False
        if isinstance(node, ast.IfExp) and is_none(node.orelse):
            node = node.body
        if isinstance(node, ast.Call) and node.args and cls.file.resolve(node.func, context) in _WRAPPERS:
            node = node.args[0]
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
            spread = spread or node.func.attr in _SPREADS
            of_torch = cls.file.resolve(node.func, context) == f"torch.{node.func.attr}" and bool(node.args)
            node = node.args[0] if of_torch else node.func.value
        if isinstance(node, ast.Call) and node.args and cls.file.resolve(node.func, context) in _JOINS:
            todo += _joined(cls, node.args[0], context)
            joined = True
            continue
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            context = Context("comprehension", node, context, context.scope)
            node = node.elt
        if not isinstance(node, ast.Name):
            made = _factory(cls, node, context)
            found.add("torch.tensor" if made == ANY and spread else made)
            continue
        bindings = cls.file.bindings(node.id, context)
        held = [(b.value, b.context) for b in bindings if b.kind == "value" and isinstance(b.value, ast.expr)]
        if len(held) != len(bindings) or not held:
            return None
        todo += [(value, where) for value, where in held if value not in seen]
        seen.update(value for value, _ in held)
    if len(found) == 1 and not joined:
        return found.pop()
    known = bool(found) and found.isdisjoint([None, ANY])
    return "torch.tensor" if known or (joined and None not in found) else None


def _joined(cls: Class, parts: ast.expr, context: Context) -> list[tuple[ast.expr, Context]]:
    """The tensors of `[torch.ones(n)] + waves`, where `waves = [torch.cos(torch.arange(n) * i) for i in range(k)]`."""
    parts, context = source(cls.file, parts, context)
    if isinstance(parts, ast.BinOp) and isinstance(parts.op, ast.Add):
        return _joined(cls, parts.left, context) + _joined(cls, parts.right, context)
    if isinstance(parts, ast.List | ast.Tuple):
        return [(part, context) for part in parts.elts]
    if isinstance(parts, ast.ListComp) and len(parts.generators) == 1:
        return [(parts.elt, Context("comprehension", parts, context, context.scope))]
    return [(parts, context)]


def _factory(cls: Class, node: ast.expr, context: Context) -> str | None:
    if isinstance(node, ast.Call) and cls.file.resolve(node.func, context) is None:
        node = _unnamed(cls, before_methods(node, _KEEPS), context)
    if isinstance(node, ast.UnaryOp):
        return _factory(cls, _unnamed(cls, node.operand, context), context)
    if isinstance(node, ast.Subscript) and _is_spread_out(node):
        return _factory(cls, _unnamed(cls, node.value, context), context)
    if isinstance(node, ast.BinOp):
        return _of_sides(cls, node, context)
    made = cls.file.resolve(node.func, context) if isinstance(node, ast.Call) else None
    if made == "torch.pow" and isinstance(node, ast.Call) and len(node.args) == 2:
        base, exponent = node.args
        return _factory(cls, _unnamed(cls, exponent if isinstance(base, ast.Constant) else base, context), context)
    if isinstance(made, str) and isinstance(node, ast.Call) and node.args and _is_elementwise(made):
        return _factory(cls, _unnamed(cls, node.args[0], context), context)
    if isinstance(made, Function) and made.cls is None:
        given = list(returns(made))
        on_cpu = bool(given) and all(is_on_cpu(made.file, each, made.inner) for each in given)
        return "torch.tensor" if on_cpu else None
    if not isinstance(node, ast.Call) or made not in _FACTORIES or not isinstance(made, str):
        return None
    if any(keyword.arg in ("device", "requires_grad", None) for keyword in node.keywords) or not node.args:
        return None
    first = node.args[0]
    if made == "torch.tensor" and not _is_listed(cls, first, context):
        return None if isinstance(first, ast.Constant) else ANY
    return None if isinstance(first, ast.List | ast.Tuple) and not first.elts else made


def _is_spread_out(node: ast.Subscript) -> bool:
    """`x[None]`, `x[:, None]`: of at least one dimension, and of all that there was."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    whole = (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None for part in parts)
    return all(all_of or is_none(part) for all_of, part in zip(whole, parts, strict=True))


def _is_elementwise(name: str) -> bool:
    return name.startswith("torch.") and name.removeprefix("torch.") in _KEEPS - _SPREADS


def _of_sides(cls: Class, node: ast.BinOp, context: Context) -> str | None:
    """`1.0 / counts`, `weights / weights.sum()`: one side is made here, and the other is a number or made of it too."""
    left, right = (_factory(cls, _unnamed(cls, side, context), context) for side in (node.left, node.right))
    if left is None or right is None:
        other = node.right if left is not None else node.left
        own = _unreduced(other)
        named = cls.file.resolve(other, context) if isinstance(other, ast.Attribute) else None
        number = isinstance(other, ast.Constant | ast.BinOp | ast.Name) or named in _NUMBERS
        if not number and own is None:
            return None
        if own is not None and _factory(cls, _unnamed(cls, own, context), context) is None:
            return None
        return "torch.tensor" if own is not None else left or right  # a reduction has something to reduce
    return left if left != ANY else right


def _unnamed(cls: Class, node: ast.expr, context: Context) -> ast.expr:
    return source(cls.file, node, context)[0]


def _unreduced(node: ast.expr) -> ast.expr | None:
    """`w` of `w.sum()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in ("sum", "mean", "max", "min", "norm", "std") else None
    return None


def _is_listed(cls: Class, node: ast.expr, context: Context) -> bool:
    """Whether several numbers are written out, here or where this is called: `[1, 2]`, `[0] + sizes[:-1]`."""
    if isinstance(node, ast.List | ast.Tuple | ast.ListComp):
        return True
    if isinstance(node, ast.BinOp):
        return any(isinstance(side, ast.List | ast.ListComp) for side in (node.left, node.right))
    found = origins(cls.file, node, context)
    return all(isinstance(each.node, ast.List | ast.Tuple | ast.ListComp) or _is_counted(each) for each in found)


def _is_counted(given: Origin) -> bool:
    """A parameter that is no single number: the function around asks for its `len`."""
    function = given.file.function_around(given.context)
    if not isinstance(given.node, ast.Name) or function is None or given.node.id not in function.parameters:
        return False
    asked = f"len({given.node.id})"
    return any(isinstance(node, ast.Call) and ast.unparse(node) == asked for node in function.nodes)
