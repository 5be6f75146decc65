"""unsafe-load: a file is loaded that may run code of whoever wrote it."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.api import version
from mlcheck.lint.sites.origins import given, origins
from mlcheck.lint.sites.weights.own_checkpoints import own_checkpoints

LOOKS_AT = "checkpoint load"
_SAFE_SINCE = (2, 6)
_TRUSTS = pattern(r"trust|unsafe", re.IGNORECASE)
_NAMED = pattern(r"""([\w.-]*\w\.\w+)['"]\)*$""")
_FETCHES = pattern(r"download|https?:|url|hub", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.load"))
    facts.sites.seen["checkpoint load"] = len(calls)
    target = version(facts.torch.target)
    for call in calls:
        setting = call.argument("weights_only")
        if setting is None:
            unsafe = bool(target) and target < _SAFE_SINCE and call.argument("pickle_module", 2) is None
            why = (
                f"before PyTorch 2.6, which is meant here ({facts.torch.target}), `torch.load` runs code from the file"
            )
        else:
            unsafe = call.constant("weights_only") is False
            why = "`weights_only=False` lets the file run code: whoever wrote or changed it can do so"
        if unsafe and not (_is_allowed(call) or _wrote_it(call) or call.node in facts.sites.once(own_checkpoints)):
            yield Finding(
                why[0].upper() + why[1:] if setting is None else why,
                call.place.location,
                help="pass `weights_only=True`; what must be more than tensors, allow by `add_safe_globals`",
            )


class _Path(NamedTuple):
    """A path as it is written, and the function in which it is."""

    node: ast.expr
    function: Function | None

    def is_same(self, other: "_Path") -> bool:
        if ast.unparse(self.node) != ast.unparse(other.node):
            return False
        if isinstance(self.node, ast.Constant) or self.function is other.function:
            return True
        classes = [where.cls if where is not None else None for where in (self.function, other.function)]
        return classes[0] is not None and classes[0] is classes[1] and "self." in ast.unparse(self.node)


def _wrote_it(call: Call) -> bool:
    """Whether the same file of code writes what it loads here, or the program a file of that name."""
    source = call.argument("f", 0)
    if source is None:
        return False
    written = [path for save in call.file.calls("save") for path in _written(save)]
    read = _paths(call, source)
    if all(any(path.is_same(other) for other in written) for path in read):
        return True
    name = _file_name(call, source)
    return bool(name) and name in call.file.sites.once(_names_written)


def _names_written(sites: Sites) -> frozenset[str]:
    """The names of the files that `torch.save` writes."""
    saves = ((save, save.argument("f", 1)) for save in sites.calls("torch.save"))
    return frozenset(_file_name(save, target) for save, target in saves if target is not None) - {""}


def _file_name(call: Call, path: ast.expr) -> str:
    """`state.pt` of `os.path.join(folder, "state.pt")`, where it is one name for certain and nothing fetches it."""
    texts = [ast.unparse(each.node) for each in origins(call.file, path, call.context)]
    ends = {found.group(1) if (found := _NAMED.search(text)) else "" for text in texts}
    return ends.pop() if len(ends) == 1 and not any(map(_FETCHES.search, texts)) else ""


def _written(save: Call) -> Iterator[_Path]:
    """Where `torch.save` writes to, and what that is renamed to in the same function."""
    target = save.argument("f", 1)
    if save.file.resolve(save.node.func, save.context) != "torch.save" or target is None:
        return
    yield from _paths(save, target)
    for move in save.file.calls("replace", "rename", "move"):
        if move.function is save.function and len(move.node.args) == 2:
            if ast.unparse(move.node.args[0]) == ast.unparse(target):
                yield from _paths(move, move.node.args[1])


def _paths(call: Call, path: ast.expr) -> list[_Path]:
    """A path, or what the calls of the function around it give for it."""
    function = call.function
    if function is not None and isinstance(path, ast.Name) and path.id in function.parameters:
        found = [
            _Path(each.node, each.file.function_around(each.context))
            for each in given(call.file.sites, function, path.id)
        ]
        if found:
            return found
    return [_Path(path, function)]


def _is_allowed(call: Call) -> bool:
    """Whether an unpickler of one's own reads it, or somebody said that the file is to be trusted."""
    if call.argument("pickle_module", 2) is not None:
        return True
    tests = (
        outer.node.test for outer in call.context.outwards() if isinstance(outer.node, ast.If) and outer.arm == "body"
    )
    return any(_TRUSTS.search(ast.unparse(test)) for test in tests)
