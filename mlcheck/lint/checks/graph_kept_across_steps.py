"""graph-kept-across-steps: a step goes back through the graph of the step before it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Backward, Facts, Forward, Loop
from mlcheck.lint.nodes import is_none, walk
from mlcheck.lint.sites import AttributeSet, Call, Class, File, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.layers.carried_states import carried
from mlcheck.lint.sites.layers.modules import holds_parameters, module_classes
from mlcheck.lint.values import Object, owner_key

_LETS_GO = pattern(r"detach|repackage|\.data\b|no_grad")
LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    for backward in facts.backwards:
        for forward in backward.forwards:
            for earlier in forward.chained:
                if earlier.place.spot != forward.place.spot or {earlier.grad.kind, forward.grad.kind} != {"on"}:
                    continue
                if owner_key(earlier.module) != owner_key(forward.module):
                    continue  # a wrapper calls several modules in one line
                if _differentiated_before(facts, backward, forward, earlier) and not _may_let_go(facts, forward):
                    yield Finding(
                        f"`{forward.name}` is given its own result of the step before, with the graph behind it: "
                        "this backward goes through all earlier steps",
                        forward.place.location,
                        help="detach what one step hands to the next: `hidden = hidden.detach()`",
                        related=(backward.place.location,),
                    )
    yield from _kept_inside(facts)
    backwards = (call for file in facts.sites.mentioning([".backward("]) for call in file.calls("backward"))
    if not any(map(_ends_step, backwards)):
        return
    for method, assigned, name in (each for cls in facts.sites.once(module_classes) for each in carried(cls)):
        yield Finding(
            f"`self.{name}` is computed from what it was in the batch before, with the graph behind it: "
            "the next backward pass goes back through all earlier batches",
            method.place(assigned.node).location,
            help=f"drop the graph once the batch is done: `self.{name} = self.{name}.detach()`",
        )


def _may_let_go(facts: Facts, forward: Forward) -> bool:
    """Whether the module may cut what it hands out from its graph: its class does somewhere, or one that it may be."""
    module = forward.module
    if isinstance(module, Object):
        nodes = [base.node for base in module.cls.mro] if module.cls is not None else []
    else:
        nodes = [cls.node for cls in facts.sites.once(module_classes)]
    return any(_LETS_GO.search(ast.unparse(node)) for node in nodes)


def _differentiated_before(facts: Facts, backward: Backward, forward: Forward, earlier: Forward) -> bool:
    """Whether an earlier turn of a loop around all of this ran a backward through the earlier call."""
    return any(
        earlier in other.forwards
        and (loop := backward.when.later_turn(other.when)) is not None
        and forward.when.later_turn(earlier.when) is loop
        and not any(_LETS_GO.search(text) for text in _texts_around(facts, loop, forward))
        and (not _retains(backward) or any(loop.node is around.node for s in facts.steps for around, _ in s.when.loops))
        for other in facts.backwards
    )


def _texts_around(facts: Facts, loop: Loop, forward: Forward) -> Iterator[str]:
    """The loop, those around the call of the model, and the function that this call stands in."""
    yield from (ast.unparse(each.node) for each in (loop, *forward.loops))
    file, line = facts.sites.at(forward.place.path), forward.place.spot[1]
    for function in file.functions if file is not None else ():
        if function.node.lineno <= line <= (function.node.end_lineno or 0):
            yield function.text


def _retains(backward: Backward) -> bool:
    """`loss.backward(retain_graph=True)`: asked for, and for gradients alone where no optimizer steps."""
    keywords = getattr(backward.place.node, "keywords", ())
    return any(keyword.arg == "retain_graph" and ast.unparse(keyword.value) == "True" for keyword in keywords)


def _ends_step(backward: Call) -> bool:
    """Whether the graph goes with this, as nobody asks to keep it; or the optimizer steps before the next one."""
    if backward.argument("retain_graph", 1) is None:
        return True
    loop = backward.loops[:1]
    return any(loop and loop[0] in step.loops for step in backward.file.calls("step"))


def _kept_inside(facts: Facts) -> Iterator[Finding]:
    """A module that keeps its recurrent state, hands it to its layer again, and never lets go of its graph."""
    if not any(True for _ in facts.sites.mentioning([".backward("])):
        return
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        for name, sets in cls.attributes.items() if forward is not None else ():
            inside = [assigned for function, assigned in sets if function is forward]
            if len(inside) != 1 or len(sets) != 2 or forward is None:
                continue
            if not _feeds_itself(cls, inside[0], name) and not _queues(cls, forward, inside[0], name):
                continue
            if not _is_let_go(facts, forward, name):
                yield Finding(
                    f"`self.{name}` keeps the graph of its batch, and the next batch goes on from it",
                    forward.place(inside[0].node).location,
                    help=f"keep `{name}` without its graph: `detach()` it before it is kept",
                )


def _feeds_itself(cls: Class, assigned: AttributeSet, name: str) -> bool:
    """`y, self.hidden = self.lstm(x, self.hidden)`."""
    call = assigned.unpacked if assigned.unpacked is not None else assigned.value
    if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("self."):
        return False
    layer = cls.attributes.get(ast.unparse(call.func)[len("self.") :], [])
    made = layer[0][1].value if len(layer) == 1 else None
    recurrent = isinstance(made, ast.Call) and ast.unparse(made.func).rpartition(".")[2].startswith(
        ("LSTM", "GRU", "RNN")
    )
    return recurrent and any(ast.unparse(given) == f"self.{name}" for given in call.args)


def _queues(cls: Class, forward: Function, assigned: AttributeSet, name: str) -> bool:
    """`self.queue = torch.cat([keys, self.queue])[:size]` of what a layer of the module returned."""
    made = assigned.value.value if isinstance(assigned.value, ast.Subscript) else assigned.value
    if cls.file.called(made, assigned.context) != "torch.cat" or not isinstance(made, ast.Call) or not made.args:
        return False
    parts = made.args[0].elts if isinstance(made.args[0], ast.List | ast.Tuple) else []
    others = [part for part in parts if ast.unparse(part) != f"self.{name}"]
    reads = [node for node in forward.nodes if ast.unparse(node) == f"self.{name}" and node not in parts]
    return len(others) == 1 == len(parts) - 1 and len(reads) > 1 and _is_learned(cls, forward, others[0])


def _is_learned(cls: Class, forward: Function, node: ast.expr) -> bool:
    """Whether a layer with parameters made it, or what a function of torch made it of."""
    made, context = origin(cls.file, node, forward.inner)
    if not isinstance(made, ast.Call):
        return False
    layer = own_attribute(made.func, forward)
    sets = cls.attributes.get(layer, [])
    if layer:
        return (
            len(sets) == 1
            and sets[0][1].value is not None
            and holds_parameters(cls.file, sets[0][1].value, sets[0][1].context)
        )
    of_torch = cls.file.called(made, context).startswith("torch.nn.functional.")
    return of_torch and bool(made.args) and _is_learned(cls, forward, made.args[0])


def _is_let_go(facts: Facts, forward: Function, name: str) -> bool:
    """Whether anything else assigns the state or speaks of it: to reset it, to detach it."""
    word = re.compile(rf"\.{re.escape(name)}\b|[\"']{re.escape(name)}[\"']")
    spoken = sum(len(word.findall(file.text)) - _begun_by_epoch(file, name) for file in facts.sites.files.values())
    return spoken > len(word.findall(forward.text)) + 1 or bool(re.search(r"detach|\.data\b|no_grad", forward.text))


def _begun_by_epoch(file: File, name: str) -> int:
    """How often `net.hidden = None` stands outside of the loop over batches, as before each epoch."""
    if f".{name} = None" not in file.text or ".backward(" not in file.text:
        return 0
    found = 0
    for loop, _ in file.walk.loops:
        if isinstance(loop, ast.For) and any(_runs_backward(line) for line in loop.body if isinstance(line, ast.For)):
            begun = [line for line in loop.body if isinstance(line, ast.Assign) and is_none(line.value)]
            found += sum(
                isinstance(target, ast.Attribute) and target.attr == name for b in begun for target in b.targets
            )
    return found


def _runs_backward(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in walk(loop))
