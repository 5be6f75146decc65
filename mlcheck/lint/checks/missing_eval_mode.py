"""missing-eval-mode: a model is evaluated while it is in train mode.

A call whose result nobody takes is no evaluation: it is there for BatchNorm's statistics, or to warm up.
"""

import ast
from collections.abc import Collection, Hashable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Mode, Place
from mlcheck.lint.judging import (
    draws_again,
    evaluates,
    is_turned_to_held_out,
    names_evaluation,
    tests_of_code,
)
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Sites
from mlcheck.lint.sites.evaluation.own_switches import sets_own_mode
from mlcheck.lint.sites.layers.dropping import drops_by_default, goes_by_mode
from mlcheck.lint.sites.straight import reads_sizes_alone
from mlcheck.lint.sites.training.critics import tells_apart
from mlcheck.lint.values import Object, Tensor, live, split_of_name

LOOKS_AT = "model call"
_COUNTS = pattern(r"flops|macs|summary|num_param")
"""`model.get_flops(x)` asks for sizes, which are the same in both modes."""
_SWITCHED = (
    *("DropPath", "drop_path", "BatchNorm", "batch_norm", "InstanceNorm", "RReLU", "Transformer"),
    *("torchvision.models", "timm", "transformers", "hub.load", "pretrained", "segmentation_models", "diffusers"),
)
_GENERATOR = pattern(r"^(?:net_?)?G(?:_\w+)?$|^(?:net_?)?g$|^gen(?:erator)?(?:_|$)|(?:^|_)generator$")
_FETCHED = ("pretrained", "weights=", "load", "hub", "timm", "torchvision", "create_model")
_REFRESHES = pattern(r"reset_running_stats\(|\.momentum = None")
"""What gathers the statistics of BatchNorm once more, over data that may be called anything."""
_FLAGS = ("training", "is_training", "train", "is_train")


def check(facts: Facts) -> Iterator[Finding]:
    trained = {forward.place.spot for forward in facts.forwards if forward.trained}
    for_training = {mode.place for forward in facts.forwards if forward.trained for mode in forward.modes}
    tests = tests_of_code(facts)
    told: set[tuple[Hashable, ...]] = set()
    for forward in facts.forwards:
        if forward.place.path in tests:
            continue
        shared = forward.place.spot in trained and not is_turned_to_held_out(forward)
        if forward.trained or (shared and forward.grad.kind != "off"):
            continue
        if not _is_judged_by(facts, forward) or not _left_in_train_mode(forward, for_training):
            continue
        if forward.moded == "unknown" and not _is_told(forward):
            continue
        if _has_nothing_to_switch(facts.sites, forward):
            continue
        if not (_is_told(forward) or _has_learnt(facts, forward)) or _is_meant(facts, forward):
            continue
        place = forward.place if forward.place.spot not in trained else forward.through or forward.place
        if (evaluation := _evaluation(forward, place)) in told:
            continue
        told.add(evaluation)
        behind = [forward.place] if place is not forward.place else []
        yield Finding(
            f"`{forward.name}` is evaluated in train mode: Dropout and BatchNorm"
            f"{', if it has any,' if forward.moded == 'unknown' else ''} behave as in training",
            place.location,
            help=f"{_made_elsewhere(forward)}call `{forward.name}.eval()` before the evaluation, "
            f"and `{forward.name}.train()` after it",
            related=tuple(p.location for p in (*behind, *(mode.place for mode in forward.modes)) if p),
        )


def _evaluation(forward: Forward, place: Place) -> tuple[Hashable, ...]:
    """What one `eval()` would mend: all calls of the model in a function, or in a loop of one that trains."""
    around: Hashable = None
    if place is not forward.place:
        around = forward.place.spot
    elif forward.loop is not None and any(loop.trains for loop in forward.loops):
        around = forward.loop.place.spot
    return place.path, place.symbol, forward.name, around


