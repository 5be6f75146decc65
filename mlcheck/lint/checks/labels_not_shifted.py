"""labels-not-shifted: a language model is to tell the tokens that it is given, and not the next ones."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Loss
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import Call, Class, Context, File
from mlcheck.lint.sites.data.token_sources import plain, token_sources
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.layers.causal import decoder_input, predicts_ahead
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.values import Object, live, traces_of

LOOKS_AT = "loss of a language model"
WORDS = ("CrossEntropyLoss", "cross_entropy")
_LOSS = "torch.nn.CrossEntropyLoss"
_STATE = pattern(r"^(?:h|c|hx|hidden\w*|h_?\d|state\w*|\w*mask\w*|None|\w*len\w*|memory|mems?)$")
_DRAWS = pattern(r"rand|next\(|sample|shuffle|pop|read|choice|perm|noise|augment|mask")
_LIBRARY = ("CausalLM", "LMHeadModel")
_NEITHER = pattern(r"Bart|Pegasus|Marian|Blenderbot|TrOCR|Whisper|Musicgen|Mvp|ProphetNet|Speech2Text|XLNet|XLM|Bert")


def check(facts: Facts) -> Iterator[Finding]:
    told = set()
    for loss in losses_of(facts, LOOKS_AT, _LOSS):
        call = facts.sites.call_at(loss.place)
        if call is None or call.file.is_test or loss.place.spot in told:
            continue
        given, target = call.argument("input", 0), call.argument("target", 1)
        if not isinstance(given, ast.expr) or not isinstance(target, ast.expr):
            continue
        asked = _asked(call.file, given, call.context)
        tokens = _tokens(facts, loss, call, asked) if asked is not None else None
        if asked is not None and tokens is not None and _are_same(call.file, tokens, target, call.context):
            told.add(loss.place.spot)
            yield _finding(call, target, asked)
    for call, target in _with_loss_inside(facts):
        if call.place.spot not in told:
            told.add(call.place.spot)
            yield _finding(call, target, call.node)


def _finding(call: Call, target: ast.expr, asked: ast.Call) -> Finding:
    return Finding(
        "The targets are the very tokens that the model is given: it learns to repeat them, and not to tell the next "
        "ones",
        call.file.place(target, call.context).location,
        help="compare the answers to `tokens[:, :-1]` with `tokens[:, 1:]`",
        related=(call.file.place(asked, call.context).location,),
    )


def _with_loss_inside(facts: Facts) -> Iterator[tuple[Call, ast.expr]]:
    """`logits, loss = model(tokens, targets)`: the model compares its answers with what it is given second."""
    for forward in facts.forwards:
        call, node = facts.sites.call_at(forward.place), forward.place.node
        cls = _class_of(facts, forward)
        method = cls.find("forward") if cls is not None and isinstance(node, ast.Call) and len(node.args) > 1 else None
        if call is None or cls is None or method is None or call.file.is_test:
            continue
        second = [name for name in method.parameters if name != method.receiver][1:2]
        losses = [loss for loss in facts.losses if loss.place.node in method.nodes and loss.name == _LOSS]
        compared = [loss.place.node.args for loss in losses if isinstance(loss.place.node, ast.Call)]
        whole = [len(args) > 1 and is_name(plain(args[0]), ast.unparse(plain(args[0]))) for args in compared]
        if second and whole and all(whole) and all(is_name(plain(args[1]), second[0]) for args in compared):
            if predicts_ahead(cls) and _are_same(call.file, call.node.args[0], call.node.args[1], call.context):
                yield call, call.node.args[1]


def _asked(file: File, given: ast.expr, context: Context) -> ast.Call | None:
    """The call of the model, all of whose answers the loss gets."""
    node = plain(given)
    for _ in range(4):
        node, context = origin(file, node, context)
        inner = plain(node.value if isinstance(node, ast.Attribute) else node)
        if inner is node:
            break
        node = inner
    return node if isinstance(node, ast.Call) else None


def _tokens(facts: Facts, loss: Loss, call: Call, asked: ast.Call) -> ast.expr | None:
    """What a model that looks at nothing ahead is given, or what one decodes; None for any other model."""
    words = {word.arg: word.value for word in asked.keywords}
    if None in words:
        return None
    calls = {each for each in live(traces_of(loss.input)) if each.place.node is asked}
    alone = len(calls) == 1 and len(live(traces_of(loss.input))) == 1
    cls = _class_of(facts, next(iter(calls))) if alone else None
    forward = cls.find("forward") if cls is not None else None
    if cls is not None and forward is not None and (decoded := decoder_input(cls)):
        position = [name for name in forward.parameters if name != forward.receiver].index(decoded)
        given = Call(call.file, asked, call.context).argument(decoded, position)
        return given if isinstance(given, ast.expr) else None
    first = asked.args[0] if asked.args else words.get("input_ids")
    others = [*asked.args[1:], *(value for name, value in words.items() if name not in ("input_ids", "labels"))]
    if first is None or not all(_STATE.search(ast.unparse(each)) or _is_mask(each) for each in others):
        return None
    if _is_of_library(call.file, asked, call.context):
        return first
    return first if cls is not None and predicts_ahead(cls) else None


def _is_mask(node: ast.expr) -> bool:
    """`batch["attention_mask"]`, `True`."""
    return isinstance(node, ast.Constant) or "mask" in ast.unparse(node)


def _is_of_library(file: File, asked: ast.Call, context: Context) -> bool:
    """Whether it is a causal language model of Transformers for certain."""
    names = [each.name for each in origins(file, asked.func, context)]
    return bool(names) and all(
        name.startswith("transformers.") and any(word in name for word in _LIBRARY) and not _NEITHER.search(name)
        for name in names
    )


def _class_of(facts: Facts, forward: Forward) -> Class | None:
    return facts.sites.class_of(forward.module.cls) if isinstance(forward.module, Object) else None


def _are_same(file: File, tokens: ast.expr, target: ast.expr, context: Context) -> bool:
    """Whether both are one tensor: one name, or one expression behind it, in the data set too."""
    tokens, target = plain(tokens), plain(target)
    if _is_written_into(file, tokens, context, False) or _is_written_into(file, target, context, True):
        return False
    if ast.unparse(tokens) == ast.unparse(target) and not isinstance(tokens, ast.Call):
        return True
    sides = [list(token_sources(file, each, context)) for each in (tokens, target)]
    if not all(len(each) == 1 for each in sides) or any(_is_changed(side[0]) for side in sides):
        return False
    first, second = sides[0][0], sides[1][0]
    if isinstance(first.node, ast.Name) or first.item != second.item:
        return False
    return first.node is second.node or _are_written_alike(first, second)


def _are_written_alike(first: Origin, second: Origin) -> bool:
    """Whether two lines of a function cut the same out of the same data."""
    if first.file is not second.file or first.context.scope is not second.context.scope:
        return False
    if ast.dump(first.node) != ast.dump(second.node) or _DRAWS.search(ast.unparse(first.node)):
        return False
    names = {part.id for part in walk(first.node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    return all(len(first.file.bindings(name, first.context)) <= 1 for name in names)


def _is_changed(source: Origin) -> bool:
    """Whether what the data set returns was written into before."""
    function = source.file.function_around(source.context)
    nodes = function.nodes if function is not None else ()
    return function is not None and function.name == "__getitem__" and any(map(_writes, nodes))


def _writes(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return any(isinstance(target, ast.Subscript) for target in targets)


def _is_written_into(file: File, node: ast.expr, context: Context, is_target: bool) -> bool:
    """`tokens[mask] = 103`; `labels[labels == 0] = -100` only leaves some out."""
    function = file.function_around(context)
    name = next((part.id for part in walk(node) if isinstance(part, ast.Name)), "")
    for line in function.nodes if function is not None else walk(file.module.source.tree):
        targets = line.targets if isinstance(line, ast.Assign) else ()
        for target in targets:
            if isinstance(target, ast.Subscript) and is_name(target.value, name):
                assert isinstance(line, ast.Assign)
                if not is_target or any(isinstance(part, ast.Slice) for part in walk(target.slice)):
                    return True
    return False
