"""visible-devices: CUDA_VISIBLE_DEVICES is set where it has no effect."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Context, File

LOOKS_AT = "environment variable"
_KEY = "CUDA_VISIBLE_DEVICES"
_NEARLY = re.compile(r"^CUDA_?VIS[A-Z_]*$|^VISIBLE_CUDA[A-Z_]*$|^CUDA_DEVICES_VISIBLE$")
_ASKS = frozenset(["is_available", "device_count", "get_device_name", "current_device", "set_device", "init"])
_ASKS |= {"get_device_properties", "manual_seed_all", "empty_cache", "get_device_capability"}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["CUDA", "VISIBLE"]):
        for node, context, value in _environment(file):
            facts.sites.seen[LOOKS_AT] += 1
            if value == _KEY:
                used = _used_before(file, node, context)
                if used is not None:
                    yield Finding(
                        f"`{_KEY}` is set after CUDA was asked: the choice may be ignored",
                        file.place(node, context).location,
                        help="set it before torch is first used, or outside of the program",
                        related=(file.place(used, context).location,),
                    )
            elif _NEARLY.match(value):
                yield Finding(
                    f"`{value}` means nothing to CUDA: all GPUs stay visible",
                    file.place(node, context).location,
                    help=f"the name is `{_KEY}`",
                )


def _environment(file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    """Where an environment variable is set: the node, its context, the variable's name."""
    for node, context in file.walk.subscripts:
        if isinstance(node.value, ast.Attribute | ast.Name) and file.resolve(node.value, context) == "os.environ":
            yield from _named(node, context, file)
    for call in file.calls("setdefault", "putenv"):
        if file.resolve(call.node.func, call.context) in ("os.environ.setdefault", "os.putenv") and call.node.args:
            key = call.node.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield call.node, call.context, key.value


def _named(node: ast.AST, context: Context, file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    if isinstance(node, ast.Subscript):
        key = file.constant(node.slice, context)
        if isinstance(key, str):
            yield node, context, key


def _used_before(file: File, node: ast.AST, context: Context) -> ast.AST | None:
    """A question about CUDA above it, in the same function or at the top level that surely ran before."""
    line = getattr(node, "lineno", 0)
    around = {id(outer.node): outer.arm for outer in context.outwards()}
    for call in file.calls(*sorted(_ASKS)):
        named = file.resolve(call.node.func, call.context)
        if not isinstance(named, str) or not named.startswith("torch.cuda.") or call.node.lineno >= line:
            continue
        if all(around.get(id(outer.node)) == outer.arm for outer in call.context.outwards()):
            return call.node
    return None
