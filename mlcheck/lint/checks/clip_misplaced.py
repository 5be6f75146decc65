"""clip-misplaced: gradients are clipped where there are none yet, where the step has taken them, or shard by shard."""

import ast
from collections.abc import Iterator, Mapping

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Clip, Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.training.clipped_modules import of_other_argument, of_other_module
from mlcheck.lint.sites.training.clipping import after_step, before_backward
from mlcheck.lint.sites.training.crossed_clips import crossed
from mlcheck.lint.sites.training.sharded_clips import sharded_clips
from mlcheck.lint.sites.training.windows import measures

Spot = tuple[str, int, int]

LOOKS_AT = "gradient clipping"
WORDS = ("clip_grad", ".grad")
_WHY = {
    "used": ("after the step that uses them", "move it between `backward()` and the optimizer's `step()`"),
    "clean": ("before `backward()` has filled them", "move it behind `backward()`, before the optimizer's `step()`"),
}


def check(facts: Facts) -> Iterator[Finding]:
    for of_other, clipped, stepped, step in (*of_other_module(facts.sites), *of_other_argument(facts.sites)):
        yield Finding(
            f"This clips the gradients of `{ast.unparse(clipped)}`, and the optimizer steps on those of "
            f"`{ast.unparse(stepped)}`",
            of_other.place.location,
            help="clip the parameters that this optimizer was made with",
            related=(step.place.location,),
        )
    for sharded, model in sharded_clips(facts.sites):
        yield Finding(
            f"Each rank clips its own shard of `{ast.unparse(model)}` by the norm of that shard: the ranks scale their "
            "parts of one gradient differently",
            sharded.place.location,
            help=f"`{ast.unparse(model)}.clip_grad_norm_(...)`, which computes the norm over all ranks",
        )
    yield from _crossed(facts)
    walks: dict[Spot, list[Clip]] = {}
    for clip in facts.clips:
        walks.setdefault(clip.place.spot, []).append(clip)
    for clips in walks.values():
        last = clips[-1]
        kinds = {grads.kind for clip in clips for grads in clip.grads}
        if (
            not all(clip.grads for clip in clips)
            or not kinds <= {"used", "clean"}
            or measures(facts.sites.call_at(last.place))
            or (kinds != {"used"} and _is_filled_by_another(facts, facts.sites.call_at(last.place)))
        ):
            continue
        when, mend = _WHY["used" if kinds == {"used"} else "clean"]
        yield Finding(
            f"`{last.name.rpartition('.')[2]}` clips the gradients {when}: it limits nothing",
            last.place.location,
            help=mend,
            related=tuple(sorted({grads.step.location for grads in last.grads if grads.step})),
        )
    yield from _as_written(facts, walks)


def _crossed(facts: Facts) -> Iterator[Finding]:
    """One clip that is not of what is stepped next; of two that are crossed with each other, the optimizers are."""
    found = list(crossed(facts.sites))
    pairs = {(each.clipped, each.stepped) for each in found}
    for each in found:
        swapped = (each.stepped, each.clipped) in pairs
        yield Finding(
            f"`{each.clipped}` is clipped here, and the step behind it is along the gradients of `{each.stepped}`"
            if not swapped
            else f"This holds `{each.stepped}`, and steps where the gradients of `{each.clipped}` were clipped; "
            "another optimizer does the reverse",
            (each.made if swapped else each.clip).place.location,
            help="exchange what the two optimizers are made with" if swapped else f"clip `{each.stepped}`",
            related=(each.clip.place.location if swapped else each.made.place.location, each.step.place.location),
        )


def _is_filled_by_another(facts: Facts, clip: Call | None) -> bool:
    """Whether a backward pass stands above it in its block, whose gradients reach no optimizer that is known."""
    calls = [facts.sites.call_at(backward.place) for backward in facts.backwards if not backward.reached]
    return clip is not None and any(
        call is not None
        and call.function is clip.function
        and [loop.node for loop in call.loops] == [loop.node for loop in clip.loops]
        and call.node.lineno < clip.node.lineno
        for call in calls
    )


def _as_written(facts: Facts, walks: Mapping[Spot, list[Clip]]) -> Iterator[Finding]:
    """What the text places wrongly, where nothing is known of the gradients by then."""
    for each in after_step(facts.sites):
        followed = walks.get(each.clip.place.spot, ())
        kinds = {grads.kind for clip in followed for grads in clip.grads}
        unknown = not followed or ("unknown" in kinds and kinds <= {"unknown", *_WHY})
        if (each.always or unknown) and not measures(each.clip):
            yield _misplaced("used", each.clip, each.step)
    for each in before_backward(facts.sites):
        if not measures(each.clip):
            yield _misplaced("clean", each.clip, each.backward)


def _misplaced(kind: str, clip: Call, other: Call) -> Finding:
    when, mend = _WHY[kind]
    return Finding(
        f"`{last_name(clip.node.func)}` clips the gradients {when}: it limits nothing",
        clip.place.location,
        help=mend,
        related=(other.place.location,),
    )
