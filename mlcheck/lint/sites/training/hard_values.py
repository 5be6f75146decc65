"""What gradient a value of a function has, as it is written; a decision, `scores > 0.5`, takes it away."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_name, last_name, loads
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import origins, returns
from mlcheck.lint.sites.scopes import Binding, Context

DECIDES = frozenset(["argmax", "round", "ge", "gt", "lt", "le", "sign", "floor", "ceil", "heaviside"])
LOSS = pattern(r"loss|criterion|dice|bce|focal|(?:^|_)(?:ce|mse|l1|mae|nll|kl|iou|huber|cross_entropy)(?:$|_)")
_LIBRARY_LOSS = pattern(r"torch\.nn\.\w+Loss")
_TARGET = pattern(
    r"^(?:y|gt|t)$|target|label|true|truth|mask|ground|^gt_|_gt$|^y_(?!pred|hat)|weight|smooth|eps|alpha|gamma"
    r"|^(?:n|num|no)_|classes|ignore|^(?:dim|axis|beta|power|reduction|threshold|thr)$"
)
_NETWORK = pattern(r"^(?:\w+_)?(?:model|net|network|backbone|encoder|decoder|unet|head|generator|student)$")
_LEARNT = pattern(r"Parameter\b|Embedding|requires_grad")
_BATCHES = pattern(r"load|data|batch|iter")
_LARGEST = ("max", "min", "topk", "sort")
_CUTS = ("detach", "item", "numpy", "tolist", "no_grad")
_DEPTH, _CALLS = 60, 3


class Found(NamedTuple):
    """`live`, `hard` (a decision took the gradient, there), `none`, or `unknown`."""

    kind: str
    decision: Place | None = None


_UNKNOWN, _LIVE, _NONE = Found("unknown"), Found("live"), Found("none")


class Gradients:
    """Of one function. `given`: what its parameters hold where it is called."""

    def __init__(self, function: Function, given: Mapping[str, Found] | None = None, calls: int = 0) -> None:
        self._function, self._given, self._calls, self._depth = function, given or {}, calls, 0

    def of(self, node: ast.expr, context: Context) -> Found:
        self._depth += 1
        found = self._asked(node, context) if self._depth < _DEPTH else _UNKNOWN
        self._depth -= 1
        return found

    def _asked(self, node: ast.expr, context: Context) -> Found:
        match node:
            case ast.Constant():
                return _NONE
            case ast.Name():
                return self._named(node, context)
            case ast.Attribute(value=ast.Name(id=owner)) if owner == self._function.receiver:
                return _NONE
            case ast.Attribute(attr="shape" | "device" | "dtype"):
                return _NONE
            case ast.Attribute(value=inner, attr="indices"):
                return self._decided(node, [inner], context)
            case ast.Attribute() if isinstance(self._function.file.resolve(node, context), str):
                return _NONE
            case ast.Call(func=ast.Attribute(attr="size" | "numel")) | ast.Call(func=ast.Name(id="len")):
                return _NONE
            case ast.Compare(left=left, comparators=[right]):
                return self._decided(node, [left, right], context)
            case ast.BinOp(left=left, right=right):
                return self._of_all([left, right], context)
            case ast.Subscript(value=ast.Call() as called, slice=ast.Constant(value=1)) if _is_largest(called):
                return self._decided(node, [called], context)
            case ast.Subscript(value=inner, slice=index):
                held = self.of(inner, context)
                return held if held.kind != "none" else self._picked(index, context)
            case ast.UnaryOp(operand=inner):
                return self.of(inner, context)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._of_all(parts, context)
            case ast.Call():
                return self._called(node, context)
        return _UNKNOWN

    def _picked(self, index: ast.expr, context: Context) -> Found:
        """What a decision picks out of constants: `self.centres[scores.argmax(1)]`; a codebook learns by that."""
        around = self._function.cls or self._function
        found = self.of(index, context) if not _LEARNT.search(around.text) else _NONE
        return found if found.kind == "hard" else _NONE

    def _named(self, node: ast.Name, context: Context) -> Found:
        found = latest(self._function.file, node, context)
        if found is None or found.kind in ("other", "loop"):
            return self._summed(node, context)
        if found.kind == "param":
            named = _NONE if _TARGET.search(node.id.lower()) else _LIVE
            return self._given.get(node.id, named)
        if found.kind == "value" and isinstance(found.value, ast.expr):
            return self.of(found.value, found.context)
        if found.kind == "item" and isinstance(found.value, ast.Call) and _is_largest(found.value):
            value = self.of(found.value, found.context)
            return self._decision(found.value, value) if found.item == 1 else value
        return _UNKNOWN

    def _summed(self, node: ast.Name, context: Context) -> Found:
        """A name that a loop over batches gives; a sum, `total += part` beneath `total = 0`."""
        bound = self._function.file.bindings(node.id, context)
        if bound and all(_brings_data(each) for each in bound):
            return _NONE
        parts = [(_grown_by(each, node.id), each.context) for each in bound]
        begun = [each.value for each in bound if isinstance(each.value, ast.expr) and each.kind == "value"]
        grown = [(part, where) for part, where in parts if part is not None]
        if not grown or len(grown) + len(begun) < len(bound):
            return _UNKNOWN
        first = [value for value in begun if not loads(value, node.id)]
        return self._of_all([*first, *(part for part, _ in grown)], grown[0][1])

    def _called(self, node: ast.Call, context: Context) -> Found:
        last, func, file = last_name(node.func), node.func, self._function.file
        if last in _CUTS:
            return _UNKNOWN
        given = [*node.args, *(word.value for word in node.keywords)]
        named = file.resolve(func, context)
        if isinstance(named, Function) and (through := self._through(named, node, context)) is not None:
            return through
        owner = func.value if isinstance(func, ast.Attribute) else None
        if owner is not None and is_name(owner, self._function.receiver) and not isinstance(named, Function):
            last = last.lower()
            held = self._of_module(node, given, context)
            if held.kind != "unknown" or LOSS.search(last):
                return held if held.kind != "unknown" else self._of_all(given, context)
            return _LIVE if _NETWORK.search(last) else _UNKNOWN
        if isinstance(owner, ast.Attribute | ast.Name) and named is not None:
            owner = None  # a function of a module: `torch.round(x)`
        if isinstance(func, ast.Name) and named is None:
            held = self._of_module(node, given, context)
            if held.kind != "unknown" or _NETWORK.search(last):
                return held if held.kind != "unknown" else _LIVE
        if isinstance(named, Function) and is_name(owner, self._function.receiver):
            if not LOSS.search(last.lower()):
                return _UNKNOWN
            owner = None
        parts = given if owner is None else [owner, *given]
        return self._decided(node, parts, context) if last in DECIDES else self._of_all(parts, context)

    def _of_module(self, node: ast.Call, given: list[ast.expr], context: Context) -> Found:
        """`criterion(out, y)` and `self.dice(out, y)`: by the loss that the name or attribute was made of."""
        made = origins(self._function.file, node.func, context)
        classes = [each.file.resolve(each.node.func, each.context) for each in made if isinstance(each.node, ast.Call)]
        if len(classes) != 1 or len(made) != 1:
            return _UNKNOWN
        cls = classes[0]
        if isinstance(cls, str):
            return self._of_all(given, context) if _LIBRARY_LOSS.fullmatch(cls) else _UNKNOWN
        forward = cls.find("forward") if isinstance(cls, Class) and LOSS.search(cls.name.lower()) else None
        return (self._through(forward, node, context) if forward is not None else None) or _UNKNOWN

    def _through(self, function: Function, node: ast.Call, context: Context) -> Found | None:
        """What a function of the project gives for these arguments; None where that cannot be told."""
        names = list(function.parameters)[1 if function.receiver else 0 :]
        starred = any(isinstance(arg, ast.Starred) for arg in node.args) or any(w.arg is None for w in node.keywords)
        if self._calls >= _CALLS or starred or len(node.args) > len(names):
            return None
        given = dict.fromkeys(names, _NONE)
        given.update((name, self.of(arg, context)) for name, arg in zip(names, node.args, strict=False))
        given.update((word.arg, self.of(word.value, context)) for word in node.keywords if word.arg)
        inside = Gradients(function, given, self._calls + 1)
        found = [inside.of(value, function.inner) for value in returns(function)]
        if not found or any(each.kind == "unknown" for each in found):
            return None
        return _strongest(found)

    def _decided(self, node: ast.expr, parts: list[ast.expr], context: Context) -> Found:
        return self._decision(node, self._of_all(parts, context))

    def _decision(self, node: ast.expr, value: Found) -> Found:
        return Found("hard", self._function.place(node)) if value.kind == "live" else value

    def _of_all(self, parts: Iterable[ast.expr], context: Context) -> Found:
        return _strongest([self.of(part, context) for part in parts])


def _strongest(found: list[Found]) -> Found:
    for kind in ("unknown", "live", "hard"):
        for each in found:
            if each.kind == kind:
                return each
    return _NONE


def _grown_by(binding: Binding, name: str) -> ast.expr | None:
    """`part` of `total += part` and of `total = total + part`."""
    match binding.node:
        case ast.AugAssign(value=part):
            return part
        case ast.Assign(value=ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub(), right=part)) if left == name:
            return part
    return None


def _is_largest(call: ast.Call) -> bool:
    """`out.max(1)`, `torch.max(out, dim=1)`: the values, and where they stand."""
    along = [*call.args, *call.keywords]
    of_tensor = isinstance(call.func, ast.Attribute) and not is_name(call.func.value, "torch")
    return last_name(call.func) in _LARGEST and len(along) >= (1 if of_tensor else 2)


def _brings_data(binding: Binding) -> bool:
    """`for x, y in loader`, `for i, batch in enumerate(batches)`, `for label in range(10)`."""
    over = binding.node.iter if isinstance(binding.node, ast.For) else None
    if isinstance(over, ast.Call) and is_name(over.func, "range"):
        return True
    while isinstance(over, ast.Call) and over.args and last_name(over.func) in ("enumerate", "tqdm", "iter"):
        over = over.args[0]
    return over is not None and _BATCHES.search(last_name(over).lower()) is not None
