"""constant-not-buffer: a constant tensor that stays behind when its module is moved to another device."""

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_attribute, last_name, walk
from mlcheck.lint.sites import AttributeSet, Class, Context, Function, Sites
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.modules import is_plain, module_classes, text_of
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.tensors import is_on_cpu

LOOKS_AT = "module class"
_NAMES = "tensor zeros ones full eye arange linspace randn rand FloatTensor Tensor"
_FACTORIES = frozenset(f"torch.{name}" for name in _NAMES.split())
_RANDOM = ("torch.rand", "torch.randn")
_SPREADS = frozenset(["view", "reshape", "unsqueeze", "repeat", "expand", "transpose", "t", "tril", "triu"])
_KEEPS = _SPREADS | {"float", "double", "long", "bool", "clone", "div", "log", "exp", "sqrt", "pow", "abs", "cumsum"}
_ELSEWHERE = ("cuda", "to(device", "device=", "LightningModule", "accelerat", "mps", ".double()", ".half()", "bfloat16")
_ANY = "torch.tensor of anything"  # perhaps of a single number, which works from the CPU
_PROGRAM = (".backward(", ".step(", "__main__")  # modules alone are made for programs that will move them
_WITH_TENSORS = frozenset(
    ["cdist", "matmul", "bmm", "mm", "linear", "conv1d", "conv2d", "mse_loss", "cosine_similarity"]
)
_WITH_MASK = ("masked_fill", "masked_fill_", "where", "masked_select")
_AS_OPERAND = ("attn_mask", "src_mask", "tgt_mask", "weight", "pos_weight")
_NUMBERS = ("size", "numel", "dim", "item", "tolist", "nelement")
_MOVES = (".to(", ".cuda(", "device", "type_as", ".cpu(", "to_device", "new_tensor", ".type(", "as_tensor")


def check(facts: Facts) -> Iterator[Finding]:
    moved = _mentions(facts.sites, _ELSEWHERE) or not _mentions(facts.sites, _PROGRAM)
    saved = _mentions(facts.sites, ("state_dict",))
    if not moved and not saved:
        return
    for cls in facts.sites.once(module_classes):
        if not is_plain(cls):
            continue
        for name, assignments in cls.attributes.items():
            function, assigned = assignments[0]
            if function.name != "__init__" or not all(_renews(name, later) for _, later in assignments[1:]):
                continue
            made = _made(cls, assigned)
            lasts = made in _RANDOM or len(assignments) > 1  # what no constructor makes again
            if made is None or not (moved or (saved and lasts)):
                continue
            used = _used_with_input(cls, name)
            if used is not None and (made != _ANY or isinstance(used, ast.keyword) or _is_spread(used, name)):
                yield _finding(cls, name, function, assigned, made, used)


def _finding(cls: Class, name: str, function: Function, assigned: AttributeSet, made: str, used: ast.AST) -> Finding:
    lost = "no checkpoint holds it, and each run draws another" if made in _RANDOM else "no checkpoint holds it"
    what = "holds plain tensors" if isinstance(assigned.value, ast.ListComp) else "is a plain tensor"
    return Finding(
        f"`self.{name}` {what}: `model.to(...)` leaves it behind, {lost}",
        function.place(assigned.node).location,
        help=f'use `self.register_buffer("{name}", ...)`; with `persistent=False` it is not saved',
        related=(cls.file.place(used, function.inner).location,),
    )


