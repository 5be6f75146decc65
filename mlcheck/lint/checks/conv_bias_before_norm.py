"""conv-bias-before-norm: biases that batch normalisation subtracts again."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Context, File
from mlcheck.lint.sites.layers.modules import module_classes

LOOKS_AT = "batch normalisation"
WORDS = ("BatchNorm",)
_CONVOLUTIONS = tuple(f"torch.nn.Conv{extra}{size}d" for extra in ("", "Transpose") for size in (1, 2, 3))
_NORMS = tuple(f"torch.nn.BatchNorm{size}d" for size in (1, 2, 3))


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for _ in facts.sites.calls(*_NORMS))
    if not facts.sites.seen[LOOKS_AT]:
        return
    found: dict[str, list[tuple[File, ast.Call, Context]]] = {}
    for call in facts.sites.calls("torch.nn.Sequential"):
        before: tuple[ast.Call, Context] | None = None
        for argument in call.node.args:
            layer, where = call.file.value(argument, call.context)
            if before is not None and call.file.called(layer, where) in _NORMS:
                found.setdefault(call.file.path, []).append((call.file, *before))
            is_biased = isinstance(layer, ast.Call) and _is_biased(call.file, layer, where)
            before = (layer, where) if isinstance(layer, ast.Call) and is_biased else None
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        for node in forward.nodes if forward is not None else ():
            if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
                assert forward is not None
                norm, context = cls.file.value(node.func, forward.inner)
                layer, where = cls.file.value(node.args[0].func, forward.inner)
                if cls.file.called(norm, context) in _NORMS and isinstance(layer, ast.Call):
                    if _is_biased(cls.file, layer, where):
                        found.setdefault(cls.file.path, []).append((cls.file, layer, where))
    for places in found.values():
        file, node, context = places[0]
        many = f"{len(places)} convolutions of this file" if len(places) > 1 else "this convolution"
        yield Finding(
            f"The batch normalisation behind {many} cancels the bias",
            file.place(node, context).location,
            help="`bias=False`",
            related=tuple(other.place(layer, where).location for other, layer, where in places[1:6]),
        )


def _is_biased(file: File, node: ast.Call, context: Context) -> bool:
    """A convolution whose bias is not mentioned, or asked for."""
    if file.called(node, context) not in _CONVOLUTIONS or len(node.args) > 7:
        return False
    if any(keyword.arg is None for keyword in node.keywords) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return False
    given = [keyword.value for keyword in node.keywords if keyword.arg == "bias"]
    return not given or file.constant(given[0], context) is True
