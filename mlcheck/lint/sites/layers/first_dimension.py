"""Softmaxes and norms over dimension 0, in modules whose text tells that the samples of a batch stand there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import is_module, module_classes
from mlcheck.lint.sites.layers.softmax_layers import LOG_LAYERS, softmax_layer
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_BATCHES = ("b", "B", "batch", "batch_size", "bs", "bsz", "n", "N")
_TURNS: tuple[str, ...] = ("transpose", "permute", "squeeze(0)", "[0]", ".t()", "rearrange", "movedim", "swapaxes")
_TURNS += (".view(", *(f".T{end}" for end in ")],.@ [\n"))  # and not `nn.Tanh`
_BATCHED = ("Flatten()", "flatten(1)", "start_dim=1", "BatchNorm1d", "BatchNorm2d")
_RECURRENT = ("RNN", "LSTM", "GRU", "Transformer", "MultiheadAttention")
_JOINED = ("flatten()", "torch.mm", "adj", "sum(0", "sum(dim=0")
MAY_TURN = (*_TURNS, *_RECURRENT, *_JOINED)
"""What a text says where dimension 0 may be another than that of the samples."""
_COUNT = r"(?:len\(\w+\)|\w+\.(?:size\(0\)|shape\[0\]))"
_FLATTENED = pattern(rf"\.(?:view|reshape)\({_COUNT}, ?-1\)|\btorch\.flatten\(\w+, ?1\)")
"""Each sample in one row: `x.view(x.size(0), -1)` moves nothing from one to another."""
_COUNTED = pattern(rf"(\w+) = {_COUNT}\n")
_LAST_OF = {
    f"torchvision.models.{home}{network}": last
    for home, network, last in (
        *((home, "ResNet", "fc") for home in ("", "resnet.")),
        *((home, "DenseNet", "classifier") for home in ("", "densenet.")),
        *((home, "GoogLeNet", "fc") for home in ("", "googlenet.")),
        *((home, "ShuffleNetV2", "fc") for home in ("", "shufflenetv2.")),
    )
}
"""The linear layer with which a network of the library ends, as its subclasses have it."""
_NUMBERED = pattern(rf"arange\({_COUNT}|(\w+) = {_COUNT}\n[\s\S]*arange\(\1\b")


def normalised_over_samples(sites: Sites) -> Iterator[Place]:
    for cls in sites.classes:
        forward = cls.methods.get("forward")
        if forward is not None:
            yield from _of_unpacked(forward)
    for cls in sites.classes:
        if is_module(cls):
            yield from _of_rows(cls)
    for cls in sites.once(module_classes) if sites.once(_tells_samples_apart) else ():
        yield from _of_pairs(cls)


def _of_unpacked(forward: Function) -> Iterator[Place]:
    """`b, t, d = x.shape`, and `self.score(x).softmax(dim=0)`: of what still has the batch first."""
    text = forward.text
    if "softmax(" not in text or any(word in text for word in _TURNS):
        return
    batched = {
        name
        for node in forward.nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) > 2
        for name in [ast.unparse(node.value).removesuffix(".shape").removesuffix(".size()")]
        if ast.unparse(node.targets[0].elts[0]) in _BATCHES and name.isidentifier()
    }
    for node in forward.nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in ("softmax", "log_softmax"):
            if not is_over_first(Call(forward.file, node, forward.inner)):
                continue
            given = node.func.value if isinstance(node.func, ast.Attribute) else None
            if given is None or ast.unparse(given) in ("F", "torch"):
                given = node.args[0] if node.args else None
            if isinstance(given, ast.Call) and ast.unparse(given.func).startswith("self.") and len(given.args) == 1:
                given = given.args[0]
            if isinstance(given, ast.Name) and given.id in batched:
                yield forward.place(node)


def _of_rows(cls: Class) -> Iterator[Place]:
    """`self.score(x).softmax(0)` of a linear layer, in a module that flattens or normalises samples, row by row."""
    counted = _COUNTED.sub(r"\1 = len(x)\n", cls.text)
    for name in (line[1] for line in _COUNTED.finditer(cls.text)):
        counted = counted.replace(f"({name}, -1)", "(len(x), -1)")
    text = _FLATTENED.sub(".flatten(1)", counted)
    if any(word in text for word in MAY_TURN):
        return
    functions = [call for call in cls.file.calls("softmax", "log_softmax", "normalize") if call.cls is cls]
    over_first = [call for call in functions if is_over_first(call)]
    found = [call for call in (*over_first, *layers_over_first(cls)) if _is_of_linear(call, cls)]
    if found and (
        _adds_up_rows(cls) or any(not is_over_first(call) and _is_of_linear(call, cls) for call in functions)
    ):
        return
    if found and (any(word in text for word in _BATCHED) or cls in cls.file.sites.once(given_one_row)):
        yield from (call.place for call in found)
    else:
        yield from (call.place for call in found if _is_summed_along_other(call))


def _adds_up_rows(cls: Class) -> bool:
    """`(weights * x).sum(dim=0)`, `torch.einsum(...)`: the rows are the parts of one sample, which are weighed."""
    for name in ("sum", "mean", "einsum"):
        for call in cls.file.calls(name):
            given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
            of_first = name == "einsum" or any(isinstance(each, ast.Constant) and each.value == 0 for each in given)
            if call.cls is cls and of_first:
                return True
    return False


def _is_summed_along_other(call: Call) -> bool:
    """`w = softmax(self.gate(x), 0)`, and `(w.unsqueeze(-1) * y).sum(1)`: each sample's weights are added up."""
    names = call.file.names_given(call.node)
    if call.function is None or len(names) != 1:
        return False
    for node in call.function.all(ast.Call):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.BinOp(left=one, op=ast.Mult(), right=two), attr="sum")):
                dim = Call(call.file, node, call.context).constant("dim", 0)
                texts = [ast.unparse(side) for side in (one, two)]
                if dim == 1 and f"{names[0]}.unsqueeze(-1)" in texts:
                    return True
    return False


