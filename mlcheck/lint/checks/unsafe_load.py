"""unsafe-load: a file is loaded that may run code of whoever wrote it."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.api import version

LOOKS_AT = "checkpoint load"
_SAFE_SINCE = (2, 6)
_TRUSTS = pattern(r"trust|unsafe", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.load"))
    facts.sites.seen["checkpoint load"] = len(calls)
    target = version(facts.target_torch)
    for call in calls:
        given = call.argument("weights_only")
        if given is None:
            unsafe = bool(target) and target < _SAFE_SINCE and call.argument("pickle_module", 2) is None
            why = (
                f"before PyTorch 2.6, which is meant here ({facts.target_torch}), `torch.load` runs code from the file"
            )
        else:
            unsafe = call.constant("weights_only") is False
            why = "`weights_only=False` runs code from the file"
        if unsafe and not _wrote_it(call) and not _is_allowed(call):
            yield Finding(
                why[0].upper() + why[1:] if given is None else why,
                call.place.location,
                help="pass `weights_only=True`; what must be more than tensors, allow by `add_safe_globals`",
            )


def _wrote_it(call: Call) -> bool:
    """Whether the same file of code writes what it loads here."""
    source = call.argument("f", 0)
    if source is None:
        return False
    read = ast.unparse(source)
    for other in call.file.calls("save"):
        if call.file.resolve(other.node.func, other.context) == "torch.save" and len(other.node.args) > 1:
            own = call.function.cls if call.function is not None and "self." in read else None
            same = (
                isinstance(source, ast.Constant)
                or other.function is call.function
                or (own is not None and other.function is not None and other.function.cls is own)
            )
            if same and ast.unparse(other.node.args[1]) == read:
                return True
    return False


def _is_allowed(call: Call) -> bool:
    """Whether an unpickler of one's own reads it, or somebody said that the file is to be trusted."""
    if call.argument("pickle_module", 2) is not None:
        return True
    tests = (
        outer.node.test for outer in call.context.outwards() if isinstance(outer.node, ast.If) and outer.arm == "body"
    )
    return any(_TRUSTS.search(ast.unparse(test)) for test in tests)
