"""splits-overlap: training and validation are slices of the same data that share a part."""

import ast
import re
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import File
from mlcheck.lint.sites.data.all_nodes import unmasked
from mlcheck.lint.sites.data.drawn_past import drawn_past
from mlcheck.lint.sites.data.drawn_splits import drawn_by_each_rank
from mlcheck.lint.sites.data.hand_folds import cuts
from mlcheck.lint.sites.data.mirrored_slices import mirrored_slices
from mlcheck.lint.sites.data.parts_of_two_draws import parts_of_two_draws
from mlcheck.lint.sites.data.redrawn_split import redrawn
from mlcheck.lint.sites.data.same_part import held_out_of_training, trained_on_held_out_part
from mlcheck.lint.sites.data.slices import shared, slices_of
from mlcheck.lint.sites.data.split_again import split_again
from mlcheck.lint.sites.data.trained_on_held_out import trained_on_held_out

LOOKS_AT = "split by slices"
_WINDOWS = ("lag", "context", "window", "series", "seqlen", "seq_len", "lookback", "look_back", "horizon", "history")
_SLICE = pattern(r"\[[^\[\]\n]*:[^\[\]\n]*\]")
_ALL = pattern(r"^ *(?:\w+, *)*\w*train\w*(?:, *\w+)* = (?:\w+(?:, |$)|.*Subset\([^\[\n]*\b\w+\))", re.MULTILINE)
_TRAIN = pattern(r"train|trn", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _of_same_part(facts)
    yield from chain(unmasked(facts.sites), trained_on_held_out(facts.sites), mirrored_slices(facts.sites))
    for call in drawn_by_each_rank(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "Each rank draws a split of its own, as nothing seeds it: what one rank holds out, the others train on",
            call.place.location,
            help="draw it with a seed that all ranks share",
        )
    for past in drawn_past(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"This is drawn from all of `{past.data}`, and so shares samples with `{past.held}`, which is set aside "
            f"above; nothing reads `{past.unread}`",
            past.second.place.location,
            help=f"split `{past.unread}` here",
            related=(past.first.place.location,),
        )
    for again in redrawn(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{ast.unparse(again.evaluation.node.func)}` calls `setup()` anew, which draws another split: "
            "most of its samples were trained on",
            again.split.place.location,
            help="pass `generator=torch.Generator().manual_seed(seed)`",
            related=(again.evaluation.place.location,),
        )
    for draws in parts_of_two_draws(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "Nothing seeds this split nor the one above, which is another: most of what is held out is trained on",
            draws.second.place.location,
            help="pass both the same `generator=torch.Generator().manual_seed(seed)`, made anew for each",
            related=(draws.first.place.location,),
        )
    for twice in split_again(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "This draws another split than the training did, without a seed: most of these samples were trained on",
            twice.tested.place.location,
            help="draw both with one seed, or save the indices of the split with the weights",
            related=(twice.trained.place.location,),
        )
    folds = set[Location]()
    for file in facts.sites.mentioning(["fold", "Fold", "FOLD"]):
        for finding in _held_out_and_kept(file) if "torch" in file.text and not file.is_test else ():
            folds.update(finding.related)
            yield finding
    for file in facts.sites.mentioning(["val", "test", "Val", "Test"]):
        if "torch" not in file.text or not _may_share(file.text) or file.is_test or _has_windows(file.text.lower()):
            continue
        yield from _by_slices(facts, file, folds)


def _by_slices(facts: Facts, file: File, folds: set[Location]) -> Iterator[Finding]:
    """`train = data[:n]` and `val = data[m:]`, but for folds that are cut by hand, which are told of beside."""
    for scope, context in file.scopes():
        text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
        slices = slices_of(file, scope, context, text) if _TRAIN.search(text) else {}
        for base, found in slices.items():
            facts.sites.seen[LOOKS_AT] += len(found)
            for held, learnt in shared(found):
                where = file.place(held.node, context).location
                if where in folds:
                    continue
                yield Finding(
                    f"`{ast.unparse(held.node)}` shares samples with `{ast.unparse(learnt.node)}`, "
                    "which the model is trained on",
                    where,
                    help=f"let one part of `{base}` begin where the other ends",
                    related=(file.place(learnt.node, context).location,),
                )


def _of_same_part(facts: Facts) -> Iterator[Finding]:
    """Loaders of both splits over the very same part of a data set."""
    for judged, trained in held_out_of_training(facts.sites):
        yield Finding(
            f"`{judged.names[0]}` brings the training part of the data set, which `{trained.names[0]}` brings too",
            judged.call.place.location,
            help="make its data set with `train=False`, or with the split that is meant",
            related=(trained.call.place.location,),
        )
    for learnt, judged in trained_on_held_out_part(facts.sites):
        yield Finding(
            f"`{learnt.names[0]}` brings the part of the data set that is held out, as `{judged.names[0]}` does",
            learnt.call.place.location,
            help="make its data set with `train=True`, or with the split that is meant",
            related=(judged.call.place.location,),
        )


def _held_out_and_kept(file: File) -> Iterator[Finding]:
    """`val = ids[i * n : (i + 1) * n]`, and `train = ids[: i * n] + ids[i * n :]`."""
    for scope, context in file.scopes():
        for cut in cuts(file.nodes_in(scope)):
            if (shared := cut.shared) is not None:
                yield Finding(
                    f"`{ast.unparse(shared)}` has the fold that is held out, `{ast.unparse(cut.held)}`: "
                    "the model is trained on it",
                    file.place(shared, context).location,
                    help="train on what lies before and after the fold",
                    related=(file.place(cut.held, context).location,),
                )


def _may_share(text: str) -> bool:
    """Whether a slice reaches to the end, several begin at one place, one is written twice, or training gets all."""
    if ":]" in text:
        return True
    slices = _SLICE.findall(text)
    ends = [end.strip("[] ") for part in slices for end in (part.partition(":")[0] + "<", part.rpartition(":")[2])]
    if len(set(ends)) < len(ends):
        return True
    return bool(slices) and _ALL.search(text) is not None


def _has_windows(text: str) -> bool:
    return any(word in text for word in _WINDOWS)
