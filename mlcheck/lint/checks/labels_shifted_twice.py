"""labels-shifted-twice: labels are shifted by one for a model that shifts them itself."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.data.shifted import AS_IT_IS, shifted_by_sample, shifted_in_batch
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.values import Object, live, traces_of

LOOKS_AT = "language model with labels"
_MODELS = ("CausalLM", "LMHeadModel")
WORDS = ("CausalLM", "LMHeadModel", "cross_entropy", "CrossEntropyLoss")
_UNSHIFTED = (  # decoders of translators and kin take their labels as they are
    *("Bart", "Pegasus", "Marian", "Blenderbot", "TrOCR", "Whisper", "Musicgen", "Mvp", "ProphetNet", "Speech2Text"),
    *("XLNet", "XLM", "Flaubert", "CpmAnt", "Output"),
)
_AHEAD = (":, 1:", "..., 1:")
_BEHIND = (":, :-1", "..., :-1")
_SCORES_BEHIND = (*_BEHIND, ":, :-1, :", "..., :-1, :")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _shifted_by_data(facts)
    files = list(facts.sites.mentioning(_MODELS))
    yield from _unpacked(facts) if files else ()
    for file in facts.sites.mentioning(["labels="]) if files else ():
        for calls in file.walk.calls.values():
            for call, context in calls:
                words = {word.arg: word.value for word in call.keywords if word.arg is not None}
                if "labels" not in words or not ("input_ids" in words or call.args):
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                ids = words["input_ids"] if "input_ids" in words else call.args[0]
                ahead = _cut(file, words["labels"], context, _AHEAD)
                cut = ahead != "" and ahead == _cut(file, ids, context, _BEHIND)
                if (cut or shifted_by_sample(file, words["labels"], context)) and _shifts(file, call, context):
                    yield Finding(
                        "The model shifts its labels itself: shifted here as well, they are two tokens ahead",
                        file.place(words["labels"], context).location,
                        help="pass the same tokens as `input_ids` and as `labels`",
                    )


def _unpacked(facts: Facts) -> Iterator[Finding]:
    """`model(**batch)`, where the data set has put the `labels` of its samples one token ahead of their `input_ids`."""
    for file in facts.sites.mentioning(["(**", ", **"]):
        for call in (Call(file, *each) for calls in file.walk.calls.values() for each in calls):
            batch = next((word.value for word in call.node.keywords if word.arg is None), None)
            if not isinstance(batch, ast.Name) or not _shifts(file, call.node, call.context):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            shifted = shifted_in_batch(file, batch, call.context, "labels")
            if shifted is not None:
                yield Finding(
                    "The model shifts its labels itself, and the data set has done so: they are two tokens ahead",
                    call.place.location,
                    help="give the same tokens as `input_ids` and as `labels`",
                    related=(shifted.file.place(shifted.node, shifted.context).location,),
                )


def _shifted_by_data(facts: Facts) -> Iterator[Finding]:
    """`cross_entropy(logits[:, :-1], targets[:, 1:])` of targets that the data set has put one token ahead."""
    told = set()
    for loss in facts.losses:
        call = facts.sites.call_at(loss.place) if loss.name == "torch.nn.CrossEntropyLoss" else None
        scores, target = (call.argument("input", 0), call.argument("target", 1)) if call is not None else (None, None)
        if call is None or not isinstance(scores, ast.expr) or not isinstance(target, ast.expr):
            continue
        behind, ahead = _sliced(call, scores, _SCORES_BEHIND), _sliced(call, target, _AHEAD)
        if behind is None or ahead is None or loss.place.spot in told:
            continue
        asked = [each.place.node for each in live(traces_of(loss.input))]
        if any(ast.unparse(ahead) in map(ast.unparse, each.args) for each in asked if isinstance(each, ast.Call)):
            continue
        handed = list(_handed(facts, call, ahead))
        shifted = [shifted_by_sample(*each) for each in handed]
        if shifted and shifted[0] is not None and all(shifted):
            facts.sites.seen[LOOKS_AT] += 1
            told.add(loss.place.spot)
            yield Finding(
                "The targets are put one token ahead here, and the data set has done so before: they are two ahead",
                loss.place.location,
                help="compare the scores with the targets as they are",
                related=(shifted[0].file.place(shifted[0].node, shifted[0].context).location,),
            )


def _sliced(call: Call, node: ast.expr, slices: tuple[str, ...]) -> ast.expr | None:
    """`ids` of `ids[:, 1:].flatten()`."""
    plain, context = source(call.file, before_methods(node, AS_IT_IS), call.context)
    plain = source(call.file, before_methods(plain, AS_IT_IS), context)[0]
    sliced = isinstance(plain, ast.Subscript) and ast.unparse(plain.slice).strip("()") in slices
    return plain.value if sliced and isinstance(plain, ast.Subscript) else None


def _handed(facts: Facts, loss: Call, target: ast.expr) -> Iterator[tuple[File, ast.expr, Context]]:
    """The value itself; where it is what a `forward` is given, all that calls of its module hand over.

    Not what such a call hands over as the input, too: that is shifted here alone.
    """
    function = loss.function
    given_in = function.parameters if function is not None and function.name == "forward" else {}
    if function is None or not isinstance(target, ast.Name) or target.id not in given_in:
        yield loss.file, target, loss.context
        return
    position = [name for name in function.parameters if name != function.receiver].index(target.id)
    for forward in facts.forwards:
        cls = forward.module.cls if isinstance(forward.module, Object) else None
        method, call = cls.find("forward") if cls is not None else None, facts.sites.call_at(forward.place)
        given = call.argument(target.id, position) if call is not None else None
        if call is None or method is None or method.node is not function.node or not isinstance(given, ast.expr):
            continue
        if [ast.unparse(each) for each in call.node.args].count(ast.unparse(given)) < 2:
            yield call.file, given, call.context


def _cut(file: File, node: ast.expr, context: Context, slices: tuple[str, ...]) -> str:
    """`ids` of `ids[:, 1:]`, through names, copies and moves."""
    node, context = source(file, node, context)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in ("clone", "contiguous", "to", "cuda", "long"):
            return ""
        node, context = source(file, node.func.value, context)
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice).strip("()") in slices:
        return ast.unparse(node.value)
    return ""


def _shifts(file: File, call: ast.Call, context: Context) -> bool:
    """Whether what is called is a language model of Transformers, as far as it can be followed."""
    found = origins(file, call.func, context)
    names = [each._replace(node=before_methods(each.node, ("to", "cuda", "train", "eval"))).name for each in found]
    return bool(names) and all(
        name.startswith("transformers.")
        and any(word in name for word in _MODELS)
        and not any(kind in name for kind in _UNSHIFTED)
        for name in names
    )
