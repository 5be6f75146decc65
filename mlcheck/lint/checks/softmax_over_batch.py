"""softmax-over-batch: log-probabilities normalised over the samples of a batch reach a loss."""

import ast
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Forward, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.shapes.facts import Softmax
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.evaluation.winners import wrong_winners
from mlcheck.lint.sites.layers.aligned import over_no_symbols
from mlcheck.lint.sites.layers.batched_products import weighed_across
from mlcheck.lint.sites.layers.compared_rows import normalised_over_rows
from mlcheck.lint.sites.layers.drawing import drawn_from
from mlcheck.lint.sites.layers.first_dimension import MAY_TURN, dimension_of, is_over_first, normalised_over_samples
from mlcheck.lint.sites.layers.implied_dimension import over_samples
from mlcheck.lint.sites.layers.merged_rows import over_merged_rows
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.layers.picked_labels import answers_picked_along_other, labels_picked_along_other
from mlcheck.lint.sites.layers.pooling import pooled_elsewhere
from mlcheck.lint.sites.layers.routing import named_along_other, picked_along_other
from mlcheck.lint.sites.layers.scored_steps import has_samples_second, has_steps
from mlcheck.lint.sites.layers.softmax_layers import LOG_LAYERS, softmax_layer_calls
from mlcheck.lint.sites.layers.stacked import over_samples_of_stack
from mlcheck.lint.sites.layers.summed_elsewhere import summed_along_other
from mlcheck.lint.values import Object, Tensor

LOOKS_AT = "class loss"
_LOSSES = ("torch.nn.NLLLoss", "torch.nn.KLDivLoss", "torch.nn.CrossEntropyLoss")


def check(facts: Facts) -> Iterator[Finding]:
    told = set[tuple[str, int]]()
    multiplied = (*weighed_across(facts.sites), *_pooled(facts))
    for finding in (*_normalised(facts), *multiplied, *_implied(facts), *_aligned(facts), *_over_steps(facts)):
        spot = finding.location.path, finding.location.line
        if spot not in told:
            told.add(spot)
            yield finding


def _implied(facts: Facts) -> Iterator[Finding]:
    """`F.softmax(torch.bmm(q, k))`: without `dim`, of three dimensions the first is taken."""
    for call in facts.sites.once(over_samples):
        yield Finding(
            "A softmax without `dim` takes the first of these three dimensions, and that is the batch",
            call.place.location,
            help="`dim=-1`: each row of the product adds up to one by itself",
        )


def _pooled(facts: Facts) -> Iterator[Finding]:
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        for node in forward.nodes if forward is not None else ():
            if forward is not None and isinstance(node, ast.Call):
                yield from pooled_elsewhere(forward, node)


def _normalised(facts: Facts) -> Iterator[Finding]:
    yield from _winners(facts)
    yield from map(_finding, normalised_over_samples(facts.sites))
    yield from map(_finding, normalised_over_rows(facts.sites))
    yield from (_finding(place) for cls in facts.sites.once(module_classes) for place in over_merged_rows(cls))
    for place in (place for cls in facts.sites.once(module_classes) for place in over_samples_of_stack(cls)):
        yield Finding(
            "This normalises over the samples of the batch: dimension 1 is the batch, behind what was stacked",
            place.location,
            help="`dim=0`, which was stacked",
        )
    yield from _over_loaded_batch(facts)
    yield from _behind_steps(facts)
    named = (each for file in facts.sites.mentioning(["oftmax("]) for each in named_along_other(file))
    picked = (each for cls in facts.sites.classes for each in picked_along_other(cls))
    for file in facts.sites.mentioning(["og_softmax", "LogSoftmax"]):
        for summed in summed_along_other(file):
            yield Finding(
                f"This normalises over dimension 0, and what is weighed by it is summed over dimension {summed.dim}: "
                "no sample's probabilities add up to one",
                summed.softmax.place.location,
                help=f"`dim={summed.dim}`, as in the sum",
                related=(summed.sum.place.location,),
            )
    for file in facts.sites.mentioning([".gather("]):
        for softmax, _ in labels_picked_along_other(file):
            yield _finding(softmax.place)
        for softmax, pick in answers_picked_along_other(file):
            yield Finding(
                "This normalises over dimension 0, and of its answer one is picked along dimension 1 for each row",
                softmax.place.location,
                help="`dim=-1`: each row adds up to one over what is picked from",
                related=(file.place(pick, softmax.context).location,),
            )
    for softmax, pick in chain(picked, named):
        yield Finding(
            "This normalises over dimension 0, and the largest are then picked along another: rows are not comparable",
            softmax.place.location,
            help="`dim=-1`: each row adds up to one over what is picked from",
            related=(softmax.file.place(pick, softmax.context).location,),
        )
    for loss in losses_of(facts, LOOKS_AT, *_LOSSES):
        scores = loss.input
        if not isinstance(scores, Tensor) or scores.place is None:
            continue
        call = facts.sites.call_at(scores.place)
        if scores.kind not in ("softmax", "log_softmax") or not is_over_first(call) or _is_of_other_rows(call):
            continue
        if scores.shape is not None and not scores.shape.open and len(scores.shape.dims) < 2:
            continue
        if loss.name == "torch.nn.NLLLoss" or (scores.shape is not None and len(scores.shape.dims) > 1):
            yield Finding(
                f"`{scores.kind}` over dimension 0 normalises over the samples of the batch, not over the classes",
                scores.place.location,
                help="use `dim=1`, or `dim=-1` where the classes come last",
                related=(loss.place.location,),
            )