def _is_judged_by(facts: Facts, forward: Forward) -> bool:
    """Whether the call is an evaluation or a prediction, and somebody reads more of its answer than the sizes."""
    if forward.unread or _COUNTS.search(last_name(getattr(forward.place.node, "func", None))):
        return False
    judged = evaluates(forward) or _is_scored(facts, forward) or _is_written_down(facts, forward)
    return judged and not _reads_its_shape(facts.sites, forward)


def _has_learnt(facts: Facts, forward: Forward) -> bool:
    """Whether the model was trained before or its weights were loaded: of one just made nobody expects an answer.

    One of which nothing is known has, where somebody put it into train mode.
    """
    if forward.restored or not isinstance(forward.module, Object) or any(mode.place for mode in forward.modes):
        return True
    own, cls = forward.module.id, forward.module.cls
    texts = [info.module.text_of(info.node) for info in cls.mro] if cls is not None else []
    if not texts or any(word in text for text in texts for word in _FETCHED):
        return True
    return any(own in other.touched and other.trained for other in facts.forwards)


def _is_meant(facts: Facts, forward: Forward) -> bool:
    """Whether train mode is what is wanted, or the model looks after its mode by itself."""
    if isinstance(forward.module, Object) and forward.module.type.startswith("torch.nn.Dropout"):
        return True  # called by itself, it is there to make holes in something, as `Mask(p=1.0)(batch)` is
    if isinstance(getattr(forward.place.node, "func", None), ast.Call) and not forward.restored:
        return True
    if _is_told_its_mode(forward) or sets_own_mode(forward) or draws_again(forward):
        return True
    if any(_REFRESHES.search(_text_around(facts.sites, mode)) for mode in forward.modes):
        return True
    return any(_is_chosen(facts.sites, mode) for mode in forward.modes) or _is_generator_at_work(facts, forward)


def _is_told(forward: Forward) -> bool:
    """Whether names tell that it is an evaluation, or weights were loaded for it: not only that no gradient is asked.

    What picks samples to train on asks for none either, and of a model that is not known the mode may not matter.
    """
    splits = {forward.split, *(loop.split for loop in forward.loops)}
    return forward.restored or not splits.isdisjoint(("val", "test")) or any(map(names_evaluation, forward.functions))


def _has_nothing_to_switch(sites: Sites, forward: Forward) -> bool:
    """A module of the project, where no file that it is made of speaks of what goes by the mode, or of other models.

    Dropout whose rate is 0, if nobody asks for another one, drops nothing.
    """
    if not isinstance(forward.module, Object) or forward.module.cls is None or "?" in forward.module.cls.libraries:
        return False
    words = (*_SWITCHED, "torchvision") if forward.moded == "yes" else _SWITCHED
    todo, seen = [info.module.source.path for info in forward.module.cls.mro], set[str]()
    while todo:
        file = sites.at(path := todo.pop())
        if file is None or any(word in file.text for word in words):
            return False
        if drops_by_default(file) or goes_by_mode(file):
            return False
        seen.add(path)
        todo += [other for other in file.imports if other not in seen]
    return True


def _is_written_down(facts: Facts, forward: Forward) -> bool:
    """`torch.jit.trace(model, example)` of a finished model: what it does in this mode is what it will do for good."""
    node = forward.place.node
    if not isinstance(node, ast.Call) or last_name(node.func) != "trace" or not isinstance(forward.module, Object):
        return False
    of_model = [each for each in facts.forwards if each.module is forward.module]
    later = of_model[of_model.index(forward) :]
    return (forward.restored or any(each.trained for each in of_model)) and not any(each.trained for each in later)


def _is_scored(facts: Facts, forward: Forward) -> bool:
    """`x, y = next(iter(test_loader))` between two steps of the training, and the loss of the answer."""
    if forward.split not in ("val", "test") or forward.loop is None or forward.trained:
        return False
    drawn = [node for node in walk(forward.loop.node) if isinstance(node, ast.Call) and last_name(node.func) == "next"]
    names = [last_name(part) for node in drawn for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)]
    if not any(split_of_name(name) in ("val", "test") for name in names):
        return False
    return any(forward in live(loss.input.traces) for loss in facts.losses if isinstance(loss.input, Tensor))


