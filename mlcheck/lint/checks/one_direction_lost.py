"""one-direction-lost: the last step of a layer that reads both ways, of which one way has read a single step."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, reads_of, stores_of
from mlcheck.lint.sites import File, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.layers.recurrent import outputs, state_of

LOOKS_AT = "layer that reads both ways"
WORDS = ("bidirectional",)
_JOINS = ("torch.cat", "torch.concat", "torch.hstack")
_LAST = {True: ("(slice(None), -1)", ":, -1", ":, -1, :"), False: ("-1", "-1, :, :", "-1, :")}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not any(True for _ in facts.sites.mentioning(["bidirectional"])):
        return
    for cls in facts.sites.once(module_classes):
        for function in cls.methods.values():
            if "-1" in function.text:
                yield from _last_steps(facts, cls.file, function)
                yield from _last_state(facts, cls.file, function)
            if "cat" in function.text:
                yield from _same_state_twice(facts, cls.file, function)


def _last_steps(facts: Facts, file: File, function: Function) -> Iterator[Finding]:
    """`self.head(out[:, -1])`, where nothing takes the first step of the way back."""
    subscripts = [node for node in function.nodes if isinstance(node, ast.Subscript)]
    if any("0" in ast.unparse(node.slice) for node in subscripts if not isinstance(node.slice, ast.Constant)):
        return
    for node in subscripts:
        made = outputs(file, node.value, function.inner)
        if made is None or not made.both_ways or made.batch_first is None:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if ast.unparse(node.slice).strip("()") in _LAST[made.batch_first] and not _is_packed(function):
            yield Finding(
                f"`{ast.unparse(node)}` is the last step of both directions: the backward one has read only that step",
                function.place(node).location,
                help="`torch.cat([h[-2], h[-1]], dim=1)` of the state: the last of each direction",
                related=(made.layer.place.location,),
            )


def _last_state(facts: Facts, file: File, function: Function) -> Iterator[Finding]:
    """`_, h = self.rnn(x)` and `h[-1]`, where nothing else of `h` is read: that is the state of the way back alone."""
    for line in function.all(ast.Assign):
        target = line.targets[0]
        made = outputs(file, line.value, function.inner) if isinstance(target, ast.Tuple) else None
        if made is None or not made.both_ways or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        out, state = target.elts
        state = state.elts[0] if isinstance(state, ast.Tuple) else state
        if not isinstance(state, ast.Name) or not isinstance(out, ast.Name) or reads_of(function.nodes, out.id):
            continue
        reads = reads_of(function.nodes, state.id)
        parts = [n for n in function.all(ast.Subscript) if is_name(n.value, state.id) and ast.unparse(n.slice) == "-1"]
        if len(reads) == len(parts) == 1 and len(stores_of(function.nodes, state.id)) == 1:
            yield Finding(
                f"`{ast.unparse(parts[0])}` is the state of the way back alone: what the way forth has read is lost",
                function.place(parts[0]).location,
                help=f"`torch.cat([{state.id}[-2], {state.id}[-1]], dim=1)`",
                related=(made.layer.place.location,),
            )


def _same_state_twice(facts: Facts, file: File, function: Function) -> Iterator[Finding]:
    """`torch.cat([h[0], h[0]])` of the state of a layer that reads both ways, instead of `h[0]` and `h[1]`."""
    for call in function.all(ast.Call):
        parts = call.args[0].elts if call.args and isinstance(call.args[0], ast.Tuple | ast.List) else []
        if len(parts) != 2 or file.called(call, function.inner) not in _JOINS:
            continue
        made = [source(file, part, function.inner)[0] for part in parts]
        if not isinstance(made[0], ast.Subscript) or ast.unparse(made[0]) != ast.unparse(made[1]):
            continue
        layer = state_of(file, made[0].value, function.inner)
        if layer is not None and layer.both_ways:
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                f"Both halves are `{ast.unparse(made[0])}`: one direction is taken twice, and the other is lost",
                function.place(call).location,
                help="`torch.cat([h[-2], h[-1]], dim=1)` of the state: the last of each direction",
                related=(layer.layer.place.location,),
            )


def _is_packed(function: Function) -> bool:
    """Whether the sequences have lengths of their own: what their last step is then, is another question."""
    return "pack" in function.text
