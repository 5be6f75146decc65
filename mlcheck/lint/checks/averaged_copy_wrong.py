"""averaged-copy-wrong: an average of weights that shares their memory, leaves out the buffers, or keeps the graph."""

import ast
import re
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites import Context, File, Function
from mlcheck.lint.sites.origins import Origin, callers, origins
from mlcheck.lint.sites.training.optimizers import around
from mlcheck.lint.sites.training.swapping import kept_for_nothing, never_given_back
from mlcheck.lint.sites.weights.filled_tables import filled_by
from mlcheck.lint.sites.weights.left_behind import iterates, model_in, never_updated, without_buffers

LOOKS_AT = "averaged copy"
WORDS = ("parameters()", "state_dict()", "AveragedModel")
_COPIES = pattern(r"clone|copy|detach_\(\)\.cpu|\.cpu\(\)|\.numpy\(\)|zeros_like|torch\.(?:tensor|empty)")
_BLENDS = ("mul_", "lerp_", "copy_", "add_")
_WEIGHTS = ("named_parameters", "state_dict")
_EMPTY = pattern(r"\{\}|dict\(\)|(?:collections\.)?OrderedDict\(\)")
_OFF = pattern(r"no_grad|inference_mode|set_grad_enabled")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from never_given_back(facts.sites)
    yield from kept_for_nothing(facts.sites)
    for file in facts.sites.mentioning(["parameters()", "state_dict()"]):
        for average in _averages(file):
            facts.sites.seen[LOOKS_AT] += 1
            yield from _shares_memory(average)
            yield from _shares_items(average)
            yield from _keeps_graph(average)
        yield from without_buffers(file)
        yield from _without_effect(file)
    yield from never_updated(facts.sites)


def _without_effect(file: File) -> Iterator[Finding]:
    """`for a, p in zip(ema.parameters(), model.parameters()): a = d * a + (1 - d) * p`: a name gets the average."""
    for call in file.calls("zip"):
        loop = next((node for node in walk(around(call)) if iterates(node, call.node)), None)
        both = len(call.node.args) == 2 and all(ast.unparse(a).endswith("parameters()") for a in call.node.args)
        if not isinstance(loop, ast.For) or not both or not isinstance(loop.target, ast.Tuple):
            continue
        names = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
        for blend in loop.body:
            if not isinstance(blend, ast.Assign) or not isinstance(blend.value, ast.BinOp):
                continue
            target = blend.targets[0]
            read = {name for name in names if loads(blend.value, name)}
            if isinstance(target, ast.Name) and target.id in read and len(read) == 2:
                if not any(loads(other, target.id) for other in loop.body if other.lineno > blend.lineno):
                    yield Finding(
                        f"`{target.id} = ...` only rebinds a name: no weight of the copy changes",
                        file.place(blend, call.context).location,
                        help=f"change it in place: `{target.id}.mul_(decay).add_(p, alpha=1 - decay)`",
                    )


class Average(NamedTuple):
    """A loop over the parameters of `model` that blends them into the items of `kept`."""

    file: File
    function: Function
    loop: ast.For
    model: str
    kept: ast.expr
    blend: ast.stmt


def _averages(file: File) -> Iterator[Average]:
    """`for name, p in model.named_parameters(): kept[name] ... p`, blended in place or anew."""
    if not any(word in file.text for word in _WEIGHTS):
        return
    for function in file.functions:
        if not any(word in function.text for word in _WEIGHTS):
            continue
        for loop in function.nodes:
            source = _weights_of(loop.iter) if isinstance(loop, ast.For) else ""
            if not isinstance(loop, ast.For) or not source or not isinstance(loop.target, ast.Tuple):
                continue
            name, value = (ast.unparse(part) for part in loop.target.elts[:2])
            for blend in walk(loop):
                if isinstance(blend, ast.Expr | ast.Assign) and (kept := _kept(blend, name)) is not None:
                    if any(is_name(n, value) for n in walk(blend)):
                        yield Average(file, function, loop, source, kept, blend)


def _weights_of(node: ast.expr) -> str:
    """`model` of `model.named_parameters()`, `model.state_dict()` and its `items()`."""
    if not (isinstance(node, ast.Call) and last_name(node.func) in ("named_parameters", "state_dict", "items")):
        return ""
    text = ast.unparse(node)
    for end in (".named_parameters()", ".state_dict().items()", ".state_dict()"):
        if text.endswith(end):
            return text.removesuffix(end)
    return ""