def given_one_row(sites: Sites) -> frozenset[Class]:
    """The modules that somebody gives a batch of one: `net(state.unsqueeze(0))`."""
    found = set[Class]()
    for file in sites.mentioning(["unsqueeze(0)"]):
        for function in file.functions:
            for node in function.nodes if "unsqueeze(0)" in function.text else ():
                if isinstance(node, ast.Call) and len(node.args) == 1 and _is_row(node.args[0]):
                    found |= _modules_behind(file, node.func, function.inner)
    return frozenset(found)


def _is_row(given: ast.expr) -> bool:
    """`state.unsqueeze(0).to(device)`."""
    match before_methods(given, ("to", "float", "cuda", "cpu")):
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[ast.Constant(value=0)]):
            return True
    return False


def _modules_behind(file: File, called: ast.expr, context: Context) -> set[Class]:
    """The classes of the modules that a call may mean."""
    found = set[Class]()
    for made in origins(file, called, context):
        inner = before_methods(made.node, ("to", "cuda", "eval", "train"))
        cls = made.file.resolve(inner.func, made.context) if isinstance(inner, ast.Call) else None
        if isinstance(cls, Class) and is_module(cls):
            found.add(cls)
    return found


def _tells_samples_apart(sites: Sites) -> bool:
    """Whether a cross-entropy has the numbers of the samples for its classes: `F.cross_entropy(z @ z.T, arange(n))`."""
    texts = [function.text for file in sites.mentioning(["arange("]) for function in file.functions]
    texts += [cls.text for cls in sites.once(module_classes)]
    return any("entropy" in text.lower() and _NUMBERED.search(text) for text in texts if "arange(" in text)


def _of_pairs(cls: Class) -> Iterator[Place]:
    """`F.normalize(self.projector(x), dim=0)`, of a module whose samples are told apart by their numbers."""
    if "normalize(" in cls.text:
        for call in cls.file.calls("normalize"):
            if call.cls is cls and is_over_first(call) and _is_of_linear(call, cls):
                yield call.place


def layers_over_first(cls: Class) -> Iterator[Call]:
    """`self.norm(x)`, where `self.norm = nn.Softmax(dim=0)`."""
    for name, sets in cls.attributes.items():
        made = sets[0][1].value if len(sets) == 1 else None
        if not isinstance(made, ast.Call) or last_name(made.func) not in ("Softmax", "LogSoftmax"):
            continue
        if is_over_first(Call(cls.file, made, sets[0][1].context)):
            own = (call for call in cls.file.calls(name) if call.cls is cls)
            yield from (call for call in own if own_attribute(call.node.func, call.function))


def _is_of_linear(call: Call, cls: Class) -> bool:
    """Whether it is taken of what a linear layer of the class returns as it is."""
    of_function = isinstance(call.file.resolve(call.node.func, call.context), str) or bool(
        own_attribute(call.node.func, call.function)
    )
    given = call.argument("input", 0) if of_function else getattr(call.node.func, "value", None)
    if not isinstance(given, ast.expr) or call.function is None:
        return False
    made, _ = source(call.file, given, call.context)
    if not isinstance(made, ast.Call) or len(made.args) != 1:
        return False
    name = own_attribute(made.func, call.function)
    sets = cls.attributes.get(name, [])
    if not sets and name and any(_LAST_OF.get(base) == name for base in cls.libraries):
        return True
    layer = sets[0][1].value if len(sets) == 1 else None
    if isinstance(layer, ast.Call) and last_name(layer.func) == "Sequential" and layer.args and not layer.keywords:
        layer = layer.args[-1]
    outputs = [ast.unparse(arg) for arg in layer.args[1:2]] if isinstance(layer, ast.Call) else []
    return isinstance(layer, ast.Call) and last_name(layer.func) == "Linear" and outputs != ["1"]


def is_over_first(call: Call | None) -> bool:
    """`F.softmax(x, 0)`, `x.softmax(dim=0)`, `nn.Softmax(0)`, and `self.norm(x)` of such a layer."""
    return call is not None and dimension_of(call) == 0


def dimension_of(call: Call) -> int | None:
    """The dimension along which a softmax, or `normalize`, works; None where it is not told, or not by one number."""
    call = softmax_layer(call, LOG_LAYERS) or call
    node = call.node
    name = last_name(node.func)
    given = [keyword.value for keyword in node.keywords if keyword.arg == "dim"]
    of_function = isinstance(node.func, ast.Name) or ast.unparse(node.func).startswith(
        ("F.", "torch.", "nn.functional.")
    )
    place = 0 if name[:1].isupper() or not of_function else 2 if name == "normalize" else 1
    given += node.args[place : place + 1]
    told = origins(call.file, given[0], call.context) if given else []
    over = {each.file.constant(each.node, each.context) for each in told}
    only = over.pop() if len(over) == 1 else None
    return only if isinstance(only, int) and not isinstance(only, bool) else None
