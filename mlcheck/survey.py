"""Looks through a repository for what mlcheck can examine: trials, functions, scripts, experiment configs.

Nothing is imported or run; files are read as text and syntax trees.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from mlcheck.core.notebook import is_notebook
from mlcheck.core.source_text import is_code, read_source
from mlcheck.lint.files.discover import discover
from mlcheck.lint.files.source import Source, parse

_PARTS = frozenset(["model", "optimizer", "train_loader"])
_ABOUT = re.compile(r"torch|lightning|transformers")
_TRAINS = re.compile(
    r"\.backward\(|Trainer\((?s:.*)\.fit\(|LightningCLI\(|(?<!class )\b\w*Trainer\((?s:.*)\b\w*[tT]rainer\.train\("
)
_FOREIGN = frozenset(["venv", "node_modules", "site-packages"])
_MANY = 20
WITH_ARGUMENTS = "LightningModule that asks for arguments: --hp NAME=VALUE"
NO_DATA = "LightningModule without data"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry point that was found: how it is named, what it is, and the config that belongs to it."""

    entry: str
    kind: str
    config: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """`candidates` with the likeliest first; `paths` are the folders and files with PyTorch code to lint."""

    candidates: tuple[Candidate, ...]
    paths: tuple[str, ...]
    files: int


def survey(root: Path) -> Survey:
    """Look through the Python files, notebooks and YAML files below `root`."""
    files, _ = discover((str(root),))
    sources = [source for path, module in files if isinstance(source := _read(path, module), Source)]
    about_torch = [source for source in sources if _ABOUT.search(source.text) and not _is_test(source.path, root)]
    found = [
        *_experiments(root),
        *(candidate for source in about_torch for candidate in _in_file(source, root)),
        *_scripts(about_torch, root),
    ]
    order = ("experiment", "PyTorchTrial", "LightningModule", "function", "script", "notebook", WITH_ARGUMENTS, NO_DATA)
    found.sort(key=lambda each: (order.index(each.kind), "train" not in each.entry, each.entry.count("/"), each.entry))
    return Survey(tuple(found[:_MANY]), _paths([source.path for source in about_torch], root), len(sources))


def _read(path: str, module: str) -> Source | None:
    try:
        source = parse(path, read_source(path).encode(), module)
    except (OSError, SyntaxError, ValueError):
        return None
    return source if isinstance(source, Source) else None


def _is_test(path: str, root: Path) -> bool:
    parts = Path(os.path.relpath(path, root)).parts
    return "tests" in parts[:-1] or parts[-1].startswith("test_") or parts[-1] in ("conftest.py", "setup.py")


def _in_file(source: Source, root: Path) -> Iterator[Candidate]:
    path = _below(source, root)
    if is_notebook(path):
        return  # run whole, or not at all
    where = _named(source, root) if "/" in path else path[:-3]
    bases = {node: _bases(node) for node in source.tree.body if isinstance(node, ast.ClassDef)}
    data = [node for node, named in bases.items() if "LightningDataModule" in named]
    for node, named in bases.items():
        if "PyTorchTrial" in named:
            yield Candidate(f"{where}:{node.name}", "PyTorchTrial")
        elif "LightningModule" in named:
            yield Candidate(f"{where}:{node.name}", _kind(node, data))
    for statement in source.tree.body:
        if isinstance(statement, ast.FunctionDef) and _returns_parts(statement):
            yield Candidate(f"{where}:{statement.name}", "function")


def _kind(module: ast.ClassDef, data: Sequence[ast.ClassDef]) -> str:
    """Whether a LightningModule has data, in itself or beside it, and can be made without being given anything."""
    fed = data or any(isinstance(own, ast.FunctionDef) and own.name == "train_dataloader" for own in module.body)
    if not fed:
        return NO_DATA
    made = [own for node in (module, *data) for own in node.body if isinstance(own, ast.FunctionDef)]
    asks = any(own.name == "__init__" and len(own.args.args) > len(own.args.defaults) + 1 for own in made)
    return WITH_ARGUMENTS if asks else "LightningModule"


