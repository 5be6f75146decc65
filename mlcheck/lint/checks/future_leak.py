"""future-leak: a model that is to tell the next token sees it, as nothing hides what comes later."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.data.token_sources import are_next, plain
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.unmasked import unmasked_attention
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.values import Object, live, traces_of

LOOKS_AT = "loss of a language model"
WORDS = ("TransformerEncoder", "MultiheadAttention", "scaled_dot_product_attention")
_LOSS = "torch.nn.CrossEntropyLoss"


def check(facts: Facts) -> Iterator[Finding]:
    if not any(True for _ in facts.sites.mentioning(WORDS)):
        return
    told = set()
    for forward, compared in (*_outside(facts), *_inside(facts)):
        cls = facts.sites.class_of(forward.module.cls) if isinstance(forward.module, Object) else None
        call = unmasked_attention(cls) if cls is not None else None
        if call is not None and call.place.spot not in told:
            told.add(call.place.spot)
            yield Finding(
                "This attention sees the whole sequence, and the targets are the next tokens: the model learns to "
                "copy what it is to predict",
                call.place.location,
                help="`is_causal=True` with a mask of `generate_square_subsequent_mask`",
                related=(compared.place.location,),
            )


def _outside(facts: Facts) -> Iterator[tuple[Forward, Call]]:
    """`loss_fn(model(tokens), targets)`: the call of the model, and that of the loss."""
    for loss in losses_of(facts, LOOKS_AT, _LOSS):
        call, made_by = facts.sites.call_at(loss.place), live(traces_of(loss.input))
        forward = next(iter(made_by)) if len(made_by) == 1 else None
        if call is None or not isinstance(forward, Forward) or call.file.is_test:
            continue
        scores, targets = call.argument("input", 0), call.argument("target", 1)
        asked = facts.sites.call_at(forward.place)
        if (
            asked is None
            or not asked.node.args
            or not isinstance(scores, ast.expr)
            or not isinstance(targets, ast.expr)
        ):
            continue
        tokens = Origin(asked.file, asked.node.args[0], asked.context)
        if are_next(tokens, Origin(call.file, targets, call.context), _leaves_last_out(call, scores)):
            yield forward, call


def _leaves_last_out(call: Call, scores: ast.expr) -> bool:
    """`logits[:, :-1]`, also under a name."""
    node, _ = source(call.file, plain(scores), call.context)
    return isinstance(plain(node), ast.Subscript) and ":-1" in ast.unparse(node)


def _inside(facts: Facts) -> Iterator[tuple[Forward, Call]]:
    """`logits, loss = model(tokens, targets)`, where the model compares all its answers with what it is given."""
    losses = [loss for loss in facts.losses if loss.name == _LOSS]
    for forward in facts.forwards if losses else ():
        asked, node = facts.sites.call_at(forward.place), forward.place.node
        cls = facts.sites.class_of(forward.module.cls) if isinstance(forward.module, Object) else None
        method = cls.find("forward") if cls is not None and isinstance(node, ast.Call) and len(node.args) > 1 else None
        if asked is None or method is None or asked.file.is_test:
            continue
        second = [name for name in method.parameters if name != method.receiver][1:2]
        own = [loss.place.node for loss in losses if loss.place.node in method.nodes]
        compared = [each for each in own if isinstance(each, ast.Call) and len(each.args) > 1]
        if second and compared and all(is_name(plain(each.args[1]), second[0]) for each in compared):
            first, targets = (Origin(asked.file, each, asked.context) for each in asked.node.args[:2])
            if are_next(first, targets, cut=False):
                yield forward, Call(method.file, compared[0], method.inner)
