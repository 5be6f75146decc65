"""The program as a whole: its modules, classes and functions, and which of them can matter to a rule."""

from __future__ import annotations

import ast
import sys
from array import array
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.patterns import pattern
from mlcheck.lint.files.source import Source
from mlcheck.lint.nodes import is_name
from mlcheck.lint.values import Class, External, Value

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False, slots=True)
class FunctionInfo:
    node: FunctionNode
    module: ModuleInfo
    cls: ClassInfo | None
    qualname: str
    generator: bool = False
    _straight: bool | None = None

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    @property
    def scope(self) -> Hashable:
        """The scope around the class of a method; None for any other function."""
        return self.cls.scope if self.cls is not None else None

    @property
    def straight(self) -> bool:
        """Whether it returns nowhere but at its end: then nothing has to be joined."""
        if self._straight is None:
            body = [] if isinstance(self.node, ast.Lambda) else self.node.body
            last = body[-1:] if body and isinstance(body[-1], ast.Return) else []
            self._straight = not any(_returns(node) for node in body[: len(body) - len(last)])
        return self._straight

    @property
    def abstract(self) -> bool:
        """Whether it is a method that only says that a subclass has it: then what it does is not known."""
        body = [] if isinstance(self.node, ast.Lambda) or self.cls is None else self.node.body
        said = [node for node in body if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant)]
        if len(said) != 1 or not isinstance(said[0], ast.Raise) or said[0].exc is None:
            return False
        raised = said[0].exc.func if isinstance(said[0].exc, ast.Call) else said[0].exc
        return is_name(raised, "NotImplementedError")


def _returns(node: ast.stmt) -> bool:
    todo: list[ast.AST] = [node]
    while todo:
        inner = todo.pop()
        if isinstance(inner, ast.Return):
            return True
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(inner, _DEFINITIONS):
            for name in ("body", "orelse", "handlers", "finalbody", "cases"):
                todo.extend(getattr(inner, name, ()))
    return False


_GIVEN = r"(?:(?<=\bin self\.)|(?<=\bin \(self\.)|(?<=\w\(self\.))"
_HANDLED = pattern(rf"self\.(?:{_GIVEN}(\w+)\b(?! ?[*/%<>-])|(?<=\bself\.)(?=\w+ ?[\[(.])(\w+))")
_WITH_LAYERS = pattern(r"\btorch\.nn\b|\bfrom torch import[^\n]*\bnn\b")
_NO_MODULES = sys.stdlib_module_names | {"?", "torch", "builtins", "numpy"}


