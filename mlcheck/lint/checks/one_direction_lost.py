"""one-direction-lost: the last step of a layer that reads both ways, of which one way has read a single step."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import File, Function
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.layers.recurrent import outputs

LOOKS_AT = "layer that reads both ways"
WORDS = ("bidirectional",)
_LAST = {True: ("(slice(None), -1)", ":, -1", ":, -1, :"), False: ("-1", "-1, :, :", "-1, :")}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not any(True for _ in facts.sites.mentioning(["bidirectional"])):
        return
    for cls in facts.sites.once(module_classes):
        for function in cls.methods.values():
            if "-1" in function.text:
                yield from _last_steps(facts, cls.file, function)


def _last_steps(facts: Facts, file: File, function: Function) -> Iterator[Finding]:
    """`self.head(out[:, -1])`, where nothing takes the first step of the way back."""
    subscripts = [node for node in function.nodes if isinstance(node, ast.Subscript)]
    if any("0" in ast.unparse(node.slice) for node in subscripts if not isinstance(node.slice, ast.Constant)):
        return
    for node in subscripts:
        made = outputs(file, node.value, function.inner)
        if made is None or not made.both_ways or made.batch_first is None:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if ast.unparse(node.slice).strip("()") in _LAST[made.batch_first] and not _is_packed(function):
            yield Finding(
                f"`{ast.unparse(node)}` is the last step of both directions: the backward one has read only that step",
                function.place(node).location,
                help="`torch.cat([h[-2], h[-1]], dim=1)` of the state: the last of each direction",
                related=(made.layer.place.location,),
            )


def _is_packed(function: Function) -> bool:
    """Whether the sequences have lengths of their own: what their last step is then, is another question."""
    return "pack" in function.text
