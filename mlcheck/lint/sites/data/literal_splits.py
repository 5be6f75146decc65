"""Data sets that are asked for a part and read the held-out one, whatever part was asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_PARTS = ("split", "mode", "phase", "subset", "partition", "stage")
_HELD_OUT = ("test", "val", "valid", "validation")


class LiteralSplit(NamedTuple):
    """Where the word is written, the word, and the name that both functions have for the part."""

    place: Place
    word: str
    name: str


def literal_splits(sites: Sites) -> Iterator[LiteralSplit]:
    """`Scenes.__init__(self, root, split)`, where `read(root, split="test")` brings the samples for training too."""
    for cls in sites.classes:
        init = cls.methods.get("__init__")
        names = [name for name in _PARTS if init is not None and name in init.parameters]
        if init is None or len(names) != 1 or f'{names[0]} == "train"' not in _double_quoted(cls.text):
            continue
        for node in init.all(ast.Call):
            call = next((each for each in cls.file.calls(*_last(node)) if each.node is node), None)
            word = _given(call, names[0]) if call is not None else ""
            if call is not None and word in _HELD_OUT and not _is_meant(call, names[0]):
                yield LiteralSplit(call.place, word, names[0])
                break


def fixed_parts(sites: Sites) -> Iterator[LiteralSplit]:
    """`def get(self, split): return DataLoader(self.sets["train"], shuffle=split == "train")`, also for "val"."""
    for loader in sites.once(loaders):
        function, data = loader.call.function, loader.dataset
        names = [name for name in _PARTS if function is not None and name in function.parameters]
        if function is None or len(names) != 1 or not isinstance(data, ast.Subscript):
            continue
        word = data.slice.value if isinstance(data.slice, ast.Constant) else None
        asks = f'{names[0]} == "train"' in _double_quoted(ast.unparse(loader.call.node))
        if word == "train" and asks and not _is_meant(loader.call, names[0]):
            place = list(function.parameters).index(names[0]) - bool(function.receiver)
            words = {call.constant(names[0], place) for call in callers(sites, function)}
            if "train" in words and not words.isdisjoint(_HELD_OUT):
                yield LiteralSplit(loader.call.place, word, names[0])


def _double_quoted(text: str) -> str:
    return text.replace("'", '"')


def _last(node: ast.Call) -> list[str]:
    return [node.func.id] if isinstance(node.func, ast.Name) else []


def _given(call: Call, name: str) -> str:
    """The word that a function of the project is given for the parameter of that name."""
    named = call.file.resolve(call.node.func, call.context)
    if not isinstance(named, Function) or name not in named.parameters:
        return ""
    given = call.argument(name, list(named.parameters).index(name))
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _is_meant(call: Call, name: str) -> bool:
    """Whether an `if` around it may have asked for that very part: all but `else` of another one."""
    for outer in call.context.outwards():
        if outer.kind in ("function", "lambda", "class"):
            return False
        test = outer.node.test if isinstance(outer.node, ast.If) else None
        match test:
            case None:
                continue
            case ast.Compare(left=ast.Name(id=asked), ops=[ast.Eq()], comparators=[ast.Constant(value=str(part))]):
                if outer.arm != "orelse" or asked != name or part == "train":
                    return True
            case _:
                return True
    return False