def _kept(blend: ast.Expr | ast.Assign, name: str) -> ast.expr | None:
    """`kept` of `kept[name].mul_(...)` and of `kept[name] = a * kept[name] + b * p`."""
    if isinstance(blend, ast.Assign):
        target = blend.targets[0]
        again = ast.unparse(target) in ast.unparse(blend.value)
        node: ast.expr = target if again and isinstance(blend.value, ast.BinOp) else blend.value
    else:
        node = blend.value
        blends = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BLENDS
        while blends and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == name:
        return node.value
    return None


def _shares_memory(average: Average) -> Iterator[Finding]:
    """The items were taken from the very model that is averaged, and are changed in place."""
    if isinstance(average.blend, ast.Assign):
        return
    made = list(_made(average))
    if not made:
        return
    for node, file, context in made:
        taken = _taken_from(node)
        if taken is None or not _is_same_model(average, taken, file, context):
            return
    node, file, context = made[0]
    yield _shared(file.place(node, context), average)


def _taken_from(node: ast.expr) -> ast.expr | None:
    """What gives the items as they are: `{name: p.data for name, p in model.named_parameters()}`, `state_dict()`."""
    if isinstance(node, ast.DictComp):
        return None if _COPIES.search(ast.unparse(node)) or node.generators[0].ifs else node.generators[0].iter
    plain = isinstance(node, ast.Call) and not node.args and not node.keywords
    return node if plain and ast.unparse(node).endswith(".state_dict()") else None


def _is_same_model(average: Average, source: ast.expr, file: File, context: Context) -> bool:
    """Whether the items come from the model that is averaged: by where both come from, else by their names."""
    model = _weights_of(source)
    if not model:
        return False
    mine = origins(average.file, model_in(average.loop.iter), average.function.inner)
    theirs = origins(file, model_in(source), context)
    if set(map(_made_by, mine)) == set(map(_made_by, theirs)):
        return True
    known = not all(isinstance(origin.node, ast.Name | ast.Attribute) for origin in (*mine, *theirs))
    return not known and model == average.model


def _made_by(origin: Origin) -> Hashable:
    """What makes it, and by which calls that is reached: each call of a function makes another model."""
    return id(origin.node), origin.entered.way if origin.entered is not None else ()


def _shares_items(average: Average) -> Iterator[Finding]:
    """The same, of a table that begins empty and is filled by a loop."""
    made = list(_made(average))
    if isinstance(average.blend, ast.Assign) or not made or not all(_EMPTY.fullmatch(ast.unparse(m[0])) for m in made):
        return
    filling = filled_by(average.function, average.kept, average.blend)
    if filling is not None and _is_same_model(average, filling.loop.iter, average.file, filling.method.inner):
        yield _shared(filling.method.place(filling.value), average)


def _shared(place: Place, average: Average) -> Finding:
    return Finding(
        "This keeps the weights themselves, not copies: averaging in place moves the model that is trained",
        place.location,
        help="`p.detach().clone()`",
        related=(average.function.place(average.blend).location,),
    )


def _made(average: Average) -> Iterator[tuple[ast.expr, File, Context]]:
    """What `kept` was made as: here, in the class, or by whoever gives it."""
    for origin in origins(average.file, average.kept, average.function.inner):
        yield origin.node, origin.file, origin.context


def _keeps_graph(average: Average) -> Iterator[Finding]:
    """`kept[name] = a * kept[name] + b * p` while gradients are recorded: each step hangs on the one before."""
    if not isinstance(average.blend, ast.Assign) or not average.model or "state_dict" in ast.unparse(average.loop.iter):
        return
    target = average.loop.target
    value = ast.unparse(target.elts[1]) if isinstance(target, ast.Tuple) else ""
    bare = re.search(
        rf"(?<![\w.]){re.escape(value)}(?!\w|\.(?:data|detach|grad|cpu\(\)\.numpy|item|clone\(\)\.detach))",
        ast.unparse(average.blend.value),
    )
    if bare is None or "detach" in ast.unparse(average.blend) or ".data" in ast.unparse(average.blend):
        return
    if not _records(average.function):
        return
    yield Finding(
        "The average is computed with the graph of every step behind it: memory grows, and each step is slower",
        average.function.place(average.blend).location,
        help="average under `torch.no_grad()`, or take `p.detach()`",
    )


def _records(function: Function) -> bool:
    """Whether gradients are certainly recorded: no word of switching them off here, and where it is called."""
    text = function.text
    decorators = " ".join(ast.unparse(node) for node in function.node.decorator_list)
    if _OFF.search(text) or _OFF.search(decorators):
        return False
    if ".backward(" in text:
        return True
    calls = list(callers(function.file.sites, function))
    if not calls and function.cls is not None:
        around = list(function.file.sites.mentioning([f".{function.name}("]))
        return bool(around) and not any(_OFF.search(file.text) for file in around)
    return bool(calls) and not any(_OFF.search(call.file.text) for call in calls)
