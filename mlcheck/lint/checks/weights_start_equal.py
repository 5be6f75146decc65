"""weights-start-equal: an initialisation gives all units of a layer the same weights."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import loads, walk
from mlcheck.lint.sites import OPEN, UNKNOWN, Call, Context, File, Function, canonical
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.asked_classes import classes_asked, kinds_left
from mlcheck.lint.sites.layers.factors import zero_product
from mlcheck.lint.sites.layers.flooding import FILLS, INITS, fills_all
from mlcheck.lint.sites.layers.lone_layers import have_one_unit, is_alone, is_for_parts, is_head_at_zero, is_last_turn
from mlcheck.lint.sites.layers.modules import LEARNING, module_classes
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "initialisation"
_NORMS = frozenset(name for name in LEARNING if "Norm" in name)
_COPIES = ("copy_(", "copy_params", "load_state_dict")
_COUNTS = ("builtins.range", "builtins.zip", "builtins.len")
_APART = ("PReLU", "Embedding")
"""Layers whose weights get gradients of their own however they start: one number a channel, or a row an index."""
_UNITS = frozenset(name for name in LEARNING - _NORMS if not any(word in name for word in _APART))


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for file in facts.sites.mentioning([*FILLS, ".fill_(", ".zero_("]):
        for call in file.calls(*FILLS, "fill_", "zero_"):
            target, value = _filled(call)
            if not file.is_test and fills_all(call) and not is_head_at_zero(call, _UNITS):
                yield _finding(call, "All parameters start equal: the units of each layer get equal gradients")
            if not isinstance(target, ast.Name) or value is None:
                continue
            seen += 1
            kinds = (
                _kinds(file, call.context, target.id) or kinds_left(call, target.id) or _kinds_in_chain(call, target.id)
            )
            if not kinds or is_last_turn(call) or _is_overwritten(file, call, target.id):
                continue
            if kinds <= _NORMS and value == 0 and _is_second(call, target.id):
                yield _finding(call, "The scale of every normalisation layer is set to 0: nothing passes through it")
            elif value == 0 and is_for_parts(call):
                continue
            elif (
                kinds <= _UNITS
                and not any(word in file.text for word in _COPIES)
                and not is_alone(call, kinds, value)
                and not have_one_unit(file, kinds)
                and not _is_for_measuring(call)
            ):
                yield _finding(call, "All weights of these layers start equal: their units get equal gradients")
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        if forward is not None and (found := zero_product(facts.sites, cls, forward)) is not None:
            yield Finding(
                "Both factors of this product start at zero: each has the other in its gradient, and none ever moves",
                cls.file.place(found, forward.inner).location,
                help="start one of them at random, as LoRA does with its first matrix, and the other at zero",
            )
    facts.sites.seen["initialisation"] = seen


def _finding(call: Call, message: str) -> Finding:
    return Finding(
        message,
        call.place.location,
        help="was `bias` meant? For weights use `nn.init.kaiming_normal_` or `xavier_uniform_`; for a norm's scale 1",
    )


def _is_for_measuring(call: Call) -> bool:
    """A function within one that looks at gradients and steps along none, as to see how far a network sees."""
    function = call.function
    outer = call.file.function_around(function.defined.context) if function is not None else None
    return outer is not None and ".backward(" in outer.text and ".step(" not in outer.text


def _filled(call: Call) -> tuple[ast.expr | None, float | None]:
    """The layer whose `weight` is filled with one number, and the number."""
    func = call.node.func
    named = call.file.resolve(func, call.context)
    if isinstance(named, str) and canonical(named) in INITS and call.node.args:
        last = named.rpartition(".")[2]
        value = {"zeros_": 0.0, "ones_": 1.0}.get(last, _number(call, "val", 1))
        return _owner(call.node.args[0]), float(value) if isinstance(value, int | float) else None
    if isinstance(func, ast.Attribute) and func.attr in ("fill_", "zero_") and not isinstance(named, str):
        value = 0 if func.attr == "zero_" else _number(call, "value", 0)
        return _owner(func.value), float(value) if isinstance(value, int | float) else None
    return None, None


def _number(call: Call, name: str, position: int) -> object:
    """The number given, also by the calls of a function around: `def constant_init(value): ...`."""
    node = call.argument(name, position)
    if node is None or node is OPEN or (known := call.file.constant(node, call.context)) is not UNKNOWN:
        return known if node is not None and node is not OPEN else UNKNOWN
    found = [each.file.constant(each.node, each.context) for each in origins(call.file, node, call.context)]
    return found[0] if found and all(each == found[0] for each in found) else UNKNOWN


def _owner(node: ast.expr) -> ast.expr | None:
    """`m` of `m.weight` and `m.weight.data`."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "weight" else None


