"""Arguments in one form: `F.mse_loss(input=a, target=b)` is read as `F.mse_loss(a, b)`, whatever torch takes first."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern

_BY_NAME = pattern(
    r"[(,]\s*(?:input|other|target|tensors?|obj|f|seed|data|model|function|parameters|max_norm|params"
    r"|optimizer|module|datasets?|indices|lengths|state_dict)\s*=[^=]"
)
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
    if "torch" not in text or _BY_NAME.search(text) is None:
        return
    imported = _imported(tree)
    losses = _losses(tree, imported) if "Loss(" in text else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.keywords:
            full = _full_name(node.func, imported)
            module, _, last = full.rpartition(".")
            if not full and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                _place(node, _METHODS[node.func.attr])
            elif not full and ast.unparse(node.func) in losses:
                _place(node, _LEADING["torch.nn.functional"][:1])
            elif last not in _OTHERWISE:
                _place(node, _LEADING.get(module, ()))


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


def _losses(tree: ast.Module, imported: dict[str, str]) -> set[str]:
    """Names and attributes that hold nothing but losses of torch that take an input and its target."""
    held: dict[str, bool] = {}
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            assert isinstance(node, ast.Assign)
            made = _full_name(node.value.func, imported) if isinstance(node.value, ast.Call) else ""
            of_two = made.startswith("torch.nn.") and made.endswith("Loss") and not made.endswith(_OF_MORE)
            held[ast.unparse(target)] = held.get(ast.unparse(target), True) and of_two
    return {name for name, of_losses in held.items() if of_losses}


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each name means that imports bring, wherever they stand; "" where they disagree."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
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
    if isinstance(node, ast.Name):
        return imported.get(node.id, "")
    owner = _full_name(node.value, imported) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""
