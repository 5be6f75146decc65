"""kl-input-not-log: KL divergence gets probabilities where it expects their logarithms, or the other way round."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts, Loss, Place
from mlcheck.lint.judging import losses_of
from mlcheck.lint.values import Const, Tensor

LOOKS_AT = "KL divergence loss"
WORDS = ("kl_div", "KLDivLoss")
_LOGS = ("log_softmax", "log_sigmoid")
_PROBABILITIES = ("softmax", "sigmoid")


def check(facts: Facts) -> Iterator[Finding]:
    for loss in losses_of(facts, LOOKS_AT, "torch.nn.KLDivLoss"):
        scores = loss.input
        if _is_swapped(loss):
            yield Finding(
                "KL divergence gets the probabilities first and the log-probabilities second: it takes them the other "
                "way round",
                loss.place.location,
                help="the log-probabilities of the model first, the probabilities that it is to come to second",
            )
            continue
        if isinstance(scores, Tensor) and scores.place and scores.kind in (*_PROBABILITIES, "raw"):
            what = "raw scores" if scores.kind == "raw" else f"the probabilities of `{scores.kind}`"
            yield Finding(
                f"KL divergence gets {what} as its input, and it expects log-probabilities",
                (loss.place if scores.kind == "raw" or _shares_maker(loss) else scores.place).location,
                help="use `log_softmax` for the input (the first argument); the target stays a probability",
                related=(loss.place.location,),
            )
        target = loss.target
        if isinstance(target, Tensor) and target.place:
            log_target = _log_target(loss)
            if target.kind in _LOGS and log_target is False:
                yield Finding(
                    f"KL divergence gets the log-probabilities of `{target.kind}` as its target without `log_target`",
                    _where(target.place, loss),
                    help="use `softmax` for the target, or pass `log_target=True`",
                    related=(loss.place.location,),
                )
            elif target.kind in _PROBABILITIES and log_target is True:
                yield Finding(
                    f"KL divergence gets the probabilities of `{target.kind}` as its target, and `log_target` is on",
                    _where(target.place, loss),
                    help="use `log_softmax` for the target, or leave `log_target` out",
                    related=(loss.place.location,),
                )


def _is_swapped(loss: Loss) -> bool:
    kinds = [given.kind if isinstance(given, Tensor) else "" for given in (loss.input, loss.target)]
    return kinds[0] in _PROBABILITIES and kinds[1] in _LOGS and _log_target(loss) is False


def _shares_maker(loss: Loss) -> bool:
    """Whether one line makes both: `kl_div(soften(a), soften(b))`, where the second is right to be a probability."""
    made = [given.place for given in (loss.input, loss.target) if isinstance(given, Tensor) and given.place]
    return len(made) == 2 and made[0].spot == made[1].spot


def _where(place: Place, loss: Loss) -> Location:
    """Where the target is made, if that is beside the loss: a function that makes it may make the input as well."""
    return (place if place.path == loss.place.path and place.symbol == loss.place.symbol else loss.place).location


def _log_target(loss: Loss) -> bool | None:
    """Whether the target is to be in log space; None when it cannot be known."""
    if "**" in loss.settings:
        return None
    given = loss.settings.get("log_target")
    if given is None:
        return False
    return bool(given.value) if isinstance(given, Const) else None
