"""Which rows the values of one function hold: the parts of what they came from, and the orders they were put into."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import assigned, is_name, last_name
from mlcheck.lint.sites.iteration import iteration_of

_NUMBERS = ("len", "range", "int", "max", "min", "sum", "shape", "size")


class Part(NamedTuple):
    """Where something came from, and how it was taken out of that: `["x"]`, `#0` of several, `*0` of each sample."""

    source: int | str
    path: str = ""

    @property
    def is_of_sample(self) -> bool:
        return "*" in self.path

    def meets(self, other: Part) -> bool:
        return self.source == other.source and (self.path.startswith(other.path) or other.path.startswith(self.path))


class Rows(NamedTuple):
    parts: frozenset[Part] = frozenset()
    orders: frozenset[str] = frozenset()

    def __or__(self, other: Rows) -> Rows:
        return Rows(self.parts | other.parts, self.orders | other.orders)

    def taken(self, path: str) -> Rows:
        return Rows(frozenset(Part(each.source, each.path + path) for each in self.parts), self.orders)

    def is_apart_from(self, other: Rows) -> bool:
        pairs = ((one, two) for one in self.parts for two in other.parts)
        return bool(self.parts and other.parts) and not any(one.meets(two) for one, two in pairs)


NOTHING = Rows()


class RowOrigins:
    """The values of a function, line by line. `moved`: where rows are first put into each of the orders."""

    def __init__(self, scope: ast.AST, nodes: list[ast.AST], orders: list[str]) -> None:
        self.orders = frozenset(orders)
        self.moved: dict[str, ast.expr] = {}
        self._held: dict[str, list[tuple[int, Rows]]] = {}
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            for arg in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
                self._held[arg.arg] = [(0, Rows(frozenset([Part(arg.arg)])))]
        lines = [node for node in nodes if isinstance(node, ast.Assign | ast.For)]
        for line in sorted(lines, key=lambda line: line.lineno):
            if isinstance(line, ast.For):
                self._bring(line)
                continue
            for target, value in assigned(line):
                self._bind(line, target, value)

    def at(self, node: ast.expr, place: ast.AST) -> Rows:
        """What an expression holds where it stands."""
        return self._of(node, getattr(place, "lineno", 0), {})

    def _bring(self, loop: ast.For) -> None:
        """`row, tokens` of `for row, tokens in enumerate(texts)`."""
        turn = iteration_of(loop)
        over = self._of(turn.over, loop.lineno, {})
        if isinstance(turn.brought, ast.Name) and over.parts:
            self._put(loop, turn.brought, over)

    def _bind(self, line: ast.Assign, target: ast.expr, value: ast.expr) -> None:
        whole = self._of(value, line.lineno, {})
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            self._put(line, target.value, self._of(target.value, line.lineno, {}) | whole)
        elif isinstance(target, ast.Name):
            self._put(line, target, whole if whole.parts else Rows(frozenset([Part(id(line), f"#{target.id}")])))
        elif isinstance(target, ast.Tuple):
            for place, part in enumerate(target.elts):
                if isinstance(part, ast.Name):
                    self._put(line, part, self._item(line, value, whole, place))

    def _item(self, line: ast.Assign, value: ast.expr, whole: Rows, place: int) -> Rows:
        """What the item at a place holds of several that a line unpacks."""
        if isinstance(value, ast.Call) and last_name(value.func) == "sort":
            target = line.targets[0]
            order = last_name(target.elts[1]) if isinstance(target, ast.Tuple) else ""
            return Rows(whole.parts, whole.orders | {order}) if order in self.orders else whole
        if "zip(*" in ast.unparse(value):
            return whole.taken(f"*{place}")
        return whole.taken(f"#{place}") if whole.parts else Rows(frozenset([Part(id(line), f"#{place}")]))

    def _put(self, line: ast.stmt, name: ast.Name, rows: Rows) -> None:
        if name.id not in self.orders:
            self._held.setdefault(name.id, []).append((line.lineno, rows))

    def _of(self, node: ast.AST, line: int, local: dict[str, Rows]) -> Rows:
        match node:
            case ast.Name(id=name):
                held = [rows for where, rows in self._held.get(name, ()) if where < line]
                return local[name] if name in local else held[-1] if held else NOTHING
            case ast.Attribute(value=owner, attr=name):
                return NOTHING if name in _NUMBERS else self._of(owner, line, local).taken(f".{name}")
            case ast.Subscript(value=owner, slice=index):
                return self._of_subscript(node, owner, index, line, local)
            case ast.Call(func=func, args=given):
                return self._of_call(node, func, given, line, local)
            case ast.ListComp() | ast.GeneratorExp() if len(node.generators) == 1:
                return self._of_turns(node, node.generators[0], line, local)
            case ast.Lambda() | ast.Constant():
                return NOTHING
        rows = NOTHING
        for inner in ast.iter_child_nodes(node):
            rows |= self._of(inner, line, local)
        return rows

    def _of_subscript(
        self, node: ast.Subscript, owner: ast.expr, index: ast.expr, line: int, local: dict[str, Rows]
    ) -> Rows:
        rows, index = (
            self._of(owner, line, local),
            index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index,
        )
        if isinstance(index, ast.Name) and index.id in self.orders:
            return self._move(node, rows, index.id)
        return rows.taken(f"[{index.value!r}]") if isinstance(index, ast.Constant) else rows

    def _of_call(
        self, node: ast.Call, func: ast.expr, given: list[ast.expr], line: int, local: dict[str, Rows]
    ) -> Rows:
        if last_name(func) in _NUMBERS:
            return NOTHING
        rows = self._of(func.value, line, local) if isinstance(func, ast.Attribute) else NOTHING
        for arg in (*given, *(word.value for word in node.keywords)):
            rows |= self._of(arg, line, local)
        index = given[-1] if given and last_name(func) == "index_select" else None
        return self._move(node, rows, index.id) if isinstance(index, ast.Name) and index.id in self.orders else rows

    def _of_turns(
        self, node: ast.ListComp | ast.GeneratorExp, turn: ast.comprehension, line: int, local: dict[str, Rows]
    ) -> Rows:
        if isinstance(turn.iter, ast.Name) and turn.iter.id in self.orders:
            if isinstance(node.elt, ast.Subscript) and ast.unparse(node.elt.slice) == ast.unparse(turn.target):
                return self._move(node, self._of(node.elt.value, line, local), turn.iter.id)
        over = self._of(turn.iter, line, local)
        parts = turn.target.elts if isinstance(turn.target, ast.Tuple) else []
        brought = {part.id: over.taken(f"*{place}") for place, part in enumerate(parts) if isinstance(part, ast.Name)}
        if isinstance(turn.target, ast.Name):
            brought[turn.target.id] = over.taken("*") if _takes_part(node.elt, turn.target.id) else over
        rows = self._of(node.elt, line, {**local, **brought})
        return rows if rows.parts else over

    def _move(self, node: ast.expr, rows: Rows, order: str) -> Rows:
        self.moved.setdefault(order, node)
        return Rows(rows.parts, rows.orders | {order})


def _takes_part(node: ast.expr, name: str) -> bool:
    """`each[0]` and `each["text"]`, perhaps among other things."""
    return any(
        isinstance(part, ast.Subscript) and is_name(part.value, name) and isinstance(part.slice, ast.Constant)
        for part in ast.walk(node)
    )