def _behind_steps(facts: Facts) -> Iterator[Finding]:
    """`self.out(hidden).view(steps, batch, n).softmax(1)`, of a recurrent layer that has time first."""
    for file in facts.sites.mentioning(["oftmax("]):
        for call in (*file.calls("softmax", "log_softmax"), *softmax_layer_calls(file, LOG_LAYERS)):
            if dimension_of(call) in (1, -2) and has_samples_second(call):
                yield Finding(
                    "This normalises over the samples of the batch: the recurrent layer gives (steps, samples, width)",
                    call.place.location,
                    help="`dim=-1`: each step of each sample adds up to one by itself",
                )


def _over_steps(facts: Facts) -> Iterator[Finding]:
    """`log_softmax(self.out(hidden), dim=1)` of (samples, steps, classes), on its way to `NLLLoss`."""
    for loss in (each for each in facts.losses if each.name == "torch.nn.NLLLoss"):
        scores = loss.input
        normalised = scores.place if isinstance(scores, Tensor) and scores.kind == "log_softmax" else None
        call = facts.sites.call_at(normalised) if normalised is not None else None
        if call is not None and dimension_of(call) in (1, -2) and has_steps(call):
            yield Finding(
                "This normalises over the steps of the sequence: the classes are the last of three dimensions",
                call.place.location,
                help="`dim=-1`: the scores of each step add up to one",
                related=(loss.place.location,),
            )


def _is_of_other_rows(call: Call | None) -> bool:
    """Whether dimension 0 may be another than that of the samples: they are turned round, or come one by one."""
    function = call.function if call is not None else None
    if call is None or function is None:
        return False
    one_by_one = any(outer.kind == "comprehension" for outer in call.context.outwards()) or bool(call.loops)
    joined = any(word in function.text for word in ("stack(", "cat("))
    return (one_by_one and joined) or any(word in function.text for word in MAY_TURN)


def _aligned(facts: Facts) -> Iterator[Finding]:
    for loss in (each for each in facts.losses if each.name == "torch.nn.CTCLoss"):
        facts.sites.seen[LOOKS_AT] += 1
        call = facts.sites.call_at(loss.place)
        softmax = over_no_symbols(call) if call is not None else None
        if softmax is not None:
            yield Finding(
                "The CTC loss takes (frames, samples, symbols), and this normalises over one of the first two",
                softmax.place.location,
                help="`dim=-1`, where the symbols come last",
                related=(loss.place.location,),
            )


def _over_loaded_batch(facts: Facts) -> Iterator[Finding]:
    """`model(x).softmax(0)` of several scores for each sample of a batch that a loader gave."""
    for softmax in facts.softmaxes:
        known = len(softmax.shape.dims) > (0 if softmax.shape.open else 1)
        classes = softmax.shape.dims[-1] if known else None
        if _is_over_picture(softmax):
            yield Finding(
                "This normalises along one side of the picture: the classes of a convolution's output are dimension 1",
                softmax.place.location,
                help="use `dim=1`",
            )
        if softmax.dim != 0 or not isinstance(classes, int) or classes < 2:
            continue
        loaded = bool(softmax.calls) and all(_is_of_loader(call) and not _turns(facts, call) for call in softmax.calls)
        drawn = not softmax.shape.open and softmax.place.node in facts.sites.once(drawn_from)
        other_ways = any(_is_its_other_way(softmax, other) for other in facts.softmaxes)
        if loaded or drawn or (_is_of_samples(softmax) and not other_ways):
            yield _finding(softmax.place)


def _is_of_samples(softmax: Softmax) -> bool:
    """Whether dimension 0 still is, by its very size, the one that a loader put its samples in."""
    first = softmax.shape.dims[0]
    return not softmax.shape.open and isinstance(first, tuple) and first[0] == "batch"


def _is_its_other_way(softmax: Softmax, other: Softmax) -> bool:
    """A softmax of the same scores over the classes: samples and classes are matched, one against the other."""
    return other.place.symbol == softmax.place.symbol and other.shape == softmax.shape and other.dim != 0


def _is_over_picture(softmax: Softmax) -> bool:
    """`model(images).softmax(-1)`, where that is (batch, classes, height, width) straight out of a convolution."""
    dims = softmax.shape.dims
    several = len(dims) == 4 and not softmax.shape.open and isinstance(dims[1], int) and dims[1] > 1
    if not (several and softmax.raw):
        return False
    return bool(softmax.calls) and dims[2:] == (None, None) and softmax.dim in (-1, -2, 2, 3)


def _is_of_loader(call: Forward) -> bool:
    """Whether the model is called on what a loop over a loader brings."""
    loop = call.loop.node if call.loop is not None else None
    return isinstance(loop, ast.For) and "loader" in ast.unparse(loop.iter).lower()


def _turns(facts: Facts, call: Forward) -> bool:
    """Whether code of the model, or where it is called, moves dimensions about."""
    cls = call.module.cls if isinstance(call.module, Object) else None
    texts = [file.text for file in facts.sites.files.values() if file.path == call.place.path]
    if cls is not None:
        texts += [ast.unparse(base.node) for base in cls.mro]
    return any(word in text for text in texts for word in MAY_TURN)


def _finding(place: Place) -> Finding:
    return Finding(
        "This normalises over the samples of the batch: dimension 0 is the batch",
        place.location,
        help="give the dimension that is to add up to one",
    )


def _winners(facts: Facts) -> Iterator[Finding]:
    calls = frozenset(forward.place.node for forward in facts.forwards)
    for won in wrong_winners(facts.sites, calls):
        yield Finding(
            "`argmax` over dimension 0 names a sample for each class, not a class for each sample",
            won.place.location,
            help="`argmax(dim=1)`, or `dim=-1` where the classes come last",
            related=(won.compared.location,),
        )
