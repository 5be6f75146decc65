"""The trial class that a config names, read without running it: hyperparameters asked for, metrics returned."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlcheck.lint.nodes import own_nodes

_EVALUATIONS = ("evaluate_batch", "evaluate_full_dataset")
_FRAMEWORK = "PyTorchTrial"


@dataclass(frozen=True)
class Read:
    """One call of `get_hparam` with a literal name, or of a batch size's getter, which reads `global_batch_size`.

    `always` says that it stands under no condition.
    """

    name: str
    path: str
    line: int
    column: int
    always: bool


@dataclass
class Module:
    """One parsed file of the project."""

    path: str
    tree: ast.Module

    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


@dataclass
class TrialCode:
    """`folder` is where the code of the config lies, `module` the file and `trial` the class that it starts.

    `modules` are the project's files that it is made of, the entry's own first; `bases` the classes from the trial
    up to the framework's, empty where one of them is not the project's.
    """

    folder: str
    module: Module
    trial: ast.ClassDef | None
    modules: list[Module] = field(default_factory=list)
    bases: list[tuple[Module, ast.ClassDef]] = field(default_factory=list)

    def reads(self) -> list[Read]:
        """Hyperparameters that the trial class and its bases ask for."""
        return [read for module, owner in self.bases for read in _reads(module.path, owner)]

    def asks_by_computed_name(self) -> bool:
        """Whether hyperparameters are asked for in a way that hides their names, or handed on all at once."""
        for module in self.modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Attribute) and node.attr in {"get_hparams", "hparams", "get_experiment_config"}:
                    return True
                if isinstance(node, ast.arg) and node.arg in {"hparams", "hp"}:
                    return True
                if is_get_hparam(node) and not literal_name(node):
                    return True
        return False

    def words(self) -> set[str]:
        """Every string, name and attribute in the project's files: a name that is in none of them is not used."""
        found: set[str] = set()
        for module in self.modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= {node.value, *node.value.replace("/", " ").replace(".", " ").split()}
                elif isinstance(node, ast.Attribute):
                    found.add(node.attr)
                elif isinstance(node, ast.Name):
                    found.add(node.id)
                elif isinstance(node, ast.keyword | ast.arg) and node.arg:
                    found.add(node.arg)
        return found

    def loads_with_pyyaml(self, file: str) -> set[str] | None:
        """The words that are made numbers where a module reads this file with PyYAML; None where none does."""
        for module in self.modules:
            nodes = list(ast.walk(module.tree))
            named = any(isinstance(n, ast.Constant) and str(n.value).endswith(file) for n in nodes)
            if named and any(_is_yaml_load(n) for n in nodes):
                return {word for n in nodes if _is_conversion(n) for word in _texts(n)}
        return None

    def metrics(self) -> tuple[set[str], ast.FunctionDef] | None:
        """What the evaluation returns, where all of it is written out; None where it is computed."""
        for _, owner in self.bases:
            if any(isinstance(node, ast.Attribute) and node.attr == "wrap_reducer" for node in ast.walk(owner)):
                return None
        for _, owner in self.bases:
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.name in _EVALUATIONS:
                    keys = _returned(node)
                    return (keys, node) if keys is not None else None
        return None


def read_trial(folder: str, module: str, name: str) -> TrialCode | None:
    """The code behind `module:name` in `folder`; None without such a file, or with one that cannot be parsed."""
    path = module_path(folder, module)
    entry = parsed(path) if path else None
    if entry is None:
        return None
    modules = _reachable(folder, entry)
    code = TrialCode(folder, entry, entry.classes().get(name), modules)
    code.bases = _bases(folder, entry, name) or []
    return code


def only_trial(folder: str, module: str) -> str:
    """The name of the one trial class of a file; empty where it has none or several."""
    path = module_path(folder, module)
    entry = parsed(path) if path else None
    names = [name for name in entry.classes() if _bases(folder, entry, name)] if entry else []
    return names[0] if len(names) == 1 else ""


def module_path(folder: str, module: str) -> str:
    """The file of a dotted module below `folder`, empty without one."""
    stem = os.path.join(folder, *module.split("."))
    return next((path for path in (f"{stem}.py", os.path.join(stem, "__init__.py")) if os.path.isfile(path)), "")


def parsed(path: str) -> Module | None:
    try:
        with open(path, "rb") as file:
            return Module(os.path.normpath(path), ast.parse(file.read()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def imports_of(module: Module) -> Iterator[tuple[str, str, str]]:
    """(module, name, alias) of what a file imports; relative imports by their last part."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.module or alias.name, alias.name, alias.asname or alias.name


def _reachable(folder: str, entry: Module) -> list[Module]:
    """The entry's file and the project's files that it imports, and they."""
    found = {entry.path: entry}
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        for source, name, _ in imports_of(module):
            for dotted in (source, f"{source}.{name}"):
                path = module_path(folder, dotted) or module_path(os.path.dirname(module.path), dotted)
                other = parsed(path) if path and os.path.normpath(path) not in found else None
                if other:
                    found[other.path] = other
                    waiting.append(other)
    return list(found.values())


def _bases(folder: str, module: Module, name: str) -> list[tuple[Module, ast.ClassDef]] | None:
    """The class and its bases up to the framework's; None where one of them cannot be found."""
    owner = module.classes().get(name)
    if owner is None or len(owner.bases) != 1:
        return None
    base = ast.unparse(owner.bases[0])
    if base.split(".")[-1] == _FRAMEWORK:
        return [(module, owner)]
    if base in module.classes():
        above = _bases(folder, module, base) if base != name else None
        return [(module, owner), *above] if above else None
    for source, imported, alias in imports_of(module):
        path = module_path(folder, source) if alias == base else ""
        other = parsed(path) if path else None
        above = _bases(folder, other, imported) if other else None
        if above:
            return [(module, owner), *above]
    return None


def is_get_hparam(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_hparam"


def _is_yaml_load(node: ast.AST) -> bool:
    """A call of PyYAML that reads numbers as numbers: its BaseLoader leaves every value a text."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"yaml.safe_load", "yaml.full_load", "yaml.load", "yaml.unsafe_load"}
        and "BaseLoader" not in ast.unparse(node)
    )


def _is_conversion(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"


def _texts(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def _is_batch_size(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"get_per_slot_batch_size", "get_global_batch_size"}
    )


def literal_name(node: ast.AST) -> str:
    assert isinstance(node, ast.Call)
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "name"), None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


_CONDITIONS = (ast.If, ast.IfExp, ast.Try, ast.BoolOp, ast.Match, ast.ExceptHandler, ast.While)


def _reads(path: str, owner: ast.AST, always: bool = True) -> Iterator[Read]:
    for node in ast.iter_child_nodes(owner):
        name = literal_name(node) if is_get_hparam(node) else "global_batch_size" if _is_batch_size(node) else ""
        if name:
            assert isinstance(node, ast.Call)
            yield Read(name, path, node.lineno, node.col_offset + 1, always)
        leaves = isinstance(node, ast.FunctionDef) and any(
            isinstance(part, ast.Return | ast.Raise) for part in node.body[:-1]
        )
        yield from _reads(path, node, always and not isinstance(node, _CONDITIONS) and not leaves)


def _returned(function: ast.FunctionDef) -> set[str] | None:
    """The keys of every dict that a function returns; None unless all of them are written out."""
    keys: set[str] = set()
    own = [node for node in own_nodes(function) if isinstance(node, ast.Return)]
    if not own:
        return None
    for node in own:
        if not isinstance(node.value, ast.Dict):
            return None
        for key in node.value.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            keys.add(key.value)
    return keys