def _kinds(file: File, context: Context, name: str) -> set[str]:
    """The classes that the nearest `isinstance(name, ...)` around the place allows; none behind any other test."""
    for outer in context.outwards():
        if outer.kind in ("function", "lambda", "loop"):
            return set()
        test = outer.node.test if isinstance(outer.node, ast.If) else None
        if test is None or (outer.arm == "body" and _is_about(test, name)):
            continue
        if outer.arm == "orelse":
            continue
        if part := _named_in(file, test, context, name):
            return {layer for layer in LEARNING if part in layer.rpartition(".")[2]}
        return classes_asked(file, test, context, name)
    return set()


def _kinds_in_chain(call: Call, name: str) -> set[str]:
    """The layers of `for layer in self.layers:` where the `forward` sends its input through one after the other."""
    loop, cls = call.loops[0].node if call.loops else None, call.function.cls if call.function is not None else None
    if cls is None or not isinstance(loop, ast.For) or ast.unparse(loop.target) != name:
        return set()
    chosen = any(outer.kind in ("if", "try") for outer in call.context.outwards())
    if chosen or not isinstance(loop.iter, ast.Attribute):
        return set()
    sets, forward = cls.attributes.get(loop.iter.attr, []), cls.find("forward")
    made = sets[0][1].value if len(sets) == 1 else None
    if forward is None or made is None or not _runs_through(forward, loop.iter):
        return set()
    calls = [node for node in walk(made) if isinstance(node, ast.Call) and node is not made]
    named = [cls.file.called(node, sets[0][1].context) for node in calls]
    layers = {layer for layer in named if layer in LEARNING}
    return layers if all(layer.startswith("torch.nn.") or layer in _COUNTS for layer in named) else set()


def _runs_through(forward: Function, layers: ast.Attribute) -> bool:
    """`for layer in self.layers: x = torch.relu(layer(x))`."""
    for loop in forward.nodes:
        over = loop.iter if isinstance(loop, ast.For) else None
        over = over.value if isinstance(over, ast.Subscript) else over
        if not isinstance(loop, ast.For) or not isinstance(over, ast.Attribute) or over.attr != layers.attr:
            continue
        for line in loop.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else None
            if isinstance(line, ast.Assign) and isinstance(target, ast.Name) and loads(line.value, target.id):
                plain = not any(isinstance(node, ast.BinOp) for node in walk(line.value))
                if plain and loads(line.value, ast.unparse(loop.target)):
                    return True
    return False


def _named_in(file: File, test: ast.expr, context: Context, name: str) -> str:
    """`Conv` of `classname.find("Conv") != -1` and of `"Conv" in classname`, where that is the class of `name`."""
    match test:
        case ast.Compare(
            left=ast.Call(func=ast.Attribute(value=held, attr="find"), args=[ast.Constant(value=str(found))]),
            ops=[ast.NotEq()],
            comparators=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))],
        ):
            pass
        case ast.Compare(left=ast.Constant(value=str(found)), ops=[ast.In()], comparators=[held]):
            pass
        case _:
            return ""
    made, _ = source(file, held, context)
    return found if ast.unparse(made) in (f"{name}.__class__.__name__", f"type({name}).__name__") else ""


def _is_about(test: ast.expr, name: str) -> bool:
    """`if m.bias is not None:`, `if m.affine:`: such a test keeps all layers of the kind."""
    words = {node.attr for node in walk(test) if isinstance(node, ast.Attribute)}
    simple = isinstance(test, ast.Compare | ast.Attribute)
    return simple and bool(words) and words <= {"bias", "weight", "affine"} and name in ast.unparse(test)


def _is_overwritten(file: File, call: Call, name: str) -> bool:
    """Whether a later statement of the same branch, or the same turn of a loop, fills the same weights anew."""
    block = next((outer.node for outer in call.context.outwards() if outer.kind in ("if", "loop")), None)
    nodes = (node for line in block.body for node in walk(line)) if isinstance(block, ast.If | ast.For) else iter(())
    return any(
        isinstance(node, ast.Call)
        and node.lineno > call.node.lineno
        and ".weight" in file.module.text_of(node)
        and f"{name}.weight" in ast.unparse(node)
        for node in nodes
    )


def _is_second(call: Call, name: str) -> bool:
    """Whether the same branch has filled the same weights before."""
    block = next((outer.node for outer in reversed(_branches(call)) if outer.kind == "if"), None)
    nodes = (node for line in block.body for node in walk(line)) if isinstance(block, ast.If) else iter(())
    return any(
        isinstance(node, ast.Call) and node.lineno < call.node.lineno and f"{name}.weight" in ast.unparse(node)
        for node in nodes
    )


def _branches(call: Call) -> list[Context]:
    """The branches around the call that a test of the class makes, innermost first."""
    found = []
    for outer in call.context.outwards():
        if outer.kind in ("function", "lambda", "loop"):
            break
        if isinstance(outer.node, ast.If) and outer.arm == "body":
            found.append(outer)
    return found
