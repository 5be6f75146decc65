"""What the methods of optimizers do: of PyTorch's, and of `class Lion(torch.optim.Optimizer)` in the project."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.pytorch import gradients
from mlcheck.lint.values import Args, Const, Kwargs, Object, Params, Symbol, Table, Tuple, Value, owner_key

_MORE = (".step(", "zero_grad", "zero_(", ".grad = None", ".backward(")
"""What a `step` does that clears gradients, computes others, or leaves the work to somebody else."""


def call(m: Machine, owner: Object | Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if name == "zero_grad":
        gradients.zero(m, node, owner)
    elif name == "step":
        closure = args[0] if args else kwargs.get("closure")
        if closure is not None and not isinstance(closure, Const):
            m.call(closure, [], {}, node)
            if _asks_again(owner):
                gradients.step(m, node, owner)
                m.call(closure, [], {}, node)
        gradients.step(m, node, owner)
        if not set(kwargs) <= {"closure"}:
            gradients.zero_anything(m, node)  # `step(stage=1)` of another's optimizer, which may clear them as well
    elif name == "add_param_group":
        gradients.extended(m, owner)
        key = gradients.register(m, owner)
        m.store.set(("owns", key), frozenset())
        m.store.set(("may own", key), frozenset())
        m.store.set(("of a choice", key), None)
    return m.symbol()


def groups(m: Machine, owner: Object) -> Value | None:
    """`optimizer.param_groups` of one that was given the parameters themselves, and no more groups since."""
    params = owner.args[0] if owner.args else owner.kwargs.get("params")
    if not isinstance(params, Params) or params.one or params.gradient or not gradients.is_optimizer(m, owner):
        return None
    if owner.cls is not None or m.store.get(("owns", owner_key(owner))) != params.owners:
        return None
    group = containers.new_dict(m, Table({"params": params}, open=True))
    return containers.new_list(m, Tuple((group,)))


def _asks_again(optimizer: Object | Symbol) -> bool:
    """Whether one step evaluates its closure several times, moving the weights in between, as L-BFGS does."""
    if not isinstance(optimizer, Object) or optimizer.type != "torch.optim.LBFGS":
        return False
    most = optimizer.kwargs.get("max_iter", optimizer.args[2] if len(optimizer.args) > 2 else Const(20))
    return isinstance(most, Const) and isinstance(most.value, int) and most.value > 1


def own_step(m: Machine, owner: Object, method: FunctionInfo, run: Callable[[], Value], node: ast.AST) -> Value:
    """`step` of a class of the project: followed, and taken for what it is where it does nothing else."""
    key = owner_key(owner)
    before = m.store.get(("grads", key))
    result = run()
    whole = owner.cls is not None and owner.cls.find("zero_grad") is None
    if whole and before is not None and m.store.get(("grads", key)) == before and _is_plain(method):
        gradients.step(m, node, owner)
    return result


@lru_cache(1024)
def _is_plain(method: FunctionInfo) -> bool:
    """Whether it reads gradients, and does nothing more to them."""
    text = method.module.text_of(method.node)
    return ".grad" in text and not any(word in text for word in _MORE)
