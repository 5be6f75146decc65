"""Judges whether a model that predicts the next token, number or pixel can see it."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.next_values import NextValues
from mlcheck.probe.measure.model.raster import Raster
from mlcheck.probe.measure.model.sequences import NextToken
from mlcheck.probe.measure.model.upturned_masks import UpturnedMask


def check(
    seen: NextToken | None, values: NextValues | None, raster: Raster | None, upturned: UpturnedMask | None
) -> Verdict:
    leaking = next((one for one in (seen, values) if one and one.leaks), None)
    if upturned and leaking:
        return _upturned(upturned, leaking.tried)
    if seen is not None:
        return _of_tokens(seen)
    if values is not None:
        return _of_numbers(values)
    if raster is not None:
        return _of_pixels(raster)
    return Verdict(Outcome.SKIP, reason="no model is trained to predict, place by place, what comes next in its input")


def _upturned(mask: UpturnedMask, tried: int) -> Verdict:
    message = (
        f"the causal mask is the wrong way round: of {plural(mask.places, 'place')} each is shown those after it, "
        "which it has to predict, and none of those before it"
    )
    help_ = (
        "a boolean attn_mask of nn.MultiheadAttention and nn.TransformerEncoder is True where nobody may look: "
        "torch.triu(ones, diagonal=1); in scaled_dot_product_attention it is True where one may: torch.tril(ones)"
    )
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, mask.place, help=help_),), looked_at=tried)


def _of_numbers(seen: NextValues) -> Verdict:
    if not seen.leaks:
        told = f"outputs at {plural(seen.tried, 'place')} are the same whatever numbers come behind them"
        return Verdict(Outcome.PASS, told, looked_at=seen.tried)
    message = (
        f"the model sees the numbers it has to predict: the target is the series itself {plural(seen.ahead, 'place')} "
        f"later, and at {seen.leaks} of {plural(seen.tried, 'place')} the output changes when only later numbers are "
        "exchanged"
    )
    help_ = "pad convolutions on the left only, mask attention, read in one direction; scale by the past alone"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=help_),), looked_at=seen.tried)


def _of_pixels(seen: Raster) -> Verdict:
    if not seen.own:
        told = f"outputs at {plural(seen.tried, 'pixel')} depend on the pixels before them, and not on their own"
        return Verdict(Outcome.PASS, told, looked_at=seen.tried)
    message = (
        f"the model sees the pixel it has to predict: the target is its own input, and at {seen.own} of "
        f"{plural(seen.tried, 'pixel')} the output changes when that pixel alone is exchanged"
    )
    help_ = "leave the middle out of the first layer's mask (mask A), and only there; later layers may hold it (mask B)"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=help_),), looked_at=seen.tried)


def _of_tokens(seen: NextToken) -> Verdict:
    if seen.asked:
        message = (
            f"the model reads the tokens it has to predict: at all {seen.asked} places that the loss asks for the "
            "target is the input token itself, none of them is hidden"
        )
        finding = Finding(message, seen.place, help="hide these tokens in what the model reads, or shift the targets")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
    if seen.shift == 0:
        message = (
            f"the targets are the input tokens themselves, all {seen.length} of them at the same place: there is "
            "nothing to predict"
        )
        finding = Finding(message, seen.place, help="shift the targets by one: predict token t + 1 from tokens up to t")
        return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
    if not seen.leaks:
        return Verdict(
            Outcome.PASS,
            f"outputs at {plural(seen.tried, 'place')} are the same whatever tokens come behind them",
            looked_at=seen.tried,
        )
    where = f", first in `{seen.module}`" if seen.module else ""
    message = (
        f"the model sees the tokens it has to predict: at {seen.leaks} of {plural(seen.tried, 'place')} the "
        "output changes "
        f"when only later tokens are exchanged{where}"
    )
    finding = Finding(
        message,
        Location(symbol=seen.module.partition(" ")[0]),
        help="apply the causal mask before the softmax (is_causal=True), and check its direction",
    )
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.tried)
