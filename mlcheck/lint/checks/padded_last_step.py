"""padded-last-step: the last position of a padded batch is taken for the last step of each sequence."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_name, last_name, stores_of
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.data.collating import padded_by_collate
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.layers.recurrent import Outputs, outputs
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.values import Object

LOOKS_AT = "padded sequence"
WORDS = ("pad_packed_sequence", "pad_sequence")
_OTHERWISE = ("pack_padded_sequence", "pack_sequence", "PackedSequence", "padding_side", ".flip(")
_LAST_STEP = (":, -1", ":, -1, :")
_UNPACK = "torch.nn.utils.rnn.pad_packed_sequence"


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(_UNPACK))
    facts.sites.seen[LOOKS_AT] = len(calls)
    yield from first_of_each_line(_never_packed(facts))
    for call in calls:
        first = call.constant("batch_first", 1, default=False)
        name = _padded(call)
        if call.function is None or not name or not isinstance(first, bool):
            continue
        for where, held in ((call, name), *_answered(facts, call, name)):
            for node in _last_of(where, where.function, held, first) if where.function is not None else ():
                yield Finding(
                    f"`{ast.unparse(node)}` is the last position of the padded batch: padding, for all but the longest",
                    where.file.place(node, where.context).location,
                    help="take the last state that the layer returns (`h_n[-1]`), or gather at `lengths - 1`",
                    related=(call.place.location,),
                )


def _answered(facts: Facts, call: Call, name: str) -> Iterator[tuple[Call, str]]:
    """`out, state = self.encode(x, lengths)`, a method that returns what it padded: the calls, and the name there."""
    answers = list(returns(call.function)) if call.function is not None else []
    if len(answers) != 1 or call.function is None:
        return
    parts = list(answers[0].elts) if isinstance(answers[0], ast.Tuple) else [answers[0]]
    places = [number for number, part in enumerate(parts) if is_name(part, name)]
    if len(places) != 1 or any(node.lineno > call.node.lineno for node in stores_of(call.function.nodes, name)):
        return
    for above in callers(facts.sites, call.function):
        for line in above.function.all(ast.Assign) if above.function is not None else ():
            target = line.targets[0] if line.value is above.node else None
            held = list(target.elts) if isinstance(target, ast.Tuple) else [target]
            if len(held) == len(parts) and isinstance(kept := held[places[0]], ast.Name):
                yield above, kept.id


def _never_packed(facts: Facts) -> Iterator[Finding]:
    """`out, _ = self.rnn(self.embed(tokens))` and `out[:, -1]` of tokens that are padded behind, and never packed."""
    if any(True for _ in facts.sites.mentioning(_OTHERWISE, tests=True)):
        return
    padding = list(facts.sites.calls("torch.nn.utils.rnn.pad_sequence"))
    embeddings = [
        call for call in facts.sites.calls("torch.nn.Embedding") if call.argument("padding_idx", 2) is not None
    ]
    for cls in dict.fromkeys(call.cls for call in embeddings if padding and call.cls is not None):
        names = {name for call in embeddings if call.cls is cls for name in cls.file.names_given(call.node)}
        for function in cls.methods.values():
            for node in function.nodes:
                whole = _of_last_step(node)
                made = outputs(cls.file, whole, function.inner) if whole is not None else None
                if made is None or made.batch_first is not True or not _is_fed_by(made, names):
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                yield _finding(function, node, padding[0].place)
    yield from _padded_by_collate(facts) if padding else ()


def _of_last_step(node: ast.AST) -> ast.expr | None:
    """`out` of `out[:, -1]`, `out[:, -1, :]` and `out.select(1, -1)`."""
    match node:
        case ast.Subscript(value=whole) if ast.unparse(node.slice).strip("()") in _LAST_STEP:
            return whole
        case ast.Call(func=ast.Attribute(value=whole, attr="select"), args=given, keywords=words):
            asked = [*given, *(word.value for word in sorted(words, key=lambda word: word.arg != "dim"))]
            return whole if [ast.unparse(each) for each in asked] == ["1", "-1"] else None
    return None


def _finding(function: Function, node: ast.AST, padding: Place) -> Finding:
    return Finding(
        f"`{ast.unparse(node)}` is the last position of a padded batch: padding, but for the longest",
        function.place(node).location,
        help="pack the batch and take the state, or gather the steps at `lengths - 1`",
        related=(padding.location,),
    )


def _padded_by_collate(facts: Facts) -> Iterator[Finding]:
    """A module that is called on what the `collate_fn` of a loader padded, and hands it to its layer as it comes."""
    padded: dict[ast.AST, Place] = {}
    for forward in facts.forwards:
        cls = forward.module.cls if isinstance(forward.module, Object) else None
        call = facts.sites.call_at(forward.place) if cls is not None else None
        made = padded_by_collate(call.file, call.node.args[0], call.context) if call and call.node.args else None
        if cls is not None and made is not None:
            padded[cls.node] = made.place
    for module in facts.sites.once(module_classes):
        function = module.methods.get("forward") if module.node in padded else None
        for node in function.nodes if function is not None else ():
            whole = _of_last_step(node)
            if function is None or whole is None:
                continue
            layer = outputs(module.file, whole, function.inner)
            if layer is not None and layer.batch_first is True and _is_fed_as_it_comes(layer, function):
                facts.sites.seen[LOOKS_AT] += 1
                yield _finding(function, node, padded[module.node])


def _is_fed_as_it_comes(made: Outputs, forward: Function) -> bool:
    """`self.rnn(x)`, and `self.rnn(self.embed(x))`, of the first that the module is given."""
    given, _ = source(forward.file, made.call.args[0], made.context)
    if isinstance(given, ast.Call) and own_attribute(given.func, forward) and len(given.args) == 1:
        sets = forward.cls.attribute(own_attribute(given.func, forward)) if forward.cls is not None else []
        kinds = [method.file.called(each.value, each.context) for method, each in sets]
        given = given.args[0] if kinds == ["torch.nn.Embedding"] else given
    return isinstance(given, ast.Name) and [given.id] == list(forward.parameters)[1:2]


def _is_fed_by(made: Outputs, names: set[str]) -> bool:
    """Whether the layer gets what one of these embeddings makes, as it is."""
    given, _ = source(made.layer.file, made.call.args[0], made.context)
    return isinstance(given, ast.Call) and last_name(given.func) in names


def _padded(call: Call) -> str:
    """The name that holds the padded tensor: `out` of `out, lengths = pad_packed_sequence(...)`."""
    for node in call.function.nodes if call.function is not None else ():
        if isinstance(node, ast.Assign) and node.value is call.node and isinstance(node.targets[0], ast.Tuple):
            held = node.targets[0].elts[0]
            return held.id if isinstance(held, ast.Name) else ""
    return ""


def _last_of(call: Call, function: Function, name: str, batch_first: bool) -> Iterator[ast.expr]:
    """Reads of the last position along time, before the name is bound anew."""
    bound = [node.lineno for node in stores_of(function.nodes, name)]
    end = min((line for line in bound if line > (call.node.end_lineno or 0)), default=10**9)
    for node in function.nodes:
        time = 1 if batch_first else 0
        match node:
            case ast.Subscript(value=inner, ctx=ast.Load(), slice=index):
                parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
                last = len(parts) > time and ast.unparse(parts[time]) == "-1"
                last = last and all(ast.unparse(part) == ":" for part in parts[:time])
            case ast.Call(func=ast.Attribute(value=inner, attr="select"), args=[dim, index]):
                last = ast.unparse(dim) == str(time) and ast.unparse(index) == "-1"
            case _:
                continue
        if last and is_name(inner, name) and call.node.lineno < inner.lineno <= end:
            yield node
