"""What names can mean, and the sites rules look at: calls, classes, functions, each with the file it stands in."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar, cast

from mlcheck.core.dataclasses import dataclass
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import grouped, walk
from mlcheck.lint.sites.scopes import AttributeSet, Context, Defined

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

N = TypeVar("N", bound=ast.AST)
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Unknown:
    """A value that the text does not tell. Equal to nothing, not even to itself."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


UNKNOWN: Final = Unknown()
OPEN: Final = ast.Name("*", ast.Load())
"""Stands for an argument that may or may not be given: `f(**options)`."""


@dataclass(frozen=True, slots=True)
class ProjectModule:
    """A module of the project, or a folder of such."""

    name: str


@dataclass(eq=False)
class Function:
    """A function or method of the project. `cls` is the class it is a method of."""

    file: File
    defined: Defined
    cls: Class | None = None

    @cached_property
    def node(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        assert isinstance(self.defined.node, FUNCTIONS)
        return self.defined.node

    @property
    def name(self) -> str:
        return self.defined.node.name

    @property
    def inner(self) -> Context:
        return self.defined.inner

    @property
    def text(self) -> str:
        """All lines it stands on."""
        return self.file.module.text_of(self.node)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Itself and all that stands in it."""
        return walk(self.node)

    def all(self, kind: type[N]) -> list[N]:
        """What stands in it of a kind, in the order of `nodes`."""
        return cast(list[N], self._by_kind.get(kind.__name__, []))

    @cached_property
    def _by_kind(self) -> dict[str, list[ast.AST]]:
        return grouped(self.nodes)

    @cached_property
    def parameters(self) -> dict[str, ast.expr | None]:
        """Names of all parameters, in order, with their defaults."""
        args = self.node.args
        positional = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(args.defaults)), *args.defaults]
        found = {arg.arg: default for arg, default in zip(positional, defaults, strict=True)}
        found.update((arg.arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True))
        return found

    @cached_property
    def receiver(self) -> str:
        """The name of `self`; "" where there is none."""
        positional = [*self.node.args.posonlyargs, *self.node.args.args]
        decorated = {node.id for node in self.node.decorator_list if isinstance(node, ast.Name)}
        return positional[0].arg if self.cls and positional and "staticmethod" not in decorated else ""

    def place(self, node: ast.AST | None = None) -> Place:
        return self.file.place(node or self.node, self.inner if node is not None else self.defined.context)


@dataclass(eq=False)
class Class:
    """A class of the project. Its bases are resolved across files."""

    file: File
    defined: Defined

    @property
    def node(self) -> ast.ClassDef:
        assert isinstance(self.defined.node, ast.ClassDef)
        return self.defined.node

    @property
    def name(self) -> str:
        return self.defined.node.name

    @property
    def text(self) -> str:
        """All lines it stands on."""
        return self.file.module.text_of(self.node)

    @property
    def place(self) -> Place:
        return self.file.place(self.node, self.defined.context)

    @cached_property
    def methods(self) -> dict[str, Function]:
        """Its own methods, also those under `if`; the last of a name counts."""
        return self.file.methods.get(self, {})

    @cached_property
    def bases(self) -> tuple[str | Class | None, ...]:
        """What it derives from directly: a library class by its name, a project class, None where not known.

        While that is looked up it derives from nothing: `class Net(Net.Base)` asks for itself.
        """
        self.__dict__["bases"] = ()
        found: list[str | Class | None] = []
        for base in self.node.bases:
            expr = base.value if isinstance(base, ast.Subscript) else base
            named = self.file.resolve(expr, self.defined.context)
            found.append(named if isinstance(named, str | Class) else None)
        self.__dict__.pop("line", None)  # as it was found meanwhile
        return tuple(found)

    @cached_property
    def line(self) -> tuple[Class, ...]:
        """This class and the project classes above it, depth first."""
        found: list[Class] = []
        todo: list[Class] = [self]
        while todo:
            cls = todo.pop(0)
            if cls not in found:
                found.append(cls)
                todo = [base for base in cls.bases if isinstance(base, Class)] + todo
        return tuple(found)

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Names of the library classes it derives from, near or far; `?` where a base is not known."""
        return frozenset(
            base if isinstance(base, str) else "?"
            for cls in self.line
            for base in cls.bases
            if not isinstance(base, Class)
        )

    def find(self, name: str) -> Function | None:
        """The method of that name, its own or of the nearest project class above it."""
        return next((cls.methods[name] for cls in self.line if name in cls.methods), None)

    @cached_property
    def attributes(self) -> dict[str, list[tuple[Function, AttributeSet]]]:
        """`self.name = ...` in its own methods, by name, in the order of the text."""
        return self.file.attributes.get(self, {})

    def attribute(self, name: str) -> list[tuple[Function, AttributeSet]]:
        """All assignments of `self.name`, in this class and in those above it."""
        return [found for cls in self.line for found in cls.attributes.get(name, ())]


Named = str | Class | Function | ProjectModule | None


@dataclass(eq=False)
class Call:
    """A call. `name` is the callee's full name as imported (`torch.utils.data.DataLoader`), "" where not known.

    `preset` are the keyword arguments of the `functools.partial` that is called.
    """

    file: File
    node: ast.Call
    context: Context
    name: str = ""
    preset: tuple[ast.keyword, ...] = ()

    @property
    def place(self) -> Place:
        return self.file.place(self.node, self.context)

    @property
    def owner(self) -> ast.expr | None:
        """`x` of `x.step()`; None where a plain name is called."""
        return self.node.func.value if isinstance(self.node.func, ast.Attribute) else None

    @cached_property
    def function(self) -> Function | None:
        """The function or method around it; None at the top level of a module or class."""
        return self.file.function_around(self.context)

    @cached_property
    def cls(self) -> Class | None:
        """The class around it."""
        return self.file.class_around(self.context)

    @property
    def loops(self) -> list[Context]:
        """The loops around it within its function, innermost first."""
        found = []
        for context in self.context.outwards():
            if context.kind in ("function", "lambda", "class"):
                break
            if context.kind == "loop":
                found.append(context)
        return found

    def argument(self, name: str, position: int | None = None) -> ast.expr | None:
        """The expression given for a parameter; None where it is not given, OPEN where it may be."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        starred = any(isinstance(arg, ast.Starred) for arg in self.node.args)
        if position is not None and not starred and 0 <= position < len(self.node.args):
            return self.node.args[position]
        if position is not None and starred:
            return OPEN
        for keyword in self.node.keywords:
            if keyword.arg is None:
                given = self.file.item_of(keyword.value, self.context, name)
                if given is OPEN:
                    given = self.file.given(keyword.value, self.context, name)
                if given is not None:
                    return given
        return next((keyword.value for keyword in self.preset if keyword.arg == name), None)

    def constant(self, name: str, position: int | None = None, default: Hashable = None) -> object:
        """The constant given for a parameter, `default` where none is given, UNKNOWN where it cannot be told."""
        given = self.argument(name, position)
        return default if given is None else self.file.constant(given, self.context)

    def names(self) -> Iterator[str]:
        """Names of the keyword arguments."""
        return (keyword.arg for keyword in (*self.node.keywords, *self.preset) if keyword.arg)
