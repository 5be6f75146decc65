"""softmax-over-batch: log-probabilities normalised over the samples of a batch reach a loss."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import last_name
from mlcheck.lint.shapes.facts import Softmax
from mlcheck.lint.sites import Call, Class
from mlcheck.lint.sites.evaluation.winners import wrong_winners
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.batched_products import weighed_across
from mlcheck.lint.sites.layers.drawing import drawn_from
from mlcheck.lint.sites.layers.implied_dimension import over_samples
from mlcheck.lint.sites.layers.modules import is_module, module_classes
from mlcheck.lint.sites.layers.pooling import pooled_elsewhere
from mlcheck.lint.sites.layers.routing import picked_along_other
from mlcheck.lint.values import Object, Tensor

LOOKS_AT = "class loss"
_BATCHES = ("b", "B", "batch", "batch_size", "bs", "bsz", "n", "N")
_TURNS = ("transpose", "permute", "squeeze(0)", "[0]", ".t()", ".T", "rearrange", "movedim", "swapaxes", ".view(")
_BATCHED = ("Flatten()", "flatten(1)", "start_dim=1", "BatchNorm1d", "BatchNorm2d")
_SEQUENCES = (
    *_TURNS,
    "RNN",
    "LSTM",
    "GRU",
    "Transformer",
    "MultiheadAttention",
    "flatten()",
    "torch.mm",
    "adj",
    "sum(0",
    "sum(dim=0",
)
_NUMBERED = pattern(r"arange\((?:len\(\w+\)|\w+\.(?:size\(0\)|shape\[0\]))")
_LOSSES = ("torch.nn.NLLLoss", "torch.nn.KLDivLoss", "torch.nn.CrossEntropyLoss")


def check(facts: Facts) -> Iterator[Finding]:
    told = set[tuple[str, int]]()
    multiplied = (*weighed_across(facts.sites), *_pooled(facts))
    for finding in (*_normalised(facts), *multiplied, *_implied(facts), *_of_pairs(facts)):
        spot = finding.location.path, finding.location.line
        if spot not in told:
            told.add(spot)
            yield finding


def _implied(facts: Facts) -> Iterator[Finding]:
    """`F.softmax(torch.bmm(q, k))`: without `dim`, of three dimensions the first is taken."""
    for call in facts.sites.once(over_samples):
        yield Finding(
            "A softmax without `dim` takes the first of these three dimensions, and that is the batch",
            call.place.location,
            help="`dim=-1`: each row of the product adds up to one by itself",
        )


def _pooled(facts: Facts) -> Iterator[Finding]:
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        for node in forward.nodes if forward is not None else ():
            if forward is not None and isinstance(node, ast.Call):
                yield from pooled_elsewhere(forward, node)


def _normalised(facts: Facts) -> Iterator[Finding]:
    yield from _winners(facts)
    yield from _in_forward(facts)
    yield from _over_loaded_batch(facts)
    for softmax, pick in (each for cls in facts.sites.classes for each in picked_along_other(cls)):
        yield Finding(
            "This normalises over dimension 0, and the largest are then picked along the last: rows are not comparable",
            softmax.place.location,
            help="`dim=-1`: each row adds up to one over what is picked from",
            related=(softmax.file.place(pick, softmax.context).location,),
        )
    for loss in losses_of(facts, LOOKS_AT, *_LOSSES):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        if scores.kind not in ("softmax", "log_softmax") or not _is_over_first(scores.place.node):
            continue
        if scores.shape is not None and not scores.shape.open and len(scores.shape.dims) < 2:
            continue
        if loss.name == "torch.nn.NLLLoss" or (scores.shape is not None and len(scores.shape.dims) > 1):
            yield Finding(
                f"`{scores.kind}` over dimension 0 normalises over the samples of the batch, not over the classes",
                scores.place.location,
                help="use `dim=1`, or `dim=-1` where the classes come last",
                related=(loss.place.location,),
            )


def _over_loaded_batch(facts: Facts) -> Iterator[Finding]:
    """`model(x).softmax(0)` of several scores for each sample of a batch that a loader gave."""
    for softmax in facts.softmaxes:
        known = len(softmax.shape.dims) > (0 if softmax.shape.open else 1)
        classes = softmax.shape.dims[-1] if known else None
        if _is_over_picture(softmax):
            yield Finding(
                "This normalises along one side of the picture: the classes of a convolution's output are dimension 1",
                softmax.place.location,
                help="use `dim=1`",
            )
        if softmax.dim != 0 or not isinstance(classes, int) or classes < 2:
            continue
        loaded = bool(softmax.calls) and all(_is_of_loader(call) and not _turns(facts, call) for call in softmax.calls)
        drawn = not softmax.shape.open and softmax.place.node in facts.sites.once(drawn_from)
        other_ways = any(_is_its_other_way(softmax, other) for other in facts.softmaxes)
        if loaded or drawn or (_is_of_samples(softmax) and not other_ways):
            yield _finding(softmax.place)


def _is_of_samples(softmax: Softmax) -> bool:
    """Whether dimension 0 still is, by its very size, the one that a loader put its samples in."""
    first = softmax.shape.dims[0]
    return not softmax.shape.open and isinstance(first, tuple) and first[0] == "batch"


def _is_its_other_way(softmax: Softmax, other: Softmax) -> bool:
    """A softmax of the same scores over the classes: samples and classes are matched, one against the other."""
    return other.place.symbol == softmax.place.symbol and other.shape == softmax.shape and other.dim != 0


def _is_over_picture(softmax: Softmax) -> bool:
    """`model(images).softmax(-1)`, where that is (batch, classes, height, width) straight out of a convolution."""
    dims = softmax.shape.dims
    several = len(dims) == 4 and not softmax.shape.open and isinstance(dims[1], int) and dims[1] > 1
    if not (several and softmax.raw):
        return False
    return bool(softmax.calls) and dims[2:] == (None, None) and softmax.dim in (-1, -2, 2, 3)


def _is_of_loader(call: Forward) -> bool:
    """Whether the model is called on what a loop over a loader brings."""
    loop = call.loop.node if call.loop is not None else None
    return isinstance(loop, ast.For) and "loader" in ast.unparse(loop.iter).lower()


def _turns(facts: Facts, call: Forward) -> bool:
    """Whether code of the model, or where it is called, moves dimensions about."""
    cls = call.module.cls if isinstance(call.module, Object) else None
    texts = [file.text for file in facts.sites.files.values() if file.path == call.place.path]
    if cls is not None:
        texts += [ast.unparse(base.node) for base in cls.mro]
    return any(word in text for text in texts for word in _SEQUENCES)


def _in_forward(facts: Facts) -> Iterator[Finding]:
    """`b, t, d = x.shape`, and `self.score(x).softmax(dim=0)`: of what still has the batch first."""
    for cls in facts.sites.classes:
        forward = cls.methods.get("forward")
        text = forward.text if forward is not None else ""
        if forward is None or "softmax(" not in text or any(word in text for word in _TURNS):
            continue
        batched = {
            name
            for node in forward.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) > 2
            for name in [ast.unparse(node.value).removesuffix(".shape").removesuffix(".size()")]
            if ast.unparse(node.targets[0].elts[0]) in _BATCHES and name.isidentifier()
        }
        for node in forward.nodes:
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) in ("softmax", "log_softmax")
                and _is_over_first(node)
            ):
                given = node.func.value if isinstance(node.func, ast.Attribute) else None
                given = node.args[0] if given is None or ast.unparse(given) in ("F", "torch") else given
                if isinstance(given, ast.Call) and ast.unparse(given.func).startswith("self.") and len(given.args) == 1:
                    given = given.args[0]
                if isinstance(given, ast.Name) and given.id in batched:
                    yield _finding(forward.place(node))
    for cls in facts.sites.classes:
        text = cls.text
        if not is_module(cls) or not any(word in text for word in _BATCHED) or any(word in text for word in _SEQUENCES):
            continue
        for call in cls.file.calls("softmax", "log_softmax", "normalize"):
            if call.cls is cls and _is_over_first(call.node) and _is_of_linear(call, cls):
                yield _finding(call.place)
        for call in _layers_over_first(cls):
            if _is_of_linear(call, cls):
                yield _finding(call.place)


def _of_pairs(facts: Facts) -> Iterator[Finding]:
    """`F.normalize(self.projector(x), dim=0)`, in a module whose samples are told apart by `torch.arange(len(z))`."""
    for cls in facts.sites.once(module_classes):
        text = cls.text
        if "normalize(" in text and "entropy" in text.lower() and _NUMBERED.search(text):
            for call in cls.file.calls("normalize"):
                if call.cls is cls and _is_over_first(call.node) and _is_of_linear(call, cls):
                    yield _finding(call.place)


def _layers_over_first(cls: Class) -> Iterator[Call]:
    """`self.norm(x)`, where `self.norm = nn.Softmax(dim=0)`."""
    for name, sets in cls.attributes.items():
        made = sets[0][1].value if len(sets) == 1 else None
        if isinstance(made, ast.Call) and last_name(made.func) in ("Softmax", "LogSoftmax") and _is_over_first(made):
            own = (call for call in cls.file.calls(name) if call.cls is cls)
            yield from (call for call in own if own_attribute(call.node.func, call.function))


def _finding(place: Place) -> Finding:
    return Finding(
        "This normalises over the samples of the batch: dimension 0 is the batch",
        place.location,
        help="give the dimension that is to add up to one",
    )


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
    sets = cls.attributes.get(own_attribute(made.func, call.function), [])
    layer = sets[0][1].value if len(sets) == 1 else None
    if isinstance(layer, ast.Call) and last_name(layer.func) == "Sequential" and layer.args and not layer.keywords:
        layer = layer.args[-1]
    outputs = [ast.unparse(arg) for arg in layer.args[1:2]] if isinstance(layer, ast.Call) else []
    return isinstance(layer, ast.Call) and last_name(layer.func) == "Linear" and outputs != ["1"]


def _winners(facts: Facts) -> Iterator[Finding]:
    calls = frozenset(forward.place.node for forward in facts.forwards)
    for won in wrong_winners(facts.sites, calls):
        found = "`argmax` over dimension 0 names a sample for each class, not a class for each sample"
        if won.flat:
            found = "`argmax` without a dimension names one place in the whole batch, not a class for each sample"
        yield Finding(
            found,
            won.place.location,
            help="`argmax(dim=1)`, or `dim=-1` where the classes come last",
            related=(won.compared.location,),
        )


def _is_over_first(node: ast.AST) -> bool:
    """`F.softmax(x, 0)`, `x.softmax(dim=0)`, `nn.Softmax(0)`."""
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    given = [keyword.value for keyword in node.keywords if keyword.arg == "dim"]
    of_function = isinstance(node.func, ast.Name) or ast.unparse(node.func).startswith(
        ("F.", "torch.", "nn.functional.")
    )
    place = 0 if name[:1].isupper() or not of_function else 2 if name == "normalize" else 1
    given += node.args[place : place + 1]
    return bool(given) and isinstance(given[0], ast.Constant) and given[0].value == 0 and given[0].value is not False