def _is_spread(used: ast.AST, name: str) -> bool:
    """`x * self.anchors[i].view(1, 2, 1, 1)`: what is brought into a shape has more than one element."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("view", "reshape")
        and last_name(_bare(node)) == name
        and any(isinstance(size, ast.Constant) and size.value != 1 for size in node.args)
        for node in walk(used)
    )


def _mentions(sites: Sites, words: tuple[str, ...]) -> bool:
    return any(True for _ in sites.mentioning(words))


def _renews(name: str, later: AttributeSet) -> bool:
    """`self.mean = 0.9 * self.mean + ...`: a state that is carried on, and no parameter or buffer is made of it."""
    text = ast.unparse(later.value) if later.value is not None else ""
    return f"self.{name}" in text and "Parameter(" not in text and "Buffer(" not in text


def _made(cls: Class, assigned: AttributeSet) -> str | None:
    """The function that makes the tensor, of at least one dimension, on the default device; None for anything else."""
    found: set[str | None] = set()
    todo = [(assigned.value, assigned.context)] if assigned.value is not None else []
    seen: set[ast.expr] = set()
    while todo:
        node, context = todo.pop()
        spread = False
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
            spread = spread or node.func.attr in _SPREADS
            of_torch = cls.file.resolve(node.func, context) == f"torch.{node.func.attr}" and bool(node.args)
            node = node.args[0] if of_torch else node.func.value
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            context = Context("comprehension", node, context, context.scope)
            node = node.elt
        if not isinstance(node, ast.Name):
            made = _factory(cls, node, context)
            found.add("torch.tensor" if made == _ANY and spread else made)
            continue
        bindings = cls.file.bindings(node.id, context)
        held = [(b.value, b.context) for b in bindings if b.kind == "value" and isinstance(b.value, ast.expr)]
        if len(held) != len(bindings) or not held:
            return None
        todo += [(value, where) for value, where in held if value not in seen]
        seen.update(value for value, _ in held)
    return found.pop() if len(found) == 1 else None


def _factory(cls: Class, node: ast.expr, context: Context) -> str | None:
    if isinstance(node, ast.BinOp):
        return _of_sides(cls, node, context)
    made = cls.file.resolve(node.func, context) if isinstance(node, ast.Call) else None
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
        return None if isinstance(first, ast.Constant) else _ANY
    return None if isinstance(first, ast.List | ast.Tuple) and not first.elts else made


def _of_sides(cls: Class, node: ast.BinOp, context: Context) -> str | None:
    """`1.0 / counts`, `weights / weights.sum()`: one side is made here, and the other is a number or made of it too."""
    left, right = (_factory(cls, _unnamed(cls, side, context), context) for side in (node.left, node.right))
    if left is None or right is None:
        other = node.right if left is not None else node.left
        own = _unreduced(other)
        if not isinstance(other, ast.Constant | ast.BinOp | ast.Name) and own is None:
            return None
        if own is not None and _factory(cls, _unnamed(cls, own, context), context) is None:
            return None
        return "torch.tensor" if own is not None else left or right  # a reduction has something to reduce
    return left if left != _ANY else right


def _unnamed(cls: Class, node: ast.expr, context: Context) -> ast.expr:
    return source(cls.file, node, context)[0]


def _unreduced(node: ast.expr) -> ast.expr | None:
    """`w` of `w.sum()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in ("sum", "mean", "max", "min", "norm", "std") else None
    return None


def _is_listed(cls: Class, node: ast.expr, context: Context) -> bool:
    """Whether several numbers are written out, here or where this is called."""
    if isinstance(node, ast.List | ast.Tuple | ast.ListComp):
        return True
    found = origins(cls.file, node, context)
    return all(isinstance(each.node, ast.List | ast.Tuple | ast.ListComp) or _is_counted(each) for each in found)


def _is_counted(given: Origin) -> bool:
    """A parameter that is no single number: the function around asks for its `len`."""
    function = given.file.function_around(given.context)
    if not isinstance(given.node, ast.Name) or function is None or given.node.id not in function.parameters:
        return False
    asked = f"len({given.node.id})"
    return any(isinstance(node, ast.Call) and ast.unparse(node) == asked for node in function.nodes)


def _used_with_input(cls: Class, name: str) -> ast.AST | None:
    """Where `forward` computes with `self.name`, if all uses are such and none moves it first."""
    if f'"{name}"' in text_of(cls) or f"'{name}'" in text_of(cls):
        return None
    used = None
    for method in (method for base in cls.line for method in base.methods.values() if method.name != "__init__"):
        for statement in _statements(method.node):
            if not _names(statement, method.receiver, name):
                continue
            text = cls.file.module.text_of(statement)
            if any(word in text for word in _MOVES):
                return None
            if method.name == "forward":
                used = used or _operand(statement, method.receiver, name)
    return used


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The simple statements of a function, and the headers of its compound ones are left out."""
    for node in walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr | ast.Assert):
            yield node


def _names(node: ast.AST, receiver: str, name: str) -> bool:
    return any(is_attribute(child, receiver, name) for child in walk(node))


def _operand(statement: ast.AST, receiver: str, name: str) -> ast.AST | None:
    """An arithmetic operation with `self.name` as one side and something that is no constant as the other."""
    for node in walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WITH_MASK:
            masks = [arg.left if isinstance(arg, ast.Compare) else arg for arg in node.args]
            if any(is_attribute(_bare(mask), receiver, name) for mask in masks):
                return node
        if (
            isinstance(node, ast.keyword)
            and node.arg in _AS_OPERAND
            and is_attribute(_bare(node.value), receiver, name)
        ):
            return node
        if isinstance(node, ast.Call) and last_name(node.func) in _WITH_TENSORS and len(node.args) > 1:
            given = any(is_attribute(_bare(arg), receiver, name) for arg in node.args)
            if given and any(_has_local((arg, arg), receiver) for arg in node.args):
                return node
        if isinstance(node, ast.BinOp):
            parts = list(_operands(node))
            if any(is_attribute(_bare(part), receiver, name) for part in parts) and _has_local(parts, receiver):
                return node
    return None


def _bare(node: ast.expr) -> ast.expr:
    """`self.c[None, :]` and `self.c.view(1, -1)` are on the device of `self.c`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in _NUMBERS:
            node = node.func.value
        else:
            return node


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """What an arithmetic expression is made of, down to what is no arithmetic; constants are left out."""
    if isinstance(node, ast.BinOp):
        yield from _operands(node.left)
        yield from _operands(node.right)
    elif not isinstance(node, ast.Constant):
        yield node


def _has_local(sides: Iterable[ast.expr], receiver: str) -> bool:
    """Whether a side computes with a local name, as an input is."""
    return any(isinstance(node, ast.Name) and node.id != receiver for side in sides for node in walk(side))