@dataclass(eq=False)
class ClassInfo:
    node: ast.ClassDef
    module: ModuleInfo
    qualname: str
    bases: tuple[Value, ...] = ()
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    assigned: dict[str, ast.expr | None] = field(default_factory=dict)
    annotated: set[str] = field(default_factory=set)
    scope: Hashable = None
    dataclass: bool = False

    @cached_property
    def mro(self) -> tuple[ClassInfo, ...]:
        """Project classes from this one up, depth first."""
        found: list[ClassInfo] = []
        todo = [self]
        while todo:
            info = todo.pop(0)
            if info not in found:
                found.append(info)
                todo = [base.info for base in info.bases if isinstance(base, Class)] + todo
        return tuple(found)

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Qualified names of the library classes it derives from; `?` for a base that is not known."""
        names = set()
        for info in self.mro:
            for base in info.bases:
                if isinstance(base, External):
                    names.add(base.name)
                elif not isinstance(base, Class):
                    names.add("?")
        return frozenset(names)

    @cached_property
    def has_foreign_forward(self) -> bool:
        """Whether it is a module by all appearances: `class Net(ME.MinkowskiNetwork)` with a `forward`, beside `nn`."""
        homes = {name.partition(".")[0] for name in self.libraries}
        if homes <= _NO_MODULES or self.find("forward") is None:
            return False
        return _WITH_LAYERS.search(self.module.source.text) is not None

    @cached_property
    def handled(self) -> frozenset[str]:
        """The attributes that its code calls, picks from, goes through, or hands on first: any may be a module."""
        texts = (info.module.text_of(info.node) for info in self.mro)
        return frozenset(name for text in texts for names in _HANDLED.findall(text) for name in names)

    def find(self, name: str, after: ClassInfo | None = None) -> FunctionInfo | None:
        """The method of that name, along the bases; with `after`, only past that class."""
        line = self.mro
        if after is not None and after in line:
            line = line[line.index(after) + 1 :]
        for info in line:
            if name in info.methods:
                return info.methods[name]
        return None


@dataclass(eq=False)
class ModuleInfo:
    source: Source

    @property
    def name(self) -> str:
        return self.source.module

    @cached_property
    def _starts(self) -> array[int]:
        """Where each line begins, and where one behind the last would."""
        lengths = (len(line) + 1 for line in self.source.text.split("\n"))
        return array("L", accumulate(lengths, initial=0))

    def text_of(self, node: ast.stmt | ast.expr) -> str:
        """All lines it stands on."""
        return self.source.code[self._starts[node.lineno - 1] : self._starts[node.end_lineno or node.lineno] - 1]


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def walk_definitions(body: Sequence[ast.stmt]) -> Iterator[tuple[Definition, ast.ClassDef | None]]:
    """Functions and classes of a module, and methods with their class, also those under `if` and `try`."""
    todo: list[tuple[Sequence[ast.stmt], ast.ClassDef | None]] = [(body, None)]
    while todo:
        statements, owner = todo.pop()
        for node in statements:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node, owner
                if isinstance(node, ast.ClassDef):
                    todo.append((node.body, node))
            elif isinstance(node, ast.If | ast.Try | ast.With):
                todo.append((node.body, owner))
                if not isinstance(node, ast.With):
                    todo.append((node.orelse, owner))
                if isinstance(node, ast.Try):
                    todo.extend((handler.body, owner) for handler in node.handlers)


# Libraries, each with a module that it has and a folder that is merely called like it has not.
_LIBRARIES = {
    "torch": "torch.nn",
    "torchvision": "torchvision.models",
    "torchaudio": "torchaudio.functional",
    "numpy": "numpy.linalg",
    "transformers": "transformers.models",
    "lightning": "lightning.pytorch",
    "accelerate": "accelerate.accelerator",
}


class Program:
    """All modules under analysis, found by the names their imports use.

    `called_elsewhere` are names of functions that files outside of it call.
    """

    def __init__(self, sources: Sequence[Source], called_elsewhere: frozenset[str] = frozenset()) -> None:
        self.called_elsewhere = called_elsewhere
        self.modules: dict[str, ModuleInfo] = {}
        self._by_last: dict[str, list[str]] = {}
        for source in sources:
            name = source.module or source.path
            if name in self.modules:
                name = source.path
            self.modules[name] = ModuleInfo(source)
            self._by_last.setdefault(name.rpartition(".")[2], []).append(name)
        self._names = {id(info): name for name, info in self.modules.items()}
        self._resolved: dict[tuple[str, str], str | None] = {}

    @cached_property
    def folders(self) -> frozenset[str]:
        """The dotted names under which there are modules."""
        parts = (name.split(".") for name in self.modules)
        return frozenset(".".join(those[:number]) for those in parts for number in range(1, len(those)))

    def name_of(self, module: ModuleInfo) -> str:
        return self._names[id(module)]

    def resolve(self, name: str, importer: str) -> str | None:
        """The project module that `name` means in `importer`: absolute, beside it, or the only one so called."""
        key = (name, importer)
        if key not in self._resolved:
            self._resolved[key] = self._search(name, importer)
        return self._resolved[key]

    def _search(self, name: str, importer: str) -> str | None:
        part = _LIBRARIES.get(name.partition(".")[0], "")
        if part and not (name in self.modules and part in self.modules):
            # `utils/torch.py` of the project is not what `import torch` means.
            return None
        prefix = importer
        while prefix:
            prefix = prefix.rpartition(".")[0]
            candidate = f"{prefix}.{name}" if prefix else name
            if candidate in self.modules and candidate != importer:
                return candidate
        if name in self.modules and name != importer:
            return name
        ends = [n for n in self._by_last.get(name.rpartition(".")[2], ()) if n.endswith("." + name) and n != importer]
        return ends[0] if len(ends) == 1 else None

    def relative(self, module: ModuleInfo, level: int, name: str | None) -> str:
        """The absolute name of a relative import."""
        parts = self.name_of(module).split(".")
        drop = level - 1 if module.source.package else level
        base = parts[: len(parts) - drop] if drop else parts
        return ".".join([*base, name] if name else base)