def _below(source: Source, root: Path) -> str:
    return Path(os.path.relpath(source.path, root)).as_posix()


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _scripts(sources: Sequence[Source], root: Path) -> Iterator[Candidate]:
    """Files to be run that train, in their own code or in that of the project's files they import."""
    by_name: dict[str, Source] = {}
    for source in sources:
        parts = _below(source, root).removesuffix(".py").removesuffix("/__init__").split("/")
        for start in range(len(parts)):  # a script finds what lies beside it by its bare name
            by_name.setdefault(".".join(parts[start:]), source)
    imported = {by_name[name].path for source in sources for name in _imported(source.tree) if name in by_name}
    for source in sources:
        if is_notebook(source.path):
            if _trains(source, by_name):
                yield Candidate(_below(source, root), "notebook")
            continue
        runs = any(map(_runs_as_script, source.tree.body))
        if (runs or (source.path not in imported and any(map(_calls, source.tree.body)))) and _trains(source, by_name):
            yield Candidate(_named(source, root), "script")


def _named(source: Source, root: Path) -> str:
    """The path; of a part of a package, which imports what lies beside it by dots, the dotted name."""
    path = Path(_below(source, root))
    parts = path.with_suffix("").parts
    relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(source.tree))
    return ".".join(parts) if relative and all(map(str.isidentifier, parts)) else path.as_posix()


def _trains(script: Source, by_name: Mapping[str, Source]) -> bool:
    reached, waiting = {script.path}, [script]
    while waiting:
        source = waiting.pop()
        if _TRAINS.search(source.text):
            return True
        for name in _imported(source.tree):
            found = by_name.get(name)
            if found and found.path not in reached:
                reached.add(found.path)
                waiting.append(found)
    return False


def _imported(tree: ast.Module) -> Iterator[str]:
    """The dotted names that a module imports, relative ones as if absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = [node.module] if node.module else []
            yield from module
            yield from (".".join([*module, name.name]) for name in node.names)


def _returns_parts(function: ast.FunctionDef) -> bool:
    """Whether it returns a dict of model, optimizer and loader and can be called without arguments."""
    if len(function.args.args) > len(function.args.defaults):
        return False
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            keys = {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
            if keys >= _PARTS:
                return True
    return False


def _runs_as_script(node: ast.stmt) -> bool:
    """A main guard, or a loop at the top level: a module to be imported has neither."""
    return isinstance(node, ast.For | ast.While) or (
        isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') == '__name__ == "__main__"'
    )


def _calls(node: ast.stmt) -> bool:
    """A call for its effect at the top level, as `trainer.fit(model)`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _experiments(root: Path) -> Iterator[Candidate]:
    """Determined's experiment configs, by their `entrypoint: module:Class`."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in ("venv", "node_modules")
        )
        for name in sorted(names):
            if name.endswith((".yaml", ".yml")):
                yield from _experiment(Path(folder, name), root)


def _experiment(path: Path, root: Path) -> Iterator[Candidate]:
    try:
        text = path.read_text(encoding="utf-8")
        config = yaml.safe_load(text) if "entrypoint" in text else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return
    entry = config.get("entrypoint") if isinstance(config, dict) else None
    if isinstance(entry, str) and entry.count(":") == 1 and " " not in entry:
        folder = Path(os.path.relpath(path.parent, root))
        module, _, name = entry.partition(":")
        local = entry if folder == Path() else f"{(folder / module.replace('.', '/')).as_posix()}.py:{name}"
        yield Candidate(local, "experiment", Path(os.path.relpath(path, root)).as_posix())


def _paths(found: Sequence[str], root: Path) -> tuple[str, ...]:
    """The top folders that hold what was found; the root where it holds some itself, or where there are many."""
    tops = sorted({Path(os.path.relpath(path, root)).parts[0] for path in found})
    in_few_folders = 0 < len(tops) <= 5 and not any(map(is_code, tops))
    return tuple(tops) if in_few_folders else (".",)
