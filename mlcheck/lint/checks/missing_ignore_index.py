"""missing-ignore-index: a model of padded tokens is trained to predict the padding."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Loss, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import OPEN, Call, Class, File, Sites
from mlcheck.lint.sites.data.collating import padded_by_collate
from mlcheck.lint.sites.data.copied_tokens import given_as_labels, tokenized_with_padding
from mlcheck.lint.sites.layers.reaching_layers import comes_to
from mlcheck.lint.values import Const, Object, traces_of

LOOKS_AT = "classification loss"
_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_TARGETS = pattern(r"\b(?:\w+_)?(?:tags?|labels?|targets?|tgts?|trg)\b")
_PAD_TOKEN = pattern(r"pad_token_id|pad_id|PAD_ID")
_ORDERS = pattern(
    r"view|reshape|flatten|permute|transpose|rearrange|movedim|swap|\.m?T\b|chunk|\[:, *\w+\]|\[(?:t|di|step|pos)\]"
)
_LOSSES = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _copied_labels(facts.sites)
    yield from _padded_for_transformers(facts.sites)
    yield from _other_number(facts)
    losses = [loss for loss in losses_of(facts, LOOKS_AT, *_LOSSES) if _counts_everything(loss)]
    if not losses or any(True for _ in facts.sites.mentioning(["ignore_index", "-100", "masked_select"], tests=True)):
        return
    models = facts.sites.once(_predict_padded_tokens)
    padded = next(((loss, found) for loss in losses if (found := _collated(facts.sites, loss)) is not None), None)
    if padded is None and len({loss.place.spot for loss in losses}) == 1:
        named = _padded_targets(facts.sites)
        padded = (losses[0], named.place) if named is not None else None
    if padded is not None:
        yield Finding(
            "The labels are padded, and the loss counts the padding too: the model learns to predict it",
            padded[0].place.location,
            help="pad them with -100, which the loss leaves out, or pass `ignore_index`",
            related=(padded[1].location,),
        )
        return
    for loss in losses:
        for model, padding, width in models:
            if (
                _is_by(loss, model, width)
                and not _is_masked(facts.sites, loss)
                and _is_of_positions(facts.sites, loss, model)
            ):
                yield Finding(
                    f"`{model.name}` pads its tokens with {padding}, and the loss counts those positions too: "
                    "the model learns to predict padding",
                    loss.place.location,
                    help=f"pass `ignore_index={padding}`",
                    related=(model.place.location,),
                )
                break


def _other_number(facts: Facts) -> Iterator[Finding]:
    """`CrossEntropyLoss(ignore_index=0)`, where the tokens, which the model predicts, are padded with 1."""
    if any(True for _ in facts.sites.mentioning(["masked_fill", ".where(", "== pad", "== PAD", "-100"], tests=True)):
        return
    padded = [call.constant("padding_value", 2, default=0) for call in facts.sites.calls(_PAD_SEQUENCE)]
    for loss in losses_of(facts, LOOKS_AT, *_LOSSES) if padded and len(set(padded)) == 1 else ():
        left_out = loss.settings.get("ignore_index")
        if not isinstance(left_out, Const) or not isinstance(padded[0], int) or left_out.value in (padded[0], -100):
            continue
        for model, call in facts.sites.once(_embeddings):
            if call.constant("padding_idx", 2) == padded[0] and _is_by(loss, model):
                yield Finding(
                    f"The sequences are padded with {padded[0]}, and the loss leaves out {left_out.value}: "
                    "the model learns to predict padding",
                    loss.place.location,
                    help=f"pass `ignore_index={padded[0]}`",
                    related=(call.place.location,),
                )
                break


def _padded_for_transformers(sites: Sites) -> Iterator[Finding]:
    """`pad_sequence(labels, padding_value=tokenizer.pad_token_id)` for a model of transformers, which ignores -100."""
    for call in sites.calls(_PAD_SEQUENCE):
        padding, file = call.argument("padding_value", 2), call.file
        given = ast.unparse(call.node.args[0]) if call.node.args else ""
        if padding is None or padding is OPEN or not _PAD_TOKEN.search(ast.unparse(padding)) or given != "labels":
            continue
        text = call.function.text if call.function is not None else file.text
        if "import transformers" not in file.text and "from transformers" not in file.text:
            continue
        if "labels ==" in text or "labels.eq(" in text or "masked_fill" in text or "where(" in text:
            continue
        if not any(True for _ in sites.mentioning(["ignore_index"], tests=True)):
            yield Finding(
                "The labels are padded with the padding token, and a model of transformers ignores -100 alone: "
                "it learns to predict padding",
                file.place(padding, call.context).location,
                help="`padding_value=-100` for the labels",
                related=(call.place.location,),
            )


def _copied_labels(sites: Sites) -> Iterator[Finding]:
    """`model(**batch, labels=batch["input_ids"])` of what a tokenizer has padded, where nothing says -100."""
    if any(True for _ in sites.mentioning(["-100", "DataCollator", "data_collator", "ignore_index"], tests=True)):
        return
    for file in sites.mentioning(["input_ids"]):
        for labels, context in given_as_labels(file):
            tokenized = tokenized_with_padding(file, labels, context)
            if tokenized is not None:
                yield Finding(
                    "The labels are padded tokens, padding included: the model learns to predict padding",
                    file.place(labels, context).location,
                    help="set them to -100 where `attention_mask` is 0: `labels.masked_fill(mask == 0, -100)`",
                    related=(file.place(tokenized, context).location,),
                )


def _padded_targets(sites: Sites) -> Call | None:
    """`pad_sequence(labels, ...)`, where no word is said of masks or lengths, but for how single samples are made."""
    words = ("mask", "length", "lens", "valid", "nonzero", "!= pad", "!= PAD", "pack_padded")
    if any(word in _beside_samples(file) for file in sites.mentioning(words, tests=True) for word in words):
        return None
    for call in sites.calls(_PAD_SEQUENCE):
        given = ast.unparse(call.node.args[0]) if call.node.args else ""
        names = " ".join(call.file.names_given(call.node))
        if re.search(r"\b(?:tags?|labels?|targets?)\b", given) or _TARGETS.search(names):
            return call
    return None


def _collated(sites: Sites, loss: Loss) -> Place | None:
    """Where a `collate_fn` pads what the loss is told to predict, of which no position is left out on the way."""
    call = sites.call_at(loss.place)
    target = call.argument("target", 1) if call is not None else None
    if call is None or target is None or target is OPEN:
        return None
    padded = padded_by_collate(call.file, target, call.context)
    number = padded.value if padded is not None else None
    return padded.place if padded is not None and isinstance(number, int | float) and number >= 0 else None


def _beside_samples(file: File) -> str:
    """The text of a file without its data sets, which know their samples before they are padded."""
    text = file.text
    for cls in file.classes:
        if "__getitem__" in cls.methods:
            text = text.replace(file.module.text_of(cls.node), "")
    return text


def _counts_everything(loss: Loss) -> bool:
    if set(loss.settings) & {"**", "ignore_index", "weight"}:
        return False
    return loss.settings.get("reduction", Const("mean")) == Const("mean")


def _predict_padded_tokens(sites: Sites) -> list[tuple[Class, str, str]]:
    """Modules that embed tokens with a padding index, and have an output for each; that index and their number."""
    return [
        (cls, ast.unparse(padding), ast.unparse(size))
        for cls, call in _embeddings(sites)
        for padding in _given(call, "padding_idx", 2)
        for size in _given(call, "num_embeddings", 0)
    ]


def _given(call: Call, name: str, position: int) -> list[ast.expr]:
    given = call.argument(name, position)
    return [given] if isinstance(given, ast.expr) else []


def _embeddings(sites: Sites) -> list[tuple[Class, Call]]:
    """The embeddings of such modules."""
    found = []
    for call in sites.calls("torch.nn.Embedding"):
        padding, size = call.argument("padding_idx", 2), call.argument("num_embeddings", 0)
        if call.cls is None or padding is None or size is None or padding is OPEN or size is OPEN:
            continue
        if isinstance(padding, ast.Constant) and padding.value is None:
            continue
        if any(_same(call, size, linear) for linear in sites.calls("torch.nn.Linear")):
            found.append((call.cls, call))
    return found


def _same(call: Call, size: ast.expr, linear: Call) -> bool:
    out = linear.argument("out_features", 1)
    return linear.cls is call.cls and out is not None and ast.unparse(out) == ast.unparse(size)


def _is_by(loss: Loss, model: Class, width: str = "") -> bool:
    """Whether the scores come from a call of this model; not of a method that comes to other outputs than those."""
    traces = [trace for trace in traces_of(loss.input) if isinstance(trace, Forward)]
    return any(
        isinstance(forward.module, Object)
        and forward.module.cls is not None
        and model.node in [base.node for base in forward.module.cls.mro]
        and (not width or comes_to(model, last_name(getattr(forward.place.node, "func", None)), width))
        for forward in traces
    )


def _is_of_positions(sites: Sites, loss: Loss, model: Class) -> bool:
    """Whether scores are put in the order that the loss takes: of one position for each sequence none need be."""
    return any(_ORDERS.search(text) for text in (_text_around(sites, loss), *(base.text for base in model.line)))


def _is_masked(sites: Sites, loss: Loss) -> bool:
    """Whether the function around the loss knows of a mask, or takes positions out."""
    text = _text_around(sites, loss)
    return not text or any(word in text for word in ("mask", "!= pad", "!= PAD", "nonzero", "ne(", "pack_padded"))


def _text_around(sites: Sites, loss: Loss) -> str:
    """The text of the function around a loss, or of the file."""
    line, file = getattr(loss.place.node, "lineno", 0), sites.at(loss.place.path)
    functions = file.functions if file is not None else ()
    around = [each.text for each in functions if each.node.lineno <= line <= (each.node.end_lineno or 0)]
    return around[-1] if around else file.text if file is not None else ""
