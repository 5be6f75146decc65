"""What `step` and `zero_grad` are called on: optimizers of torch, or of a project, that do what the words say."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.names import canonical
from mlcheck.lint.pytorch.library_names import OPTIMIZER_LIBRARIES
from mlcheck.lint.sites.model import Call, Class
from mlcheck.lint.sites.origins import Origin, origins

_NOT_ONE_STEP = ("torch.optim.LBFGS", "torch.optim.swa_utils.", "torch.optim.lr_scheduler.")
_BASE = frozenset(["torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"])
_MORE = pattern(r"backward|zero_grad|set_to_none|\.grad\s*=|zero_\(|autograd|\bdel\b|setattr")
"""Words of an optimizer that clears or computes gradients on its own."""


def is_plain_optimizer(call: Call) -> bool:
    """Whether whatever this method may be called on is an optimizer that steps once a call, and clears when asked."""
    func = call.node.func
    found = origins(call.file, func.value, call.context) if isinstance(func, ast.Attribute) else []
    found = [each for each in found if not (isinstance(each.node, ast.Constant) and each.node.value is None)]
    return bool(found) and all(_is_plain(each) for each in found)


def _is_plain(origin: Origin) -> bool:
    if name := canonical(origin.name):
        return name.startswith(OPTIMIZER_LIBRARIES) and not name.startswith(_NOT_ONE_STEP)
    made = _class_of(origin)
    return made is not None and only_steps(made)


def is_of_project(call: Call) -> bool:
    """Whether it may be a class of the project, which may mean something else by the same words."""
    func = call.node.func
    found = origins(call.file, func.value, call.context) if isinstance(func, ast.Attribute) else []
    return any(made is not None and not only_steps(made) for made in map(_class_of, found))


def _class_of(origin: Origin) -> Class | None:
    """The class of the project that is made there."""
    made = origin.file.resolve(origin.node.func, origin.context) if isinstance(origin.node, ast.Call) else None
    return made if isinstance(made, Class) else None


def only_steps(cls: Class) -> bool:
    """`class Lion(torch.optim.Optimizer)` that is read in full and reads gradients, but changes none."""
    texts = [each.text for each in cls.line]
    return bool(cls.libraries) and cls.libraries <= _BASE and not any(map(_MORE.search, texts))
