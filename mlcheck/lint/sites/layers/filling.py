"""Plain tensors of modules that are filled as only parameters are."""

import ast
import re
from collections.abc import Iterator

from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites.layers.modules import PARAMETER
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet

FACTORIES = frozenset(
    [
        *("tensor", "rand", "randn", "zeros", "ones", "full", "empty", "eye", "linspace", "arange", "FloatTensor"),
        *("Tensor", "from_numpy", "rand_like", "randn_like", "zeros_like", "ones_like", "Variable"),
    ]
)
_DRAWN = ("uniform_", "normal_", "xavier_", "kaiming_", "orthogonal_", "sparse_")


def filled(sites: Sites, cls: Class, name: str, function: Function, assigned: AttributeSet) -> str:
    """What fills a plain tensor as only parameters are, of `nn.init` or through `.data`; "" for what nothing does."""
    made = assigned.value
    named = cls.file.resolve(made.func, assigned.context) if isinstance(made, ast.Call) else None
    if not isinstance(named, str) or not named.startswith("torch.") or named.rpartition(".")[2] not in FACTORIES:
        return ""
    if function.name != "__init__" or len(cls.attributes[name]) != 1 or "requires_grad" in ast.unparse(assigned.node):
        return ""
    for method in cls.methods.values():
        filled = {attribute: fill for fill, attribute in fills_of(method)}
        beside = any(attribute != name and _is_made_parameter(cls, attribute) for attribute in filled)
        fill = filled.get(name, "")
        if fill and (beside or any(word in fill for word in _DRAWN)) and not _gathered(sites, cls, name):
            return fill
    return ""


def fills_of(method: Function) -> Iterator[tuple[str, str]]:
    """`uniform_` and `weight` of `nn.init.uniform_(self.weight)` and of `self.weight.data.uniform_(-1, 1)`."""
    for node in method.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        named = method.file.resolve(node.func, method.inner)
        if isinstance(named, str) and named.startswith("torch.nn.init.") and node.args:
            filled = node.args[0]
        elif getattr(node.func.value, "attr", "") == "data" and node.func.attr.endswith("_"):
            filled = node.func.value
        else:
            continue
        filled = filled.value if isinstance(filled, ast.Attribute) and filled.attr == "data" else filled
        if isinstance(filled, ast.Attribute) and is_attribute(filled, method.receiver, filled.attr):
            yield node.func.attr, filled.attr


def _is_made_parameter(cls: Class, name: str) -> bool:
    return any(
        isinstance(assigned.value, ast.Call) and is_parameter(cls, assigned.value, assigned)
        for _, assigned in cls.attributes.get(name, ())
    )


def _gathered(sites: Sites, cls: Class, name: str) -> bool:
    """Whether somebody replaces the tensor, asks a gradient of it or lists it, or nobody computes with it."""
    word = re.escape(name)
    own = cls.text
    taken = re.compile(
        rf"(?<!\bself)\.{word}\s*=(?!=)|\.{word}\.(?:requires_grad|grad\b|copy_|data\s*=)|Parameter\(self\.{word}\b"
        rf"|[\[,]\s*[\w.]+\.{word}\s*[\],]|append\([\w.]+\.{word}\)"
        rf"|(?:[gs]etattr|register_\w+)\([^()\n]*[\"']{word}[\"'](?!, None\))"
    )
    if "optim" in own or any(taken.search(file.text) for file in sites.mentioning([name], tests=True)):
        return True
    kin = [other for other in sites.classes if other is not cls and (cls in other.line or other in cls.line)]
    if any(f".{name}" in other.text for other in kin):
        return True
    fills = {method.name for method in cls.methods.values() for _, filled in fills_of(method) if filled == name}
    others = [method for method in cls.methods.values() if method.name not in fills | {"__init__"}]
    return not any(re.search(rf"\bself\.{word}\b", method.text) for method in others)


def is_parameter(cls: Class, node: ast.expr, assigned: AttributeSet) -> bool:
    return isinstance(node, ast.Call) and cls.file.resolve(node.func, assigned.context) in (
        PARAMETER,
        "torch.nn.parameter.Parameter",
    )
