"""One file, walked when first asked: what its names mean, and the constants they hold."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from mlcheck.lint.facts import Place
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import walk
from mlcheck.lint.program import ModuleInfo
from mlcheck.lint.relevance import is_test
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call, Class, Function, Named, ProjectModule
from mlcheck.lint.sites.scopes import AttributeSet, Binding, Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.project import Sites
    from mlcheck.lint.sites.walk import Walk

_DEPTH = 12
_FEW = 8
_BUILTINS = frozenset(dir(builtins))
_STARRED = ("torch.nn.functional", "torch.nn", "torch.optim", "torch.utils.data", "torch")


class File:
    """A file of the project. All look-ups take the Context that the expression stands in."""

    def __init__(self, sites: Sites, module: ModuleInfo, name: str) -> None:
        self.sites, self.module, self.name = sites, module, name
        self.path, self.text = module.source.path, module.source.text
        self._meanings: dict[tuple[int, int], Named] = {}

    @cached_property
    def is_test(self) -> bool:
        """A test file: what stands there may be wrong on purpose."""
        return is_test(self.module)

    @property
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
            if function is not None and isinstance(owner, ast.Name) and owner.id == function.receiver:
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
        """The paths of the project's files that this one imports from."""
        found = set()
        for bindings in self.walk.module.scope.bindings.values():
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

    def resolve(self, node: ast.AST | None, context: Context, depth: int = _DEPTH) -> Named:
        """What a name or a dotted name stands for: a library object by its full name, or a part of the project."""
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value, context, depth)
            if isinstance(owner, str):
                return f"{owner}.{node.attr}"
            if isinstance(owner, ProjectModule):
                return self.sites.member(owner, node.attr, depth)
            if isinstance(owner, Class):
                return owner.find(node.attr)
            return self._method(node, context) or self._of_instance(node, context, depth)
        if not isinstance(node, ast.Name) or depth <= 0:
            return None
        bindings = self.bindings(node.id, context)
        if not bindings:
            return self.starred(node.id, depth) or (f"builtins.{node.id}" if node.id in _BUILTINS else None)
        key = id(bindings), depth
        if key not in self._meanings:
            self._meanings[key] = self._agreed(bindings, depth)
        return self._meanings[key]

    def _agreed(self, bindings: list[Binding], depth: int) -> Named:
        """What all the bindings of a name make of it, if it is one thing.

        The first that makes nothing of it decides: `node = node.parent` leads back to the name itself.
        """
        if len(bindings) > 1:
            bindings = _with_fallbacks(bindings)
        first: Named = None
        for number, binding in enumerate(bindings if len(bindings) <= _FEW else ()):
            found = self.meaning(binding, depth)
            if found is None or (number and found != first):
                return None
            first = found
        return first

    def _method(self, node: ast.Attribute, context: Context) -> Named:
        """`self.method`, and `super().method` in the classes of the project."""
        function = self.method_around(context)
        if function is not None and isinstance(node.value, ast.Name) and node.value.id == function.receiver:
            return function.cls.find(node.attr) if function.cls else None
        return None

    def _of_instance(self, node: ast.Attribute, context: Context, depth: int) -> Named:
        """`engine.fit`, where `engine` is made once, of a class of the project; `Engine(...).fit`."""
        made: ast.AST | None = node.value
        if isinstance(made, ast.Name) and depth > 0:
            bindings = self.bindings(made.id, context)
            binding = bindings[0] if len(bindings) == 1 and bindings[0].kind in ("value", "item") else None
            made, context = (binding.value, binding.context) if binding is not None else (None, context)
            if binding is not None and isinstance(made, ast.Tuple | ast.List) and 0 <= binding.item < len(made.elts):
                made = made.elts[binding.item]
        if not isinstance(made, ast.Call) or depth <= 0:
            return None
        cls = self.resolve(made.func, context, depth - 1)
        return cls.find(node.attr) if isinstance(cls, Class) else None

    def meaning(self, binding: Binding, depth: int = _DEPTH) -> Named:
        """What one binding makes of its name."""
        if binding.kind in ("def", "class"):
            return self.definitions.get(binding.node)
        if binding.kind == "value" and isinstance(binding.value, ast.Name | ast.Attribute):
            return self.resolve(binding.value, binding.context, depth - 1)
        if binding.kind == "import" and isinstance(binding.value, ast.alias):
            alias = binding.value
            found = self.sites.program.resolve(alias.name, self.name)
            if alias.asname:
                return ProjectModule(found) if found else alias.name
            top = alias.name.partition(".")[0]
            return ProjectModule(found[: len(found) - len(alias.name) + len(top)]) if found else top
        if binding.kind == "from" and isinstance(binding.value, ast.alias):
            assert isinstance(binding.node, ast.ImportFrom)
            return self.sites.imported(self, binding.node, binding.value.name, depth - 1)
        return None

    def starred(self, name: str, depth: int) -> Named:
        """A name that only a `from x import *` can have brought."""
        for node, source in self._stars:
            if node.level == 0 and node.module in _STARRED and name not in _BUILTINS:
                return f"{node.module}.{name}"
            if source is not None and name in source.names:
                found = self.sites.imported(self, node, name, depth - 1)
                if found is not None and not isinstance(found, str):
                    return found
        return None

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
        return any(node.module in _STARRED for file in self._passed_on for node, source in file._stars if not source)

    @cached_property
    def _passed_on(self) -> set[File]:
        """It and the files whose names it passes on by star imports, near or far."""
        found, todo = {self}, [self]
        while todo:
            more = {source for _, source in todo.pop()._stars if source is not None} - found
            found |= more
            todo.extend(more)
        return found

    @cached_property
    def _stars(self) -> list[tuple[ast.ImportFrom, File | None]]:
        """Its star imports, with the file of the project that each takes all names from."""
        return [(node, self.sites.files.get(self.sites.source_of(self, node) or "")) for node in self.walk.stars]

    def value(self, node: ast.expr, context: Context, depth: int = _DEPTH) -> tuple[ast.expr, Context]:
        """The expression that a name or `self.attribute` holds, where it is assigned once; else the node itself."""
        while depth > 0:
            depth -= 1
            if isinstance(node, ast.Name):
                bindings = self.bindings(node.id, context)
                if len(bindings) != 1 or bindings[0].kind != "value" or not isinstance(bindings[0].value, ast.expr):
                    break
                node, context = bindings[0].value, bindings[0].context
            elif isinstance(node, ast.Attribute) and (held := self.held(node, context)):
                node, context = held
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            else:
                break
        return node, context

    def held(self, node: ast.Attribute, context: Context) -> tuple[ast.expr, Context] | None:
        """What `self.attribute` holds, where the class assigns it once, in this file."""
        function = self.function_around(context)
        if function is None or function.cls is None or not isinstance(node.value, ast.Name):
            return None
        if node.value.id != function.receiver:
            return None
        found = function.cls.attribute(node.attr)
        if len(found) != 1 or found[0][1].value is None or found[0][0].file is not self:
            return None
        return found[0][1].value, found[0][1].context

    def is_mutated(self, name: str, context: Context) -> bool:
        """Whether anything in the file changes the contents of what the name holds."""
        bindings = self.bindings(name, context)
        return any(self.bindings(name, where) is bindings for _, where in self.walk.mutations.get(name, ()))

    def _may_change(self, name: str, context: Context, key: str) -> bool:
        """Whether something may set or take away this key of the dictionary that the name holds."""
        bindings = self.bindings(name, context)
        changed: set[object] = set()
        for node, where in self.walk.mutations.get(name, ()):
            if self.bindings(name, where) is not bindings:
                continue
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                changed.add(node.slice.value)
                continue
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "update":
                return True
            if any(keyword.arg is None for keyword in node.keywords):
                return True
            changed.update(keyword.arg for keyword in node.keywords)
            for given in (self.value(arg, where)[0] for arg in node.args):
                if not isinstance(given, ast.Dict) or not all(isinstance(part, ast.Constant) for part in given.keys):
                    return True
                changed.update(part.value for part in given.keys if isinstance(part, ast.Constant))
        return key in changed

    def item_of(self, node: ast.expr, context: Context, key: str) -> ast.expr | None:
        """`node[key]` of a dictionary written out; None where it has no such key, OPEN where it cannot be told."""
        if isinstance(node, ast.Name) and self.is_mutated(node.id, context) and self._may_change(node.id, context, key):
            return OPEN
        found, where = self.value(node, context)
        if isinstance(found, ast.Call) and self.resolve(found.func, where) == "builtins.dict" and not found.args:
            given = {keyword.arg: keyword.value for keyword in found.keywords}
            return OPEN if None in given else given.get(key)
        if not isinstance(found, ast.Dict):
            return OPEN
        for name, value in zip(found.keys, found.values, strict=True):
            if name is None or not isinstance(name, ast.Constant):
                return OPEN
            if name.value == key:
                return value
        return None

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
            if isinstance(node.slice.value, str):
                item = self.item_of(node.value, context, node.slice.value)
                return self.constant(item, self.value(node.value, context)[1]) if item is not None else UNKNOWN
        return UNKNOWN

    def calls(self, *last: str) -> list[Call]:
        """Calls of anything that is called so, in the order of the text; their names are not resolved."""
        found = [(node, context) for name in last for node, context in self.walk.calls.get(name, ())]
        found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset))
        return [Call(self, node, context) for node, context in found]


def _with_fallbacks(bindings: list[Binding]) -> list[Binding]:
    """Of several bindings, the one that counts: the import where the others stand in for it in the same `try`."""
    tried = {binding.context.node for binding in bindings if binding.context.kind == "try"}
    imports = [binding for binding in bindings if binding.kind in ("import", "from")]
    if len(tried) == 1 and imports and all(binding.context.kind == "try" for binding in bindings):
        return imports[:1]
    return bindings
