"""clip-misplaced: gradients are clipped where there are none yet, or where the step has already taken them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Clip, Facts

LOOKS_AT = "gradient clipping"
_WHY = {
    "used": ("after the step that uses them", "move it between `backward()` and the optimizer's `step()`"),
    "clean": ("before `backward()` has filled them", "move it behind `backward()`, before the optimizer's `step()`"),
}


def check(facts: Facts) -> Iterator[Finding]:
    yield from _used_up(facts)
    walks: dict[tuple[str, int, int], list[Clip]] = {}
    for clip in facts.clips:
        walks.setdefault(clip.place.spot, []).append(clip)
    for clips in walks.values():
        last = clips[-1]
        kinds = {grads.kind for clip in clips for grads in clip.grads}
        if not all(clip.grads for clip in clips) or not kinds <= {"used", "clean"} or _measures(last):
            continue
        when, mend = _WHY["used" if kinds == {"used"} else "clean"]
        yield Finding(
            f"`{last.name.rpartition('.')[2]}` clips the gradients {when}: it limits nothing",
            last.place.location,
            help=mend,
            related=tuple(sorted({grads.step.location for grads in last.grads if grads.step})),
        )


def _measures(clip: Clip) -> bool:
    """An infinite limit asks for the norm alone."""
    node = clip.place.node
    given = [*node.args[1:2], *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return any("inf" in ast.unparse(limit) for limit in given)


def _used_up(facts: Facts) -> Iterator[Finding]:
    """`params = net.parameters()`: an iterator that the optimizer has come to the end of clips nothing."""
    for clip in facts.sites.calls("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"):
        given = clip.node.args[0] if clip.node.args else None
        bindings = clip.file.bindings(given.id, clip.context) if isinstance(given, ast.Name) else []
        made = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "value" else None
        if not isinstance(given, ast.Name) or not isinstance(made, ast.expr) or not _is_iterator(made):
            continue
        for optimizer in clip.file.calls(*_OPTIMIZERS):
            first = optimizer.argument("params", 0)
            if isinstance(first, ast.Name) and first.id == given.id and optimizer.function is clip.function:
                yield Finding(
                    f"`{given.id}` is an iterator, and the optimizer has been through it: this clips nothing",
                    clip.place.location,
                    help=f"keep a list: `{given.id} = list({ast.unparse(made)})`",
                    related=(optimizer.place.location,),
                )
                break


def _is_iterator(node: ast.expr) -> bool:
    """`net.parameters()`, `filter(...)`, `(p for p in ...)`."""
    if isinstance(node, ast.GeneratorExp):
        return True
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func) in ("filter", "chain", "itertools.chain") or (
        isinstance(node.func, ast.Attribute) and node.func.attr == "parameters" and not node.args
    )


_OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax")
