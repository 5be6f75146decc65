"""Judges whether a single input column gives the target away."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.contained import Channel, Contained, contained_target, is_left_out, target_channel
from mlcheck.probe.measure.data.examples import Examples, examples, target_fields
from mlcheck.probe.measure.data.giveaways import FEW, Giveaway, best_column
from mlcheck.probe.measure.data.label_tokens import LabelTokens, label_tokens
from mlcheck.probe.measure.data.overlapped import Overlapped
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.model.hidden_places import HiddenPlaces

NEARLY = {True: 0.99, False: 0.999}
WORSE = 0.03
SELDOM = 0.03
TIMES = 15
WORSE_BY_CLASS = 0.1


def check(passes: Passes, first: FirstLoss, overlapped: Overlapped | None, hidden: HiddenPlaces | None) -> Verdict:
    if overlapped is not None:
        return _overlapped(overlapped)
    if hidden is not None and hidden.asked and hidden.shown == hidden.asked:
        return _not_hidden(hidden)
    if (inside := contained_target(passes.training, first)) is not None:
        return _as_taught(inside) if passes.validation and is_left_out(inside, passes.validation) else _inside(inside)
    if (channel := target_channel(passes.training, first)) is not None:
        return _as_channel(channel)
    if (spoken := label_tokens(passes.training, first)) is not None:
        return _spoken(spoken)
    fields = target_fields(passes.training, first, first.picked)
    tables = [table for field in fields if (table := examples(passes.training, first, field))]
    if not tables:
        return Verdict(Outcome.SKIP, reason="there is no one target a sample beside inputs of one size")
    verdicts = [verdict for table in tables if (verdict := _by_columns(table))]
    if not verdicts:
        return Verdict(Outcome.SKIP, reason=f"fewer than {FEW} samples, or fewer than two columns that vary")
    return next((verdict for verdict in verdicts if verdict.outcome is Outcome.WARN), verdicts[0])


def _by_columns(table: Examples) -> Verdict | None:
    best = best_column(table)
    if best is None:
        return None
    name = table.column(best.column)
    measure = "accuracy" if table.classes else "R²"
    told = f"the most telling input, `{name}`, has {measure} {best.alone:.3f} by itself, the others {best.without:.3f}"
    numbers = {"alone": best.alone, "without": best.without}
    message = _fault(table, best, name)
    if not message:
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=len(table.y))
    finding = Finding(
        message,
        help="find out where this column comes from; leave it out unless it is known when a prediction is made",
        numbers=numbers,
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), numbers=numbers, looked_at=len(table.y))


def _overlapped(seen: Overlapped) -> Verdict:
    message = (
        f"the first {seen.places} of {seen.horizon} places that the loss compares are the last {seen.places} of the "
        f"input's {seen.length}, number for number, and the model's outputs depend on these: it only has to copy"
    )
    finding = Finding(message, seen.place, help="let the target begin where the input ends: check its slice")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.horizon)


def _not_hidden(seen: HiddenPlaces) -> Verdict:
    message = (
        f"the model sees what it has to fill in: {100 * seen.hidden:.3g} % of its outputs count in the loss, drawn at "
        f"random, and {seen.shown} of {seen.asked} that were tested depend on the very number of the batch that they "
        "are compared with"
    )
    help_ = "put the mask in the place of what it hides (torch.where) before the model mixes places, not beside it"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, seen.place, help=help_),), looked_at=seen.asked)


def _inside(seen: Contained) -> Verdict:
    low, high = min(seen.columns), max(seen.columns)
    message = (
        f"the target `{seen.target}` is part of the input `{seen.source}`: its {len(seen.columns)} numbers are among "
        f"numbers {low} to {high} of each input, in all of {seen.samples:,} samples"
    )
    help_ = "end the input where the target begins"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, help=help_),), looked_at=seen.samples)


def _as_taught(seen: Contained) -> Verdict:
    reason = (
        f"the target `{seen.target}` is part of the input `{seen.source}` in training alone, validation's inputs end "
        "before it: so a decoder is taught, and whether it looks ahead is not seen"
    )
    return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.samples)


def _as_channel(seen: Channel) -> Verdict:
    message = (
        f"the target `{seen.target}` is channel {seen.number} of the input `{seen.source}`, in all of "
        f"{seen.samples:,} samples"
    )
    finding = Finding(message, help="give the model the other channels only")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.samples)


def _spoken(seen: LabelTokens) -> Verdict:
    tokens = ", ".join(map(str, seen.tokens[:5])) + (", ..." if len(seen.tokens) > 5 else "")
    message = (
        f"`{seen.source}` contains its label: each class of `{seen.target}` has a token ({tokens}) that is in all "
        f"of its sequences and in no others, in {seen.samples:,} samples; other tokens predict "
        f"{100 * seen.rest:.3g} % of them"
    )
    help_ = "find out where these tokens come from; leave them out unless they are known when a prediction is made"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, help=help_),), looked_at=seen.samples)


def _fault(table: Examples, best: Giveaway, name: str) -> str:
    if not table.is_one_a_sample(best.column):
        return ""  # what a sample is a sum of may well tell what is asked of it
    if best.copied:
        return f"the input `{name}` is the target `{table.target}` itself, up to scale"
    if best.ordered and best.without < best.alone - WORSE:
        return (
            f"the input `{name}` orders all {len(table.y):,} samples as the target `{table.target}` does, without an "
            "exception: it is the target in another scale"
        )
    if best.coded:
        return (
            f"the input `{name}` has one value for each class of `{table.target}` in all of {len(table.y):,} samples: "
            "it is the label in another form"
        )
    if best.one_hot:
        names = ", ".join(f"`{table.column(column)}`" for column in best.one_hot[:3])
        more = ", ..." if len(best.one_hot) > 3 else ""
        return (
            f"the inputs {names}{more} are the label `{table.target}`, one-hot: in all of {len(table.y):,} samples "
            "each has one value for one class and another for all others"
        )
    if table.summarised or table.part(best.column).is_signal:
        return ""  # one line of a spectrum, or one spot of a picture, may be what there is to see
    sure = best.alone >= NEARLY[table.classes] and best.without < best.alone - WORSE
    far = table.classes and 1 - best.alone <= SELDOM and 1 - best.without > max(WORSE, TIMES * (1 - best.alone))
    if best.by_class and not (sure or far):
        return _by_class(table, name, *best.by_class)
    if sure or far:
        measure = f"{100 * best.alone:.4g} % of the labels" if table.classes else f"R² {best.alone:.4f} of the target"
        rest = f"{100 * best.without:.3g} %" if table.classes else f"R² {best.without:.3f}"
        return f"the input `{name}` alone gives {measure}, where the nearest neighbours in all others give {rest}"
    return ""


def _by_class(table: Examples, name: str, alone: float, without: float) -> str:
    """Where one class is rare, all that do not know it are right nearly always: the mean over the classes tells."""
    if alone < NEARLY[True] or without > alone - WORSE_BY_CLASS:
        return ""
    return (
        f"the input `{name}` alone gives {100 * alone:.4g} % of the labels of `{table.target}` (the mean over classes, "
        f"as one is rare), where the nearest neighbours in all others give {100 * without:.3g} %"
    )
