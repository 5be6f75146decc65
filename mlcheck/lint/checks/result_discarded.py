"""result-discarded: a method that returns a new tensor is called as a statement, so nothing comes of it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, loads, walk
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.data.dropped_tables import dropped_tables
from mlcheck.lint.sites.evaluation.without_gradients import switches_off
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.layers.dropped_answers import dropped_answers
from mlcheck.lint.sites.layers.dropped_layers import dropped_layers, works_in_place
from mlcheck.lint.sites.straight import read_after
from mlcheck.lint.sites.training.dropped_wrappers import dropped_wrappers, lost_exchanges
from mlcheck.lint.sites.training.rebound_weights import rebound_weights

LOOKS_AT = "tensor method"
_METHODS = (
    *("masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "scatter_add"),
    *("clamp", "clamp_min", "clamp_max", "nan_to_num", "detach"),
)
_TURNS = ("transpose", "permute", "swapaxes", "movedim", "unsqueeze", "squeeze")
_TURNED_BY = frozenset(["dim", "dim0", "dim1", "dims", "axes", "axis", "axis0", "axis1", "source", "destination"])
_OF_WEIGHTS = ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "clamp", "clip", "copysign")
_LAYERS = ("dropout", "normalize", "relu", "gelu", "silu", "elu", "leaky_relu", "tanh", "sigmoid", "layer_norm")
_MOVES = ("flip", "fliplr", "flipud", "rot90", "roll")
_OF_PICTURES = ("hflip", "vflip", "rotate", "crop", "center_crop", "resize", "affine", "pad", "adjust_brightness")
_FUNCTIONS = (
    *("torch.clamp", "torch.masked_fill", "torch.nan_to_num", "torch.relu", "torch.tanh", "torch.sigmoid"),
    *(f"{module}.{name}" for module in ("torch", "numpy") for name in _MOVES),
    *(f"torchvision.transforms.functional.{name}" for name in _OF_PICTURES),
    *(f"torch.nn.functional.{name}" for name in _LAYERS),
)
_NUMBERS = ("item", "tolist", "data", "detach")
_RAISES = ("raises", "assertRaises", "suppress", "assertRaisesRegex")
_OF_TENSORS = frozenset(
    [
        *("detach", "detach_", "shape", "size", "dim", "device", "dtype", "data", "grad", "requires_grad", "grad_fn"),
        *("norm", "mean", "sum", "abs", "max", "min", "item", "numpy", "cpu", "to", "clone", "float", "requires_grad_"),
        *("view", "reshape", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "repeat", "expand", "numel"),
        *(
            "zero_",
            "fill_",
            "mul_",
            "add_",
            "backward",
            "softmax",
            "argmax",
            "index_select",
            "gather",
            "chunk",
            "split",
        ),
    ]
)


def check(facts: Facts) -> Iterator[Finding]:
    sites, seen = facts.sites, 0
    wanted = {*_METHODS, *_TURNS, *_OF_WEIGHTS, *_LAYERS, *_MOVES, *_OF_PICTURES}
    for file in sites.mentioning([f".{name}(" for name in sorted(wanted)]):
        for call in file.calls(*sorted(wanted)) if "torch" in file.text else ():
            if call.node not in file.statements or _is_tried(call):
                continue
            seen += 1
            what = _changed(call)
            if what is not None:
                yield Finding(
                    f"`{ast.unparse(call.node.func)}(...)` returns a new tensor, and this line drops it: "
                    f"`{ast.unparse(what)}` stays what it was",
                    call.place.location,
                    help=_how(call, what),
                )
    for call, variable in (*dropped_answers(sites), *dropped_tables(sites)):
        yield Finding(
            f"`{ast.unparse(call.node)}` returns something new, and this line drops it: `{variable.id}` stays what it "
            "was",
            call.place.location,
            help=f"write `{variable.id} = {ast.unparse(call.node)}`",
        )
    for method, layer, given in dropped_layers(sites):
        yield Finding(
            f"`{ast.unparse(layer)}` returns a new tensor, and this line drops it: `{given.id}` stays what it was",
            method.place(layer).location,
            help=f"write `{given.id} = {ast.unparse(layer)}`",
        )
    for file, line, context in rebound_weights(sites):
        yield Finding(
            f"`{ast.unparse(line.targets[0])} = ...` is a name for new weights alone: the model keeps the old",
            file.place(line, context).location,
            help="change them in place, under `torch.no_grad()`: `weight.copy_(...)`, `weight.mul_(...)`",
        )
    yield from _of_calls(sites)
    for file in sites.mentioning(["torch"]):
        for function in file.functions:
            for node in function.all(ast.AnnAssign):
                target = node.target
                if not isinstance(target, ast.Attribute) or not isinstance(node.annotation, ast.Call) or node.value:
                    continue
                if function.cls is not None and function.cls.attributes.get(target.attr):
                    continue  # it says what will be assigned, in whatever way
                yield Finding(
                    f"`{ast.unparse(target)}: ...` is an annotation: Python does not even compute it",
                    function.place(node).location,
                    help=f"write `{ast.unparse(target)} = ...`",
                )
    sites.seen[LOOKS_AT] = seen


def _of_calls(sites: Sites) -> Iterator[Finding]:
    """Functions of libraries whose result is what the program was to go on with."""
    for call, given in dropped_wrappers(sites):
        yield Finding(
            f"`{ast.unparse(call.node.func)}(...)` returns what is to be used, and this line drops it: "
            f"`{ast.unparse(given)}` goes on without",
            call.place.location,
            help=f"write `{', '.join(map(ast.unparse, call.node.args[: 1 if call.name else None]))} = ...`",
        )
    for call, given in lost_exchanges(sites):
        yield Finding(
            f"`{last_name(call.node.func)}` writes what the ranks exchange into `{ast.unparse(given)}`, a new tensor "
            "that nothing can read afterwards",
            call.place.location,
            help="give the tensor a name first, and read the result from that",
        )


def _own_methods(sites: Sites) -> frozenset[str]:
    """The names of all methods of the project."""
    functions = (function for file in sites.files.values() for function in file.functions)
    return frozenset(function.name for function in functions if function.cls is not None)


def _changed(call: Call) -> ast.expr | None:
    """What the line is to change and does not."""
    func = call.node.func
    named = call.file.resolve(func, call.context)
    if any(keyword.arg in ("out", "inplace", None) for keyword in call.node.keywords):
        return None
    if isinstance(named, str):
        given = call.node.args[0] if call.node.args else None
        is_plain = named in _FUNCTIONS and len(call.node.args) < 4 and not works_in_place(call.node)
        return given if is_plain and isinstance(given, ast.Name) and _is_read(call, given.id) else None
    if named is not None or not isinstance(func, ast.Attribute):
        return None
    owner = func.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("data", "grad") and func.attr in _OF_WEIGHTS:
        return owner if _is_weight(call, owner) else None
    turns = func.attr in _TURNS and _TURNED_BY.issuperset(str(keyword.arg) for keyword in call.node.keywords)
    if (func.attr not in _METHODS and not turns) or not isinstance(owner, ast.Name):
        return None
    if (func.attr == "detach") != (not call.node.args and not call.node.keywords):
        return None
    if not _is_read(call, owner.id) or not _may_be_tensor(call, owner):
        return None
    if func.attr == "detach" and (_is_cut_next(call, owner.id) or _has_nothing_to_cut(call, owner.id)):
        return None
    return None if func.attr in call.file.sites.once(_own_methods) else owner


def _is_cut_next(call: Call, name: str) -> bool:
    """`x.detach()` and then `x = x.data`: the line does nothing, and what it was to do is done."""
    use = read_after(call.function.node, call.node, name) if call.function is not None else None
    binds = (node for node in call.function.nodes if isinstance(node, ast.Assign)) if call.function is not None else ()
    return any(
        is_name(line.targets[0], name) and re.match(rf"{name}\.(?:data\b|detach\(|item\()", ast.unparse(line.value))
        for line in binds
        if any(node is use for node in walk(line.value))
    )


def _has_nothing_to_cut(call: Call, name: str) -> bool:
    """Under `torch.no_grad()`, or where only the number is read after that: a line that does nothing, nor has to."""
    if any(isinstance(outer.node, ast.With) and switches_off(outer.node) for outer in call.context.outwards()):
        return True
    nodes = call.function.nodes if call.function is not None else []
    numbers = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr in _NUMBERS]
    later = [node for node in nodes if is_name(node, name) and node.lineno > call.node.lineno]
    return bool(later) and all(any(node is each for each in numbers) for node in later)


def _is_weight(call: Call, owner: ast.Attribute) -> bool:
    """`p.data`, `p.grad` and `p.grad.data`, where `p` runs over parameters."""
    inner = owner.value
    while isinstance(inner, ast.Attribute) and inner.attr in ("data", "grad"):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return False
    bound = call.file.bindings(inner.id, call.context)
    over = [b.node.iter if isinstance(b.node, ast.For) else b.value for b in bound]
    return bool(bound) and all(each is not None and "parameters()" in ast.unparse(each) for each in over)


def _is_read(call: Call, name: str) -> bool:
    return call.function is not None and read_after(call.function.node, call.node, name) is not None


def _may_be_tensor(call: Call, owner: ast.Name) -> bool:
    """Whether the name holds what an expression or a call came to; a parameter of any kind may change in place."""
    found = latest(call.file, owner, call.context)
    cuts = last_name(call.node.func) == "detach"
    if found is None or found.value is None:
        return not cuts
    made = call.file.resolve(found.value.func, found.context) if isinstance(found.value, ast.Call) else None
    if cuts and call.function is not None and not _is_used_as_tensor(call.function, owner.id):
        return False
    return not isinstance(found.value, ast.Call) or made is None or (isinstance(made, str) and made.startswith("torch"))


def _is_used_as_tensor(function: Function, name: str) -> bool:
    """Whether nothing is asked of it that a tensor does not have: handles, streams and trackers detach in place."""
    asked = [n for n in function.nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    return all(node.attr in _OF_TENSORS for node in asked if last_name(node.value) == name)


def _is_tried(call: Call) -> bool:
    """Whether it is run to see if it raises, or for the time that it takes."""
    around = list(call.context.outwards())
    if any(isinstance(outer.node, ast.Try) and outer.arm == "body" and len(outer.node.body) == 1 for outer in around):
        return True
    if call.loops and _does_nothing_else(call.loops[0].node, call.node):
        return True
    withs = [outer.node for outer in call.context.outwards() if isinstance(outer.node, ast.With | ast.AsyncWith)]
    return any(word in ast.unparse(item.context_expr) for node in withs for item in node.items for word in _RAISES)


def _does_nothing_else(loop: ast.AST, call: ast.Call) -> bool:
    """`for _ in range(1000): x.clamp(0, 1)`: each turn does the same again, for a clock."""
    if not isinstance(loop, ast.For) or not all(isinstance(line, ast.Expr) for line in _opened(loop.body)):
        return False
    return not any(loads(call, part.id) for part in walk(loop.target) if isinstance(part, ast.Name))


def _opened(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those under `with` and in `try` in their place."""
    for line in block:
        if isinstance(line, ast.With | ast.Try):
            yield from _opened(line.body)
        else:
            yield line


def _how(call: Call, what: ast.expr) -> str:
    func = call.node.func
    if isinstance(call.file.resolve(func, call.context), str) or not isinstance(func, ast.Attribute):
        return f"write `{ast.unparse(what)} = {ast.unparse(call.node)}`"
    given = ", ".join(ast.unparse(part) for part in (*call.node.args, *call.node.keywords))
    return f"write `{ast.unparse(what)}.{func.attr}_({given})`, or bind the result to the name"
