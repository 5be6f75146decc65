"""placeholder-not-filled: `"epoch_{epoch}.pt"` without the `f` is one file for all epochs."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "name of a file"
WORDS = ("{",)
_HELD = pattern(r"\{([A-Za-z_]\w*)(?:[.\[][^{}]*)?(?::[^{}]*)?\}")
_WRITES = ("save", "savez", "save_pretrained", "save_model", "save_image", "save_checkpoint", "savefig", "save_weights")
_OWN = ("save_model", "save_checkpoint", "save_weights")
_PATHS = ("join", "Path", "str")
_DEPTH = 8


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["{"]):
        for call in file.calls(*_WRITES) if "torch" in file.text else ():
            if _fills(call):
                continue
            given = [*call.node.args, *(word.value for word in call.node.keywords)]
            for origin in (each for node in given for each in _texts(Origin(file, node, call.context))):
                facts.sites.seen[LOOKS_AT] += 1
                text = str(getattr(origin.node, "value", ""))
                names = [name for name in _HELD.findall(text) if origin.file.bindings(name, origin.context)]
                if names and len(names) == text.count("{"):
                    yield Finding(
                        f"`{{{names[0]}}}` stands in the name of the file as it is: each save overwrites the last one",
                        origin.file.place(origin.node, origin.context).location,
                        help=f"`f{ast.unparse(origin.node)}`",
                    )


def _fills(call: Call) -> bool:
    """Whether a function of the program's own may fill the placeholders itself."""
    if last_name(call.node.func) not in _OWN:
        return False
    function = call.file.resolve(call.node.func, call.context)
    return not isinstance(function, Function) or "format" in function.text


def _texts(given: Origin, depth: int = _DEPTH) -> Iterator[Origin]:
    """The plain texts that a path is put together of; not those that `.format` fills, or that others read."""
    file, node, context = given.file, given.node, given.context
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield given
    elif depth == 0:  # `path = path + "x"` goes round in a circle
        return
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        yield from (each for side in (node.left, node.right) for each in _texts(given._replace(node=side), depth - 1))
    elif isinstance(node, ast.Call) and last_name(node.func) in _PATHS:
        yield from (each for part in node.args for each in _texts(given._replace(node=part), depth - 1))
    elif isinstance(node, ast.Name | ast.Call):
        made = origins(file, node, context)
        if len(made) == 1 and made[0].node is not node:
            yield from _texts(made[0], depth - 1)