def _made_elsewhere(forward: Forward) -> str:
    """Which model is meant, where a function of another file evaluates whatever model it is given."""
    made = forward.module.place if isinstance(forward.module, Object) else None
    if made is None or made.path == forward.place.path:
        return ""
    return f"the model made at {made.path}:{made.location.line} comes here: "


def _is_generator_at_work(facts: Facts, forward: Forward) -> bool:
    """Pictures of what a generator makes of noise by now, drawn between its epochs: they show it as it is trained.

    A loop of its own goes over data, whatever the function is called.
    """
    repeated = forward.loop is not None and any(part is forward.place.node for part in walk(forward.loop.node))
    held_out = not {forward.split, *(loop.split for loop in forward.loops)}.isdisjoint(("val", "test"))
    resumed = any("train" in name.lower() for name in forward.functions)
    if (forward.restored and not resumed) or held_out or (repeated and _is_told(forward)):
        return False
    if _GENERATOR.search(forward.name) or not isinstance(forward.module, Object):
        return _GENERATOR.search(forward.name) is not None
    maker = {forward.module.id}
    judges = [other.module for other in facts.forwards if other.trained and other.fed]
    critics = {judge.id for judge in judges if isinstance(judge, Object)} - maker
    return any(tells_apart({critic}, maker, facts.forwards) for critic in critics)


def _reads_its_shape(sites: Sites, forward: Forward) -> bool:
    """`width = model(x[:2]).shape[1]`: a call that asks for sizes, which are the same in both modes."""
    file, call = sites.at(forward.place.path), forward.place.node
    if file is None or not isinstance(call, ast.Call):
        return False
    around = [f for f in file.functions if f.node.lineno <= call.lineno <= (f.node.end_lineno or 0)]
    return reads_sizes_alone(around[-1].nodes if around else file.nodes_in(file.module.source.tree), call)


def _is_told_its_mode(forward: Forward) -> bool:
    """`model(x, training=False)`: a model that goes by what each call says."""
    keywords = getattr(forward.place.node, "keywords", ())
    return any(keyword.arg in _FLAGS and ast.unparse(keyword.value) == "False" for keyword in keywords)


def _left_in_train_mode(forward: Forward, for_training: Collection[Place | None]) -> bool:
    """In train mode for certain, and not switched to it for this very evaluation (as Monte-Carlo dropout is)."""
    if {mode.kind for mode in forward.modes} != {"train"} or forward.moded == "no":
        return False
    if forward.moded == "unknown" and not any(_names(mode, forward) for mode in forward.modes):
        return False
    return not any(
        mode.place and mode.when and mode.when.calls == forward.when.calls and mode.place not in for_training
        for mode in forward.modes
    )


def _names(mode: Mode, forward: Forward) -> bool:
    """Whether `train()` was called on this very module, and not on a whole that it is a part of."""
    node = mode.place.node if mode.place is not None else None
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute):
        return mode.place is not None
    return last_name(func.value) == forward.name or not last_name(func.value)


def _is_chosen(sites: Sites, mode: Mode) -> bool:
    """Whether one part was put back into train mode by name where the whole model had been put into eval mode."""
    node = mode.place.node if mode.place else None
    if mode.place is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    part = node.func.value
    if not isinstance(part, ast.Attribute):
        return False
    whole, text = ast.unparse(part.value), _text_around(sites, mode)
    return f"{whole}.eval()" in text or (f"{whole} = " in text and ".eval()\n" in text)


def _text_around(sites: Sites, mode: Mode) -> str:
    """The text of the function that puts the model into a mode; of the file, if it stands in none."""
    file = sites.at(mode.place.path) if mode.place else None
    if file is None or mode.place is None:
        return ""
    line = mode.place.location.line
    inside = [f.node for f in file.functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]
    return file.module.text_of(inside[-1]) if inside else file.text
