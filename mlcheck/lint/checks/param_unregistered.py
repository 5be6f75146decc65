"""param-unregistered: a tensor that is to be learned, but is no parameter of its module."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import AttributeSet, Class, Function, Sites
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.filling import FACTORIES, filled, is_parameter
from mlcheck.lint.sites.layers.leaves import leaf_of
from mlcheck.lint.sites.layers.modules import is_plain, module_classes
from mlcheck.lint.sites.layers.out_of_reach import out_of_reach

LOOKS_AT = "module class"
_COPIES = frozenset(
    [
        *("cuda", "half", "bfloat16", "t", "view", "reshape", "unsqueeze", "squeeze", "transpose", "permute"),
        *("clone", "repeat", "expand", "mul", "div", "add", "softmax", "sigmoid", "exp", "abs"),
    ]
)


def check(facts: Facts) -> Iterator[Finding]:
    for leaf in out_of_reach(facts.sites):
        yield Finding(
            f"`self.{leaf.name}` is to be learned, and no optimizer can be given it: nothing outside its class reads "
            "it",
            leaf.place.location,
            help="make the class an `nn.Module` with an `nn.Parameter`, and give its `parameters()` to the optimizer",
            related=(leaf.made.location,),
        )
    for cls in facts.sites.once(module_classes):
        if not is_plain(cls):
            continue
        for name, assignments in cls.attributes.items():
            for function, assigned in assignments:
                said = _copied(cls, assigned) or _leaf(facts.sites, cls, name, function, assigned)
                said = said or _filled(facts.sites, cls, name, function, assigned)
                if said:
                    yield Finding(
                        f"`self.{name}` {said}: no optimizer finds it in `parameters()`, and it is not saved",
                        function.place(assigned.node).location,
                        help=f"assign `self.{name} = nn.Parameter(...)`, and move the whole module instead",
                    )


def _copied(cls: Class, assigned: AttributeSet) -> str:
    """A tensor computed from a fresh parameter: the parameter itself is lost."""
    node, last = assigned.value, ""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        if node.func.attr in _COPIES or (node.func.attr == "to" and _moves(cls, node, assigned)):
            if _device(node) is None or not _is_there_already(cls, node, assigned):
                last = node.func.attr
        elif node.func.attr not in ("to", "float", "double", "requires_grad_", "contiguous"):
            return ""
        node = node.func.value
    if isinstance(node, ast.BinOp) and not last:
        sides = [side for side in (node.left, node.right) if is_parameter(cls, side, assigned)]
        return "is computed from a parameter that nothing keeps" if sides else ""
    if last and node is not None and is_parameter(cls, node, assigned) and not _is_constant(node):
        return f"is what `.{last}()` makes of a parameter, not the parameter"
    return ""


def _is_constant(made: ast.expr) -> bool:
    """`nn.Parameter(kernel, requires_grad=False)`: nothing is to be learned there."""
    words = made.keywords if isinstance(made, ast.Call) else []
    return any(word.arg == "requires_grad" and ast.unparse(word.value) == "False" for word in words)


def _is_there_already(cls: Class, moved: ast.Call, assigned: AttributeSet) -> bool:
    """`nn.Parameter(torch.zeros_like(x)).to("cuda")`, where `x` came from that device: a parameter that stays one.

    So of `nn.Parameter(torch.empty(n, device=device)).to(device)`.
    """
    made = moved.func.value if isinstance(moved.func, ast.Attribute) else None
    given = made.args[0] if isinstance(made, ast.Call) and made.args else None
    if isinstance(given, ast.Call) and (on := [word.value for word in given.keywords if word.arg == "device"]):
        return ast.unparse(on[0]) == _device(moved)
    if isinstance(given, ast.Call) and last_name(given.func).endswith("_like") and given.args:
        given = given.args[0]
    value = source(cls.file, given, assigned.context)[0] if given is not None else None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if (device := _device(value)) is not None:
            return device == _device(moved)
        value = value.func.value
    return False


def _device(call: ast.Call) -> str | None:
    """`'cuda'` of `.to(device='cuda')`, `.to('cuda')` and `.cuda()`."""
    method = last_name(call.func)
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "device")]
    if method == "cuda" and not given:
        return "'cuda'"
    return ast.unparse(given[0]) if method == "to" and len(given) == 1 else None


def _moves(cls: Class, call: ast.Call, assigned: AttributeSet) -> bool:
    """`.to(device)`; what only changes the dtype may return the parameter itself."""
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    if given is None or last_name(given).endswith("dtype"):
        return False
    named = cls.file.resolve(given, assigned.context)
    return not (isinstance(named, str) and named.startswith("torch."))


def _leaf(sites: Sites, cls: Class, name: str, function: Function, assigned: AttributeSet) -> str:
    """A plain tensor with `requires_grad=True`, used inside the class alone."""
    if function.name != "__init__" or "requires_grad" not in function.text or "dummy" in name:
        return ""  # a dummy is there to ask for gradients, as checkpointing needs, and not to be learned
    leaf = leaf_of(function, assigned)
    if leaf is None or not leaf.asks or leaf.maker not in FACTORIES:
        return ""
    if _used_elsewhere(sites, cls, name) or _is_placeholder(cls, name):
        return ""
    return "requires a gradient but is not an `nn.Parameter`"


def _is_placeholder(cls: Class, name: str) -> bool:
    """Whether a method puts what it is given in its place: `def set_target(self, target): self.target = target`."""
    return any(
        isinstance(assigned.value, ast.Name) and assigned.value.id in function.parameters
        for function, assigned in cls.attributes[name]
    )


def _used_elsewhere(sites: Sites, cls: Class, name: str) -> bool:
    """Whether anything but reading happens to it: another class or file names it, or it is handed to an optimizer."""
    word = re.escape(name)
    spoken, foreign = (re.compile(rf"{before}\.{word}\b|[\"']{word}[\"']") for before in ("", r"(?<!\bself)"))
    own = re.sub(r"\bprint\(.*", "", cls.text)
    near = list(sites.mentioning([name], tests=True))
    total = sum(len(foreign.findall(file.text)) for file in near)
    total -= sum(len(foreign.findall(ast.unparse(call.node))) for file in near for call in file.calls("print"))
    kin = [other for other in sites.classes if other is not cls and (cls in other.line or other in cls.line)]
    if total > len(foreign.findall(own)) or any(spoken.search(each.text) for each in kin):
        return True
    changed = re.search(
        rf"(?<!cat\()(?<!stack\()\[[^\]\n]*self\.{re.escape(name)}\b|\.{re.escape(name)}\.(?:grad|data)\b", own
    )
    return changed is not None or "optim" in own or "autograd.grad(" in own


def _filled(sites: Sites, cls: Class, name: str, function: Function, assigned: AttributeSet) -> str:
    fill = filled(sites, cls, name, function, assigned)
    return f"is initialised like a parameter, by `{fill}`, but is not one" if fill else ""
