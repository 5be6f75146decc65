"""Whether a module behaves differently in train and eval mode."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.program import ClassInfo, FunctionInfo
from mlcheck.lint.pytorch.modes import MODULE_BASES, SEGMENTERS, children, is_module, modes_of
from mlcheck.lint.values import Const, Object, Symbol, Tuple, Value

_MODED = ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "BatchNorm", "SyncBatchNorm", "RReLU", "LazyBatchNorm")
_DROPS = pattern(r"dropout\(|\.dropout", words=["dropout"])
_HANDED = pattern(r"\bdef \w+\([^)]*\bdropout\b")
_BY_NAME = pattern(r"(?<![\w.])dropout\(")
_DROPS_SOME = pattern(r"\bdrop\w*\(")
_OWN = pattern(r"\bself\.(\w+)")
_CALLED = pattern(r"\bself\.(\w+) ?[\[(.]")
_WHOLE = pattern(r"\bself\(|\bself[,)]|\bself\.(?:forward|modules|children|named_\w+|__\w+)\b|\bsuper\(|\bgetattr\(")
_ASKS = pattern(r"\bself\.training\b")
_SAID = ast.Constant | ast.Name
_PLAIN = tuple(
    f"torch.nn.{name}"
    for name in ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Embedding", "LayerNorm", "GroupNorm")
)
_STACKED = ("LSTM", "GRU", "RNN")
_RECURRENT = frozenset(["torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.MultiheadAttention"])
_EMBEDDINGS = frozenset(["Node2Vec", "MetaPath2Vec", "TransE", "ComplEx", "DistMult", "RotatE"])
_CONVOLUTIONS = frozenset(["GCNConv", "SAGEConv", "GraphConv", "RGCNConv", "ChebConv", "TAGConv", "SGConv", "LEConv"])
_NORMALISED_FAMILIES: tuple[str, ...] = (
    "resnet",
    "resnext",
    "wide_resnet",
    "densenet",
    "mobilenet",
    "efficientnet",
    "googlenet",
)
_OF_TIMM = (
    *_NORMALISED_FAMILIES,
    "inception",
    "regnet",
    "tf_efficientnet",
    "seresnet",
    "xception",
    "resnest",
    "rexnet",
)
_NORMALISED_FAMILIES += ("squeezenet", "r3d_", "mc3_", "r2plus1d_", "fcn_", "deeplabv3_", "lraspp_")
_NORMALISED_FAMILIES += ("inception", "alexnet", "vgg", "vit", "swin", "convnext", "regnet", "mnasnet", "shufflenet")


def moded(m: Machine, value: Value, depth: int = 8) -> str:
    """Whether the module behaves differently in train and eval mode: yes, no or unknown."""
    if not isinstance(value, Object) or depth == 0:
        return "unknown"
    if value.cls is None:
        own = _moded_type(m, value)
        if own != "no" or value.type.rpartition(".")[2] in _EMBEDDINGS:
            return own
    else:
        own = _moded_class(m, value)
        if own == "yes":
            return own
    held = children(m, value) if value.cls is None else _parts(m, value, value.cls)
    if held is not None:
        return _together(m, {own}, [part for part in held if not _is_put_in_eval(m, value, part)], depth)
    items = m.store.get(("items", value.id))
    some = items.items if isinstance(items, Tuple) else ()
    return _together(m, {own} if some else {"unknown"}, some, depth)  # what a loop adds is of the kinds that are seen


def _is_put_in_eval(m: Machine, whole: Object, part: Value) -> bool:
    """`self.body.eval()` in a method of a model that stays in train mode itself: that part goes by its own mode."""
    if whole.cls is None or not is_module(part) or {mode.kind for mode in modes_of(m, whole)} != {"train"}:
        return False
    own = [f"{info.qualname}." for info in whole.cls.mro]
    places = [mode.place for mode in modes_of(m, part) if mode.kind == "eval"]
    said = [place is not None and place.symbol.startswith(tuple(own)) for place in places]
    return bool(said) and all(said) and len(said) == len(modes_of(m, part))


def _parts(m: Machine, value: Object, cls: ClassInfo) -> list[Value]:
    """What the module holds, without the unknown values that it never uses as a module: a size, a rate."""
    m.ready(value)
    held = {name: m.store.get(("a", value.id, name)) for name in m.store.get(("attrs", value.id)) or ()}
    return [kept for name, kept in held.items() if not _is_number(kept, name in cls.handled)]


def _is_number(value: Value, handled: bool) -> bool:
    """An unknown value that is no module: what is computed of others, or never used as one."""
    computed = isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[0] == "bin"
    return isinstance(value, Symbol) and (computed or not handled)


def moded_in(m: Machine, value: Object, method: FunctionInfo) -> str:
    """The same of one of its methods, and of the layers that this one uses: `model.inference(x)`."""
    code = _reached(value.cls, method) if value.cls is not None else None
    if code is None:
        return moded(m, value)
    assert value.cls is not None
    drops = not _drops_nothing(m, value)
    if ("batch_norm(" in code and _normalises(value.cls)) or (drops and _drops(code)):
        return "yes"
    own = "no"
    if _ASKS.search(code):
        own = "yes" if drops and _DROPS_SOME.search(code) else "unknown"
    m.ready(value)
    used = set(_OWN.findall(code))
    held = {name: m.store.get(("a", value.id, name)) for name in m.store.get(("attrs", value.id)) or () if name in used}
    called = set(_CALLED.findall(code))
    return _together(m, {own}, [kept for name, kept in held.items() if is_module(kept) or name in called], 8)


def _reached(cls: ClassInfo, method: FunctionInfo) -> str | None:
    """The code of a method and of the others that it calls on itself; None where it may use anything."""
    found: dict[ast.AST, str] = {}
    todo = [method]
    while todo:
        each = todo.pop()
        if each.node not in found:
            body = [] if isinstance(each.node, ast.Lambda) else each.node.body
            found[each.node] = text = "\n".join(map(each.module.text_of, body))
            if _WHOLE.search(text) or not _OWN.search(text):
                return None
            todo += [info for name in _OWN.findall(text) if (info := cls.find(name)) is not None]
    return "\n".join(found.values())


def _together(m: Machine, answers: set[str], held: Iterable[Value], depth: int) -> str:
    """The answers for a module itself and for what it holds, in one."""
    for child in held:
        if "yes" in answers:
            break
        if is_module(child):
            answers.add(moded(m, child, depth - 1))
        elif isinstance(child, Symbol):
            answers.add("unknown")
        elif isinstance(child, Object) and isinstance(m.store.get(("items", child.id)), Tuple):
            items = m.store.get(("items", child.id))
            answers |= {moded(m, item, depth - 1) for item in items.items if is_module(item)}
    return "yes" if "yes" in answers else "unknown" if "unknown" in answers else "no"


def _moded_type(m: Machine, value: Object) -> str:
    name = value.type.rpartition(".")[2]
    if value.kwargs.get("track_running_stats") == Const(False) or value.kwargs.get("momentum") == Const(1):
        return "no"  # with momentum 1 it keeps the last batch alone: there is no average to evaluate with
    if name.startswith(_MODED):
        p = value.args[0] if value.args else value.kwargs.get("p")
        return "no" if "Dropout" in name and isinstance(p, Const) and p.value in (0, 0.0) else "yes"
    if value.type in _RECURRENT:
        dropout = value.kwargs.get("dropout")
        if name in _STACKED and _is_single(value):
            return "no"  # it drops between layers
        return "no" if dropout is None or (isinstance(dropout, Const) and not dropout.value) else "yes"
    if name.startswith("Transformer"):
        dropout = value.kwargs.get("dropout")
        return "no" if isinstance(dropout, Const) and not dropout.value else "yes"
    if value.type.startswith("torchvision.models."):
        return "yes" if name.lower().startswith(_NORMALISED_FAMILIES) else "unknown"
    if value.type.startswith("timm.models."):
        return "yes" if name.startswith(_OF_TIMM) else "unknown"
    if name in SEGMENTERS:
        return "yes"
    if value.type.startswith("torch.nn.") or name in _EMBEDDINGS:
        return "no"
    if name in _CONVOLUTIONS and len(value.args) < 4 and not any("drop" in word for word in value.kwargs):
        return "no"
    return "unknown"


def _is_single(value: Object) -> bool:
    """Whether a recurrent network is known to have one layer."""
    layers = value.args[2] if len(value.args) > 2 else value.kwargs.get("num_layers")
    if layers is None:
        return "**" not in value.kwargs
    return isinstance(layers, Const) and layers.value == 1


def _moded_class(m: Machine, value: Object) -> str:
    assert value.cls is not None
    answer, drops = "no", not _drops_nothing(m, value)
    for info in value.cls.mro:
        text = info.module.text_of(info.node)
        if ("batch_norm(" in text and _normalises(info)) or (drops and _drops(text)):
            return "yes"
        if "self.training" in text:  # it may choose the quicker of two ways, or draw noise, as explorers mean to
            if drops and any(_DROPS_SOME.search(way) for way in _by_mode(info)):
                return "yes"
            answer = "unknown"
    for name in value.cls.libraries:
        if name not in MODULE_BASES and not name.endswith((".nn.Module", "LightningModule", "ABC", *_PLAIN)):
            answer = "unknown"
    return answer


def _drops(code: str) -> bool:
    """Whether it speaks of dropout, and not of what its callers may hand it: `def attend(q, k, v, dropout=None)`."""
    if _HANDED.search(code):
        code = _BY_NAME.sub("", code)
    return _DROPS.search(code) is not None


def _normalises(cls: ClassInfo) -> bool:
    """Whether a `batch_norm(...)` in its code may go by the mode: `F.batch_norm(..., training=True)` never does.

    Nor does `training=flag` in a class that never asks for its mode: each call says what it wants.
    """
    calls = [node for info in cls.mro for node in walk(info.node) if isinstance(node, ast.Call)]
    told_by = ast.Constant if any(_ASKS.search(info.module.text_of(info.node)) for info in cls.mro) else _SAID
    for call in calls:
        if last_name(call.func) == "batch_norm":
            given = [word.value for word in call.keywords if word.arg == "training"] or call.args[5:6]
            told = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) != "self"
            if not told or not given or not isinstance(given[0], told_by):
                return True
    return False


def _by_mode(info: ClassInfo) -> Iterator[str]:
    """The code of the methods that ask for the mode, without what their docstrings show."""
    for method in info.node.body:
        if isinstance(method, ast.FunctionDef):
            code = method.body[1:] if ast.get_docstring(method, clean=False) else method.body
            text = "\n".join(info.module.text_of(statement) for statement in code)
            if _ASKS.search(text):
                yield text


def _drops_nothing(m: Machine, value: Object) -> bool:
    """Whether the rates of dropout that the module keeps are all 0: `self.dropout = float(dropout)`."""
    m.ready(value)
    kept = [m.store.get(("a", value.id, name)) for name in m.store.get(("attrs", value.id)) or () if "drop" in name]
    return bool(kept) and all(_is_nothing(m, rate) for rate in kept)


def _is_nothing(m: Machine, rate: Value) -> bool:
    return not rate.value if isinstance(rate, Const) else is_module(rate) and moded(m, rate) == "no"
