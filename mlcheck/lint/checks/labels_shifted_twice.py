"""labels-shifted-twice: labels are shifted by one for a model that shifts them itself."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "language model with labels"
WORDS = ("CausalLM", "LMHeadModel")
_UNSHIFTED = (  # decoders of translators and kin take their labels as they are
    *("Bart", "Pegasus", "Marian", "Blenderbot", "TrOCR", "Whisper", "Musicgen", "Mvp", "ProphetNet", "Speech2Text"),
    *("XLNet", "XLM", "Flaubert", "CpmAnt", "Output"),
)
_AHEAD = (":, 1:", "..., 1:")
_BEHIND = (":, :-1", "..., :-1")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    files = list(facts.sites.mentioning(WORDS))
    for file in facts.sites.mentioning(["labels="]) if files else ():
        for calls in file.walk.calls.values():
            for call, context in calls:
                words = {word.arg: word.value for word in call.keywords if word.arg is not None}
                if "labels" not in words or not ("input_ids" in words or call.args):
                    continue
                facts.sites.seen[LOOKS_AT] += 1
                ids = words["input_ids"] if "input_ids" in words else call.args[0]
                ahead = _cut(file, words["labels"], context, _AHEAD)
                if ahead and ahead == _cut(file, ids, context, _BEHIND) and _shifts(file, call, context):
                    yield Finding(
                        "The model shifts its labels itself: shifted here as well, they are two tokens ahead",
                        file.place(words["labels"], context).location,
                        help="pass the same tokens as `input_ids` and as `labels`",
                    )


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
    names = [origin.name for origin in origins(file, call.func, context)]
    return bool(names) and all(
        name.startswith("transformers.")
        and any(word in name for word in WORDS)
        and not any(kind in name for kind in _UNSHIFTED)
        for name in names
    )
