"""splits-overlap: training and validation are slices of the same data that share a part."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.data.all_nodes import unmasked
from mlcheck.lint.sites.data.drawn_past import drawn_past
from mlcheck.lint.sites.data.drawn_splits import drawn_by_each_rank
from mlcheck.lint.sites.data.hand_folds import cuts
from mlcheck.lint.sites.data.mirrored_slices import mirrored_slices
from mlcheck.lint.sites.data.redrawn_split import redrawn
from mlcheck.lint.sites.data.same_part import held_out_of_training, trained_on_held_out_part
from mlcheck.lint.sites.data.split_again import split_again
from mlcheck.lint.sites.data.trained_on_held_out import trained_on_held_out
from mlcheck.lint.values import split_of_name

LOOKS_AT = "split by slices"
_WINDOWS = ("lag", "context", "window", "series", "seqlen", "seq_len", "lookback", "look_back", "horizon", "history")
_SLICE = pattern(r"\[[^\[\]\n]*:[^\[\]\n]*\]")
_SHARE = pattern(r"int\((\d*\.\d+) \* (.+)\)|int\((.+) \* (\d*\.\d+)\)")


_ALL = pattern(r"^ *(?:\w+, *)*\w*train\w*(?:, *\w+)* = (?:\w+(?:, |$)|.*Subset\([^\[\n]*\b\w+\))", re.MULTILINE)
_TRAIN = pattern(r"train|trn", re.IGNORECASE)
_TAKEN_OUT = ("not in ", "setdiff", "difference", "isin", "delete", "remove")
_EVERYTHING = "*"
_NUMBERS = ("int", "len", "round")


class Slice(NamedTuple):
    """`data[low:high]` of one part of the data; a bound is a share of `whole`, or a number of items where that is #.

    Where `whole` is *, it is all of the data, under another name.
    """

    split: str
    made: Context
    node: ast.expr
    low: float
    high: float
    whole: str


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
        for scope, context in file.scopes():
            text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
            slices = _slices(file, scope, context, text) if _TRAIN.search(text) else {}
            for base, found in slices.items():
                facts.sites.seen[LOOKS_AT] += len(found)
                for held, learnt in _shared(found):
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


def _shared(found: list[Slice]) -> Iterator[tuple[Slice, Slice]]:
    for learnt in found:
        for held in found if learnt.split == "train" else ():
            shared = max(learnt.low, held.low) < min(learnt.high, held.high)
            together = learnt.whole == held.whole and not learnt.made.excludes(held.made)
            together = together or (learnt.whole == _EVERYTHING and learnt.made is held.made)
            together = together or (_meet(learnt.node, held.node) and learnt.made is held.made)
            if held.split != "train" and together and shared:
                yield held, learnt


def _meet(one: ast.expr, other: ast.expr) -> bool:
    """`order[:cut]` and `order[:other]`, `order[:cut]` and `order[start:cut]`: they begin or end with the same item."""
    parts = [node.slice for node in (one, other) if isinstance(node, ast.Subscript)]
    both = [part for part in parts if isinstance(part, ast.Slice) and part.step is None]
    if len(both) != 2:
        return False
    lower, upper = ([part.lower for part in both], [part.upper for part in both])
    return any(_is_same(*ends) for ends in (lower, upper))


def _is_same(one: ast.expr | None, other: ast.expr | None) -> bool:
    return one is other is None or (one is not None and other is not None and ast.unparse(one) == ast.unparse(other))


def _slices(file: File, scope: ast.AST, context: Context, text: str) -> dict[str, list[Slice]]:
    """The slices that are bound to a name of a split, by what they are taken of; none of what is bound twice."""
    nodes = file.nodes_in(scope)
    stored = {node.arg: 1 for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
    all_of = not any(word in text for word in _TAKEN_OUT)
    found: dict[str, list[Slice]] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        for target, value in _pairs(node.targets[0], node.value):
            split = split_of_name(target)
            parts = [part for part in walk(value) if isinstance(part, ast.Subscript)] if split else []
            counted = _counted(value) if any(isinstance(part.slice, ast.Slice) for part in parts) else set()
            order = _order(value, nodes)
            whole = split == "train" and all_of and _is_all(target, order, stored)
            bindings = file.bindings(target, context) if parts or whole else []
            made = next((binding.context for binding in bindings if binding.node is node), context)
            if whole:
                everything = Slice(split, made, value, 0.0, float("inf"), _EVERYTHING)
                found.setdefault(ast.unparse(order), []).append(everything)
            for part in parts:
                if isinstance(part.slice, ast.Slice) and part not in counted:
                    bounds = _bounds(part.slice) or _as_written(part.slice)
                    if bounds is not None and _are_settled(part, stored):
                        found.setdefault(ast.unparse(part.value), []).append(Slice(split, made, part, *bounds))
    return found


def _order(value: ast.expr, nodes: list[ast.AST]) -> ast.expr:
    """`order` of `Subset(data, order)`, where all subsets made there are of the same data."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "Subset" or len(value.args) != 2:
        return value
    subsets = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "Subset" and node.args]
    return value.args[1] if len({ast.unparse(each.args[0]) for each in subsets}) == 1 else value


def _is_all(target: str, value: ast.expr, stored: dict[str, int]) -> bool:
    """`train_index = order`, of an order that is bound once and is no split itself."""
    named = isinstance(value, ast.Name) and not split_of_name(value.id)
    return named and stored.get(target) == stored.get(ast.unparse(value)) == 1


def _counted(value: ast.expr) -> set[ast.AST]:
    """What only a number is made of: `lengths[:2]` in `torch.arange(sum(lengths[:2]), total)`."""
    calls = [node for node in walk(value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return {part for call in calls if ast.unparse(call.func) in ("sum", "len", "max", "min") for part in walk(call)}


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    elif isinstance(target, ast.Name):
        yield target.id, value


def _bounds(node: ast.Slice) -> tuple[float, float, str] | None:
    """Where it begins and ends, and of what these are shares."""
    if node.step is not None or (node.lower is None and node.upper is None):
        return None
    low = (0.0, "") if node.lower is None else _bound(node.lower)
    high = (float("inf"), "") if node.upper is None else _bound(node.upper)
    if low is None or high is None or (low[1] != high[1] and node.lower is not None and node.upper is not None):
        return None
    return low[0], high[0], low[1] or high[1] or "#"


def _as_written(node: ast.Slice) -> tuple[float, float, str] | None:
    """`order[:cut]` is all of `order[:cut]`, whatever that is, and cannot be compared with any other."""
    calls = any(isinstance(part, ast.Call) and last_name(part.func) not in _NUMBERS for part in walk(node))
    return None if calls or node.step is not None else (0.0, 1.0, ast.unparse(node))


def _are_settled(part: ast.Subscript, stored: dict[str, int]) -> bool:
    """Whether every name in it is bound once at most, so that it means the same wherever it is written."""
    return all(stored.get(name.id, 0) <= 1 for name in walk(part) if isinstance(name, ast.Name))


def _bound(node: ast.expr) -> tuple[float, str] | None:
    """A number from the front, or a share: `9000`, `int(0.8 * n)`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return float(node.value), "#"
    share = _SHARE.fullmatch(ast.unparse(node))
    if share is None:
        return None
    return float(share[1] or share[4]), share[2] or share[3]
