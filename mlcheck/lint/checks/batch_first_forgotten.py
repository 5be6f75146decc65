"""batch-first-forgotten: a sequence layer that takes the batch for the sequence."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.feature_maps import channels_as_steps
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.layers.positions_of_batch import positions_of_batch
from mlcheck.lint.sites.layers.state_views import BATCH_SIZE, chosen_layers, state_views
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.straight import read_after

LOOKS_AT = "sequence layer"
WORDS = ("LSTM", "GRU", "RNN", "MultiheadAttention", "Transformer", "CRF")
_POSITIONS = {"LSTM": 4, "GRU": 4, "RNN": 5, "MultiheadAttention": 8}
_POSITIONS |= {"TransformerEncoderLayer": 6, "TransformerDecoderLayer": 6, "Transformer": 9}
_CRF = "torchcrf.CRF"
_SWAPS = pattern(
    r"transpose|permute|swapaxes|rearrange|\.t\(\)|\.T\b|movedim|einsum|pack_padded|stack\(|unsqueeze\((?:dim=)?0\)|\[None\b"
)
_POSITIONS_OF_ALL = pattern(
    r"self\.\w+(?:\.weight)?(?:\[[^\]]*\]|\((?:[^()]|\([^()]*\))*\))(?:\.unsqueeze\((?:dim=)?0\)|\[None\])"
)
"""`self.position(torch.arange(n)).unsqueeze(0)`, which is added to each sample of a batch that comes first."""
_BATCH = r"(?:batch(?:_?size)?|bsz?|B|N)"
_TIME = r"(?:seq(?:_?len(?:gth)?)?|tokens?|time(?:_?steps?)?|len(?:gth)?|T|L|S|n_tokens|num_tokens|patches)"
_BATCH_FIRST = pattern(rf"[(\[]\s*{_BATCH}\s*,\s*{_TIME}\s*,\s*[\w*]+\s*[)\]]")
_TIME_FIRST = pattern(rf"[(\[]\s*{_TIME}\s*,\s*{_BATCH}\b")

_PIXELS_FIRST = pattern(r"\.flatten\((?:start_dim=)?2\)\.permute\(2, 0, 1\)")
"""Pixels as a sequence, before the batch: in their file a docstring that says otherwise is at fault."""

_ALONG = r"(?:\[:, -1(?:, :)?\]|\.(?:mean|sum|max|amax)\((?:dim=)?1\))"
"""The last of, or the mean or the highest over, the second dimension."""
_POOLED = r"torch\.(?:mean|sum|max|amax)\({}, (?:dim=)?1\)"
_FIRST = rf"(?:{_ALONG}|\[:, 0(?:, :)?\])"


def check(facts: Facts) -> Iterator[Finding]:
    layers = list(facts.sites.calls(*(f"torch.nn.{name}" for name in _POSITIONS), _CRF))
    facts.sites.seen[LOOKS_AT] = len(layers)
    told = {across.layer.spot: across for across in facts.read_across}
    for across in told.values():
        yield Finding(
            "This layer takes (sequence, batch, features) by default, and a loader's batches reach it with the batch "
            "first: the samples of a batch are mixed",
            across.layer.location,
            help="pass `batch_first=True`",
            related=(across.place.location,),
        )
    for positions in positions_of_batch(facts.sites):
        yield Finding(
            f"The positions run along the first dimension, and `self.{positions.layer}` has the batch there: all steps "
            "of a sample get one position",
            positions.added.location,
            help="`self.pe[:, : x.size(1)]`, of a table with the shape (1, length, width)",
            related=(positions.made.location,),
        )
    for call in chosen_layers(facts.sites):
        yield from _state_viewed(call)
    for call in layers:
        if call.place.spot in told:
            continue
        if call.cls is not None and call.constant("batch_first", _position(call)) is True:
            yield from _last_of_batch(call)
        yield from _state_viewed(call)
        if call.constant("batch_first", _position(call), default=False) is not False:
            continue
        found = (_evidence(cls, names, layers) or _used_as_batch(cls, names) for cls, names in _homes(call))
        if evidence := next(filter(None, found), ""):
            name = call.name.rpartition(".")[2]
            yield Finding(
                f"`{name}` takes (sequence, batch, features) by default, and {evidence}: "
                "the samples of a batch are mixed",
                call.place.location,
                help="pass `batch_first=True`",
            )


def _last_of_batch(call: Call) -> Iterator[Finding]:
    """`out, _ = self.lstm(x)` of a layer that has the batch first, and `out[-1]` for the last step."""
    forward = call.cls.methods.get("forward") if call.cls is not None else None
    if forward is None or not call.name.endswith(("LSTM", "GRU", "RNN")):
        return
    layers = {f"self.{name}" for name in _attributes_with(forward.cls, call)} if forward.cls is not None else set()
    body = forward.nodes
    results: set[str] = set()
    stores = [node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in layers:
            target = node.targets[0]
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
            if isinstance(first, ast.Name) and stores.count(first.id) == 1:
                results.add(first.id)
    for node in body:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in results:
            if ast.unparse(node.slice) in ("-1", "(-1, slice(None))", "-1, :"):
                yield Finding(
                    f"`{ast.unparse(node)}` is the last sample of the batch: the layer has the batch first",
                    forward.place(node).location,
                    help=f"`{node.value.id}[:, -1]` is the last step of each sequence",
                    related=(call.place.location,),
                )


def _state_viewed(call: Call) -> Iterator[Finding]:
    if not call.name.endswith(("LSTM", "GRU", "RNN")) or call.cls is None:
        return
    for view in state_views(call, {f"self.{name}" for name in _attributes_with(call.cls, call)}):
        yield Finding(
            f"`{view.name}` has its layers and directions first, then the batch: this mixes the samples",
            view.function.place(view.node).location,
            help=f"`{view.name}.transpose(0, 1).reshape({view.sizes})`",
            related=(call.place.location,),
        )


def _position(call: Call) -> int:
    return 1 if call.name == _CRF else _POSITIONS[call.name.rpartition(".")[2]]


def _homes(call: Call) -> Iterator[tuple[Class, list[str]]]:
    """The class that keeps the layer, and its attributes: that around it, or those that call the function around."""
    if call.cls is not None:
        yield call.cls, _attributes_with(call.cls, call)
    elif call.function is not None and any(_holds(call, node) for node in returns(call.function)):
        for above in callers(call.file.sites, call.function):
            names = [name for name in above.file.names_given(above.node) if above.cls and name in above.cls.attributes]
            if above.cls is not None and names:
                yield above.cls, names


def _holds(call: Call, node: ast.expr) -> bool:
    """Whether an expression is the layer, or what is made of it."""
    local = call.file.names_given(call.node)
    return any(part is call.node or (isinstance(part, ast.Name) and part.id in local) for part in walk(node))


def _turns(cls: Class) -> bool:
    """Whether the dimensions may be swapped somewhere; positions that are given a batch of one are not."""
    return _SWAPS.search(_POSITIONS_OF_ALL.sub("", text_of(cls))) is not None


def _used_as_batch(cls: Class, layers: list[str]) -> str:
    """One step of a sequence, or the mean over it, taken along the dimension that is the batch."""
    forward = cls.methods.get("forward")
    if forward is None or _turns(cls) or _TIME_FIRST.search(text_of(cls)):
        return ""
    body = ast.unparse(forward.node)
    along = _ALONG if re.search(r"unsqueeze|None\]|None,|batch_size=1\b", body) else _FIRST
    for name in layers:
        found = re.search(rf"self\.{name}\((?:[^()]|\([^()]*\))*\)(?:\[0\])?{along}", body)
        for result in re.findall(rf"^ *\(?(\w+)(?:, [^=]+)? = self\.{name}\(", body, re.MULTILINE):
            if len(re.findall(rf"\b{result}\)?(?:, [^=\n]+)? = |, {result}\b[^=\n]* = ", body)) == 1:
                found = found or re.search(rf"(?<![\w.]){result}{along}|{_POOLED.format(result)}", body)
        found = found or _next_use(forward, name, along)
        if found is not None:
            return f"`{found[0]}` takes its second dimension for the sequence"
    return ""


def _next_use(forward: Function, layer: str, along: str) -> re.Match[str] | None:
    """`h = self.encoder(h)`, and `h.mean(dim=1)` where `h` is read next."""
    for node in forward.all(ast.Assign):
        made = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        target = node.targets[0].elts[0] if isinstance(node.targets[0], ast.Tuple) else node.targets[0]
        if not isinstance(made, ast.Call) or not isinstance(target, ast.Name):
            continue
        if ast.unparse(made.func) != f"self.{layer}" or (made is not node.value and not _is_first(node.value)):
            continue
        use = read_after(forward.node, made, target.id)
        around = (each for each in forward.nodes if isinstance(each, ast.Call | ast.Subscript) and use in walk(each))
        pooled = rf"{target.id}{along}|{_POOLED.format(target.id)}"
        matches = (re.fullmatch(pooled, ast.unparse(each)) for each in around)
        if use is not None and (found := next(filter(None, matches), None)) is not None:
            return found
    return None


def _is_first(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0


def _attributes_with(cls: Class, call: Call) -> list[str]:
    """The attributes that hold the layer, or a stack made of it."""
    local = {name for name in call.file.names_given(call.node) if f"self.{name} =" not in text_of(cls)}
    found = []
    for name, sets in cls.attributes.items():
        value = sets[0][1].value
        if len(sets) == 1 and value is not None:
            inside = walk(value)
            if call.node in inside or any(isinstance(node, ast.Name) and node.id in local for node in inside):
                found.append(name)
    return found


def _evidence(cls: Class, names: list[str], layers: list[Call]) -> str:
    """What says that the module's tensors have the batch first, where nothing swaps dimensions."""
    text = text_of(cls)
    if _turns(cls) or _TIME_FIRST.search(text):
        return ""
    for other in layers:
        if other.cls is cls and other.constant("batch_first", _position(other), default=False) is True:
            return f"`{other.name.rpartition('.')[2]}` beside it has the batch first"
    forward = cls.methods.get("forward")
    view = channels_as_steps(forward, names) if forward is not None else None
    if view is not None:
        return f"`{ast.unparse(view)}` has the batch first"
    taken = _taken_apart(forward) if forward is not None else ""
    if taken:
        return f"`{taken}` has the batch first"
    if _PIXELS_FIRST.search(cls.file.text):
        return ""
    said = ast.get_docstring(forward.node) or "" if forward is not None else ""
    found = _BATCH_FIRST.search(f"{said}\n{ast.get_docstring(cls.node) or ''}")
    return f"the docstring says {found[0]}" if found else ""


