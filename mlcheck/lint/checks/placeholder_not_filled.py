"""placeholder-not-filled: `"epoch_{epoch}.pt"` without the `f` is one file for all epochs."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, Function

LOOKS_AT = "name of a file"
WORDS = ("{",)
_HELD = pattern(r"\{([A-Za-z_]\w*)(?:[.\[][^{}]*)?(?::[^{}]*)?\}")
_WRITES = ("save", "savez", "save_pretrained", "save_model", "save_image", "save_checkpoint", "savefig", "save_weights")
_OWN = ("save_model", "save_checkpoint", "save_weights")
_PATHS = ("join", "Path", "str")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["{"]):
        for call in file.calls(*_WRITES) if "torch" in file.text else ():
            if _fills(call):
                continue
            for node in _texts([*call.node.args, *(word.value for word in call.node.keywords)]):
                facts.sites.seen[LOOKS_AT] += 1
                text = str(node.value)
                names = [name for name in _HELD.findall(text) if _is_bound(call, name)]
                if names and len(names) == text.count("{"):
                    yield Finding(
                        f"`{{{names[0]}}}` stands in the name of the file as it is: each save overwrites the last one",
                        call.file.place(node, call.context).location,
                        help=f"`f{ast.unparse(node)}`",
                    )


def _fills(call: Call) -> bool:
    """Whether a function of the program's own may fill the placeholders itself."""
    if last_name(call.node.func) not in _OWN:
        return False
    function = call.file.resolve(call.node.func, call.context)
    return not isinstance(function, Function) or "format" in function.text


def _texts(given: list[ast.expr]) -> Iterator[ast.Constant]:
    """The plain texts that a path is put together of; not those that `.format` fills, or that others read."""
    for node in given:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            yield from _texts([node.left, node.right])
        elif isinstance(node, ast.Call) and last_name(node.func) in _PATHS:
            yield from _texts(node.args)


def _is_bound(call: Call, name: str) -> bool:
    """Whether there is a variable of that name where the text stands."""
    return bool(call.file.bindings(name, call.context))
