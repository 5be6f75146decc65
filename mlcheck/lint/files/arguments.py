"""Arguments in one form: `F.mse_loss(input=a, target=b)` is read as `F.mse_loss(a, b)`, whatever torch takes first."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator

from mlcheck.core.patterns import pattern

_BY_NAME = pattern(
    r"[(,]\s*(?:input|other|target|tensors?|obj|f|seed|data|model|function|parameters|max_norm|params"
    r"|optimizer|module|datasets?|indices|lengths|state_dict)\s*=[^=]"
)
_IMPORT = pattern(r"import\b")
_LEADING = {
    "torch": (("input", "other"), ("tensors",), ("obj", "f"), ("f",), ("seed",), ("data",), ("model",)),
    "torch.nn.functional": (("input", "target"), ("tensor",)),
    "torch.nn.init": (("tensor",),),
    "torch.nn.utils": (("parameters", "max_norm"), ("module",)),
    "torch.nn.parallel": (("module",),),
    "torch.nn": (("module",),),
    "torch.distributed": (("tensor",),),
    "torch.autograd": (("tensors",),),
    "torch.optim": (("params",),),
    "torch.optim.lr_scheduler": (("optimizer",),),
    "torch.utils.data": (("dataset", "indices"), ("dataset", "lengths"), ("datasets",)),
    "torch.utils.data.distributed": (("dataset",),),
    "torch.utils.checkpoint": (("function",),),
}
"""How the signatures of each module begin; options, which have defaults, keep their names."""
_METHODS = {"load_state_dict": (("state_dict",),)}
_OTHERWISE = (
    *("where", "searchsorted", "polygamma", "cosine_embedding_loss", "margin_ranking_loss", "bilinear"),
    *("all_gather", "vector_to_parameters", "ChainedScheduler"),
)
_OF_MORE = ("CTCLoss", "EmbeddingLoss", "RankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss")
"""Functions, and losses, that take something else before."""


def place_arguments(tree: ast.Module, text: str) -> None:
    """Rewrite them in the tree, wherever an import of the file tells that the function is torch's."""
    if "torch" not in text or not (by_name := _lines(_BY_NAME, text)):
        return
    calls = [node for node in _over(tree, by_name) if isinstance(node, ast.Call) and node.keywords]
    imported = _imported(_over(tree, _lines(_IMPORT, text)))
    unknown = []
    for call in calls:
        full = _full_name(call.func, imported)
        module, _, last = full.rpartition(".")
        if not full and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            _place(call, _METHODS[call.func.attr])
        elif not full and _spelled(call.func) and any(keyword.arg == "target" for keyword in call.keywords):
            unknown.append(call)
        elif last not in _OTHERWISE:
            _place(call, _LEADING.get(module, ()))
    losses = _losses(tree, text, {_spelled(call.func) for call in unknown}, imported) if unknown else set()
    for call in unknown:
        if _spelled(call.func) in losses:
            _place(call, _LEADING["torch.nn.functional"][:1])


def _lines(what: re.Pattern[str], text: str) -> list[int]:
    """The numbers of the lines on which such things end."""
    found, line, seen = [], 1, 0
    for match in what.finditer(text):
        line, seen = line + text.count("\n", seen, match.end()), match.end()
        found.append(line)
    return found


def _over(tree: ast.Module, lines: list[int]) -> Iterator[ast.AST]:
    """What stands on one of these lines, and what holds it; the rest of a file is not looked through."""
    left: list[ast.AST] = [tree]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            first = getattr(child, "lineno", 0)
            place = bisect_left(lines, first)
            if not first or (place < len(lines) and lines[place] <= getattr(child, "end_lineno", 0)):
                left.append(child)
                yield child


def _place(call: ast.Call, signatures: tuple[tuple[str, ...], ...]) -> None:
    """Where one of them fits, from the first argument that is given by name."""
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return
    begun = len(call.args)
    given = {keyword.arg: keyword for keyword in call.keywords}
    for names in signatures:
        if begun < len(names) and names[begun] in given:
            for name in names[begun:]:
                if name not in given:
                    break
                call.args.append(given[name].value)
                call.keywords.remove(given[name])
            return


def _losses(tree: ast.Module, text: str, asked: set[str], imported: dict[str, str]) -> set[str]:
    """Which of the names and attributes hold nothing but losses of torch that take an input and its target."""
    assigned = re.compile(rf"(?:{'|'.join(map(re.escape, asked))})\s*=[^=]")
    held: dict[str, bool] = {}
    for node in _over(tree, _lines(assigned, text)):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            assert isinstance(node, ast.Assign)
            made = _full_name(node.value.func, imported) if isinstance(node.value, ast.Call) else ""
            of_two = made.startswith("torch.nn.") and made.endswith("Loss") and not made.endswith(_OF_MORE)
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                held[_spelled(name)] = held.get(_spelled(name), True) and of_two
    return {name for name, of_losses in held.items() if of_losses}


def _imported(nodes: Iterator[ast.AST]) -> dict[str, str]:
    """What each name means that imports bring, wherever they stand; "" where they disagree."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name, meant = _meant(node, alias)
                found[name] = meant if found.get(name, meant) == meant else ""
    return found


def _meant(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, str]:
    if isinstance(node, ast.ImportFrom):
        return alias.asname or alias.name, "" if node.level else f"{node.module}.{alias.name}"
    first = alias.name.partition(".")[0]
    return (alias.asname, alias.name) if alias.asname else (first, first)


def _full_name(node: ast.expr, imported: dict[str, str]) -> str:
    first, dot, rest = _spelled(node).partition(".")
    return f"{imported[first]}{dot}{rest}" if imported.get(first) else ""


def _spelled(node: ast.expr) -> str:
    """`self.loss` as it is written; "" for anything but a name and its attributes."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
