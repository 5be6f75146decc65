"""softmax-of-one: a softmax over a dimension with one value in it, which is one whatever was computed."""

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.shapes.algebra import position
from mlcheck.lint.sites import Call, Context, File, canonical
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.latest import source

LOOKS_AT = "softmax layer"
WORDS = ("softmax", "Softmax")
_FUNCTIONS = ("torch.softmax", "torch.nn.functional.softmax", "torch.log_softmax", "torch.nn.functional.log_softmax")

_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
_NEW = tuple(f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty"))


def check(facts: Facts) -> Iterator[Finding]:
    places = []
    sizes: dict[tuple[str, int, int], set[Hashable]] = {}
    for softmax in facts.softmaxes:
        at = position(softmax.shape, softmax.dim)
        if at is not None:
            sizes.setdefault(softmax.place.spot, set()).add(softmax.shape.dims[at])
    for softmax in facts.softmaxes:
        at = position(softmax.shape, softmax.dim)
        if at is None or softmax.shape.dims[at] != 1 or _is_one_way_of_several(facts, softmax.place):
            continue
        if softmax.calls or sizes[softmax.place.spot] == {1}:  # of no layer: a function for whatever size it gets
            places.append(softmax.place)
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["softmax("]):
        for call in file.calls("softmax", "log_softmax"):
            facts.sites.seen[LOOKS_AT] += 1
            given = _over_last(call)
            if given is not None and _gives_one(call, given):
                places.append(call.place)
    for place in places:
        yield Finding(
            "This softmax runs over a dimension of size one: its result is always one",
            place.location,
            help="normalise over the dimension that is to add up to one; for a single score use `sigmoid`",
        )


def _is_one_way_of_several(facts: Facts, place: Place) -> bool:
    """`if task == "multiclass": softmax(x)`, of a function whose other ways are for models of other sizes."""
    call = facts.sites.call_at(place)
    tests = conditions(call.context) if call is not None else []
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for test in tests for part in walk(test))


def _over_last(call: Call) -> ast.expr | None:
    """What is normalised over its last dimension."""
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, str) and canonical(named) in _FUNCTIONS:
        return call.argument("input", 0) if call.constant("dim", 1) == -1 else None
    func = call.node.func
    if isinstance(func, ast.Attribute) and named is None and call.constant("dim", 0) == -1:
        return func.value
    return None


def _gives_one(call: Call, given: ast.expr) -> bool:
    """`self.score(x)`, where that is a linear layer with one output, or ends in one; `x @ self.w` with one column."""
    made, context = source(call.file, given, call.context)
    while isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult | ast.Div) and _is_number(call, made.right):
        made, context = source(call.file, made.left, context)
    if isinstance(made, ast.BinOp) and isinstance(made.op, ast.MatMult):
        return _has_one_column(call, made.right)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or call.cls is None:
        return False
    function = call.function
    if function is None or ast.unparse(made.func.value) != function.receiver or len(made.args) != 1:
        return False
    sets = call.cls.attributes.get(made.func.attr, [])
    return len(sets) == 1 and _ends_in_one(call.file, sets[0][1].value, sets[0][1].context)


def _is_number(call: Call, node: ast.expr) -> bool:
    """A number, or an attribute that is one, such as a scale: it leaves the sizes as they are."""
    if isinstance(node, ast.Attribute) and call.cls is not None:
        sets = call.cls.attributes.get(node.attr, [])
        value = sets[0][1].value if len(sets) == 1 else None
        power = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow)
        return power or isinstance(value, ast.Constant)
    return isinstance(node, ast.Constant)


def _has_one_column(call: Call, node: ast.expr) -> bool:
    """`self.w` that is `nn.Parameter(torch.randn(width, 1))`."""
    sets = call.cls.attributes.get(node.attr, []) if isinstance(node, ast.Attribute) and call.cls is not None else []
    made = sets[0][1].value if len(sets) == 1 else None
    if not isinstance(made, ast.Call) or call.file.called(made, sets[0][1].context) not in _PARAMETERS or not made.args:
        return False
    drawn = made.args[0]
    sizes = drawn.args if isinstance(drawn, ast.Call) else []
    named = call.file.called(drawn, sets[0][1].context)
    last = sizes[-1] if len(sizes) > 1 and named in _NEW else None
    return isinstance(last, ast.Constant) and last.value == 1


def _ends_in_one(file: File, layer: ast.expr | None, context: Context) -> bool:
    if not isinstance(layer, ast.Call):
        return False
    named = file.resolve(layer.func, context)
    name = canonical(named) if isinstance(named, str) else ""
    if name == "torch.nn.Sequential":
        return bool(layer.args) and not layer.keywords and _ends_in_one(file, layer.args[-1], context)
    given = layer.args[1] if len(layer.args) > 1 else None
    given = given or next((word.value for word in layer.keywords if word.arg == "out_features"), None)
    return name == "torch.nn.Linear" and isinstance(given, ast.Constant) and given.value == 1