def _taken_apart(forward: Function) -> str:
    """`b, t, _ = x.shape` of an argument, and `b, t = ids.shape` of one that is embedded.

    In a forward pass that neither reshapes nor joins anything.
    """
    if re.search(r"\.view\(|reshape\(|flatten\(|cat\(|unbind|\[-1\]|expand\(|repeat\(", ast.unparse(forward.node)):
        return ""
    for node in forward.nodes:
        sizes = node.targets[0].elts if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) else []
        if isinstance(node, ast.Assign) and len(sizes) in (2, 3):
            text, first = ast.unparse(node.value), ast.unparse(sizes[0])
            held = text.removesuffix(".shape").removesuffix(".size()")
            known = held != text and (len(sizes) == 3 or _is_embedded(forward, held))
            if known and held in forward.parameters and BATCH_SIZE.fullmatch(first):
                return ast.unparse(node).replace("(", "").replace(")", "")
    return ""


def _is_embedded(forward: Function, name: str) -> bool:
    """`self.tokens(ids)`, where that is an `nn.Embedding`: the numbers of tokens get a third dimension."""
    for node in forward.nodes:
        if isinstance(node, ast.Call) and [ast.unparse(argument) for argument in node.args] == [name]:
            sets = forward.cls.attribute(own_attribute(node.func, forward)) if forward.cls is not None else []
            made = [function.file.called(each.value, each.context) for function, each in sets]
            if made == ["torch.nn.Embedding"]:
                return True
    return False
