"""One file, walked when first asked: what its names mean, and the constants they hold."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from mlcheck.lint.facts import Place
from mlcheck.lint.interpret.relevance import is_test
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, own_nodes, walk
from mlcheck.lint.program import ModuleInfo
from mlcheck.lint.sites.holdings import held_by, is_changed, item_in, part_at, value_of
from mlcheck.lint.sites.meanings import STARRED, by_star, meaning_of, resolved
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call, Class, Function, Named, ProjectModule
from mlcheck.lint.sites.scopes import AttributeSet, Binding, Context
from mlcheck.lint.sites.settings import handed, setting

if TYPE_CHECKING:
    from mlcheck.lint.sites.project import Sites
    from mlcheck.lint.sites.walk import Walk


class File:
    """A file of the project. All look-ups take the Context that the expression stands in."""

    def __init__(self, sites: Sites, module: ModuleInfo, name: str) -> None:
        self.sites, self.module, self.name = sites, module, name
        self.path, self.text = module.source.path, module.source.code
        self.meant: dict[tuple[int, int], Named] = {}

    resolve = resolved
    meaning = meaning_of
    starred = by_star

    value = value_of
    held = held_by
    is_mutated = is_changed
    item_of = item_in

    @cached_property
    def is_test(self) -> bool:
        """A test file: what stands there may be wrong on purpose."""
        return is_test(self.module)

    @cached_property
    def walk(self) -> Walk:
        return self.module.source.walk

    def place(self, node: ast.AST, context: Context) -> Place:
        names = [
            outer.node.name
            for outer in context.outwards()
            if isinstance(outer.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        return Place(self.path, node, ".".join(reversed(names)))

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        return tuple(found for found in self.definitions.values() if isinstance(found, Class))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """All functions and methods, nested ones too."""
        return tuple(found for found in self.definitions.values() if isinstance(found, Function))

    @cached_property
    def definitions(self) -> dict[ast.AST, Class | Function]:
        """The class or function that each definition's node makes."""
        found: dict[ast.AST, Class | Function] = {}
        for defined in self.walk.defined:
            if isinstance(defined.node, ast.ClassDef):
                found[defined.node] = Class(self, defined)
            else:
                around = next((c for c in defined.context.outwards() if c.kind not in ("if", "try", "with")), None)
                owner = found.get(around.node) if around is not None and around.kind == "class" else None
                found[defined.node] = Function(self, defined, owner if isinstance(owner, Class) else None)
        return found

    @cached_property
    def methods(self) -> dict[Class, dict[str, Function]]:
        """The methods of each class by name; of several so called the last counts."""
        found: dict[Class, dict[str, Function]] = {}
        for function in self.functions:
            if function.cls is not None:
                found.setdefault(function.cls, {})[function.name] = function
        return found

    @cached_property
    def attributes(self) -> dict[Class, dict[str, list[tuple[Function, AttributeSet]]]]:
        """What the methods of each class assign to attributes of `self`, by name."""
        found: dict[Class, dict[str, list[tuple[Function, AttributeSet]]]] = {}
        for assigned in self.walk.attributes:
            function, owner = self.method_around(assigned.context), assigned.target.value
            if function is not None and is_name(owner, function.receiver):
                assert function.cls is not None
                found.setdefault(function.cls, {}).setdefault(assigned.target.attr, []).append((function, assigned))
        return found

    def method_around(self, context: Context) -> Function | None:
        """The method around a place, past the functions defined inside it."""
        function = self.function_around(context)
        while function is not None and function.cls is None:
            function = self.function_around(function.defined.context)
        return function

    def function_around(self, context: Context) -> Function | None:
        for outer in context.outwards():
            if outer.kind == "function":
                found = self.definitions.get(outer.node)
                return found if isinstance(found, Function) else None
        return None

    def class_around(self, context: Context) -> Class | None:
        for outer in context.outwards():
            if outer.kind == "class":
                found = self.definitions.get(outer.node)
                return found if isinstance(found, Class) else None
        return None

    def scopes(self) -> Iterator[tuple[ast.AST, Context]]:
        """The module, then each function: the node, and the context of what stands in it."""
        yield self.module.source.tree, self.walk.module
        for function in self.functions:
            yield function.node, function.inner

    def nodes_in(self, scope: ast.AST) -> list[ast.AST]:
        """What stands in a scope and not in those defined in it, walked once for all who ask."""
        return self.sites.once_of(_nodes_in, scope)

    def called(self, node: ast.AST | None, context: Context) -> str:
        """The full name of the library's function or class that this calls; "" of all else."""
        named = self.resolve(node.func, context) if isinstance(node, ast.Call) else None
        return canonical(named) if isinstance(named, str) else ""

    @cached_property
    def statements(self) -> frozenset[ast.expr]:
        """The expressions that are statements of their own: what they come to is dropped."""
        return frozenset(self.walk.statements)

    @cached_property
    def uses(self) -> Counter[str]:
        """How often each name is read, called or handed on; of `name.x` only the `x`."""
        counts: Counter[str] = Counter()
        for node in walk(self.module.source.tree):
            if isinstance(node, ast.Attribute):
                counts[node.attr] += 1
                if isinstance(node.value, ast.Name):
                    counts[node.value.id] -= 1
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                counts[node.id] += 1
        return counts

    @cached_property
    def imports(self) -> frozenset[str]:
        """The paths of the project's files that this one imports from, within functions too."""
        found = set()
        scopes = [self.walk.module.scope, *(defined.inner.scope for defined in self.walk.defined)]
        for bindings in (each for scope in scopes for each in scope.bindings.values()):
            for binding in bindings:
                named = self.meaning(binding) if binding.kind in ("import", "from") else None
                if isinstance(named, Class | Function):
                    found.add(named.file.path)
                elif isinstance(named, ProjectModule) and named.name in self.sites.files:
                    found.add(self.sites.files[named.name].path)
        return frozenset(found)

    @cached_property
    def _targets(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, tuple[str, ...]] = {}
        scopes = [self.walk.module.scope, *(defined.inner.scope for defined in self.walk.defined)]
        for scope in scopes:
            for name, bindings in scope.bindings.items():
                for binding in bindings:
                    if binding.kind == "value" and binding.value is not None:
                        found[id(binding.value)] = (*found.get(id(binding.value), ()), name)
        for assigned in self.walk.attributes:
            if assigned.value is not None:
                found[id(assigned.value)] = (*found.get(id(assigned.value), ()), assigned.target.attr)
        return found

    def names_given(self, node: ast.expr) -> tuple[str, ...]:
        """The names and attributes that the value of an expression is assigned to, right where it stands."""
        return self._targets.get(id(node), ())

    def bindings(self, name: str, context: Context) -> list[Binding]:
        """All bindings of the name in the scope that `context` finds it in; none where it is not bound."""
        scope, inside = context.scope, True
        if name in scope.globals:
            return self.walk.module.scope.bindings.get(name, [])
        while True:
            if (scope.kind != "class" or inside) and name in scope.bindings:
                return scope.bindings[name]
            if scope.outer is None:
                return []
            scope, inside = scope.outer, False

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that others may find in it, also through its star imports: a package may pass on thousands.

        Without it, a look-up would go through hundreds of files for each name.
        """
        found: set[str] = set()
        for file in self._passed_on:
            found.update(file.walk.module.scope.bindings, self.sites.below.get(file.name, ()))
        return frozenset(found)

    @cached_property
    def hands_on_torch(self) -> bool:
        """Whether what it passes on by star imports comes from torch too: that may be any name."""
        return any(node.module in STARRED for file in self._passed_on for node, source in file.stars if not source)

    @cached_property
    def _passed_on(self) -> set[File]:
        """It and the files whose names it passes on by star imports, near or far."""
        found, todo = {self}, [self]
        while todo:
            more = {source for _, source in todo.pop().stars if source is not None} - found
            found |= more
            todo.extend(more)
        return found

    @cached_property
    def stars(self) -> list[tuple[ast.ImportFrom, File | None]]:
        """Its star imports, with the file of the project that each takes all names from."""
        return [(node, self.sites.files.get(self.sites.source_of(self, node) or "")) for node in self.walk.stars]

    def given(self, node: ast.expr, context: Context, name: str) -> ast.expr | None:
        """What `f(**node)` gives for a parameter, where `node` are settings; OPEN where the text does not tell."""
        return handed(self, node, context, name)

    def constant(self, node: ast.expr | None, context: Context) -> object:
        """The constant an expression comes to, or UNKNOWN."""
        if node is None or node is OPEN:
            return UNKNOWN
        node, context = self.value(node, context)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp):
            inner = self.constant(node.operand, context)
            if isinstance(node.op, ast.Not) and not isinstance(inner, type(UNKNOWN)):
                return not inner
            return -inner if isinstance(node.op, ast.USub) and isinstance(inner, int | float) else UNKNOWN
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if (part := part_at(self, node, node.slice.value, context)) is not None:
                return self.constant(part, self.value(node.value, context)[1])
            item = self.item_of(node.value, context, node.slice.value) if isinstance(node.slice.value, str) else OPEN
            if item is not OPEN:
                return self.constant(item, self.value(node.value, context)[1]) if item is not None else UNKNOWN
        found = setting(self, node, context)
        return found.file.constant(found.node, found.context) if found is not None else UNKNOWN

    def calls(self, *last: str) -> list[Call]:
        """Calls of anything that is called so, in the order of the text; their names are not resolved."""
        found = [(node, context) for name in last for node, context in self.walk.calls.get(name, ())]
        found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset))
        return [Call(self, node, context) for node, context in found]


def _nodes_in(scope: ast.AST) -> list[ast.AST]:
    return list(own_nodes(scope))
