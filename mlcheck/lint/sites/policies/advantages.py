"""Log-probabilities of actions that are multiplied by an advantage, and whether its gradients reach the critic."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import origin, source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context

_LOG_NAME = pattern(
    r"^(?:new_|action_|curr_)?(?:log_?_?probs?|logps?|log_pi|log_prob_actions?)(?:_?(?:a|act|actions?|t))?$"
)
_ADVANTAGE = pattern(r"^(?:adv|advs|advantages?|delta|td_errors?|td_delta|gae)(?:_?t)?$")
_VALUE = pattern(
    r"^(?:v|v_s|vs|values?|state_values?|baselines?|criti(?:c\w*|que)|value_(?:net\w*|function|fn|model)|v_net|get_value)$"
)
_RETURN = pattern(r"^(?:r|rewards?|returns?|discounted_\w+)(?:_?t)?$")
_CUTS = frozenset(["detach", "detach_", "item", "data", "numpy", "tolist", "no_grad", "stop_gradient"])
_OFF = ("no_grad", "inference_mode", "set_grad_enabled")
_SHAPES = frozenset(["squeeze", "unsqueeze", "view", "reshape", "flatten", "mean", "sum", "to", "float"])


class Weighed(NamedTuple):
    """`log_prob * advantage`, and the call of the critic whose gradients the advantage carries."""

    product: ast.BinOp
    advantage: ast.expr
    critic: ast.Call


def weighed(function: Function) -> Iterator[Weighed]:
    """The products of a log-probability and of an advantage that the critic was called for, with gradients."""
    for node in function.all(ast.BinOp):
        if isinstance(node.op, ast.Mult):
            for log, factor in ((node.left, node.right), (node.right, node.left)):
                named = _ADVANTAGE.search(_bare(factor).lower()) or _is_difference(function, factor)
                if named and is_log_probability(function.file, log, function.inner):
                    critic = _critic_behind(function, factor)
                    if critic is not None:
                        yield Weighed(node, factor, critic)


def _is_difference(function: Function, factor: ast.expr) -> bool:
    """`reward - value` as it stands, where one backward pass goes through the losses of both."""
    if not isinstance(factor, ast.BinOp) or not isinstance(factor.op, ast.Sub):
        return False
    told = _RETURN.search(_bare(factor.left).lower()) and _VALUE.search(_bare(factor.right).lower())
    return told is not None and function.text.count(".backward(") == 1


def is_log_probability(file: File, node: ast.expr, context: Context) -> bool:
    """`dist.log_prob(a)`, `torch.log(pi_a)`, `-log_probs`, or a name that says so."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        node = node.func.value
    if isinstance(node, ast.Name | ast.Attribute) and _LOG_NAME.search(last_name(node).lower()):
        return not any(
            isinstance(part, ast.Attribute) and part.attr in _CUTS for part in walk(source(file, node, context)[0])
        )
    made, _ = source(file, node, context)
    return isinstance(made, ast.Call) and last_name(made.func) in ("log_prob", "log", "log_softmax", "get_log_prob")


def _bare(node: ast.expr) -> str:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        node = node.func.value
    return last_name(node)


def _critic_behind(function: Function, advantage: ast.expr) -> ast.Call | None:
    """`self.v(state)` in `delta = target - self.v(state)`, where nothing cuts its gradients off on the way."""
    made, context = source(function.file, advantage, function.inner)
    if _is_cut(made) or not isinstance(made, ast.BinOp) or _is_off(function, made):
        return None
    for part in _terms(made):
        inner, _ = origin(function.file, part, context)
        inner = _unshaped(inner)
        if _is_cut(inner) or _is_off(function, inner):
            continue
        if isinstance(inner, ast.Call) and inner.args and _is_critic(function, part, inner):
            return inner
    return None


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield _unshaped(node)


def _unshaped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        node = node.func.value
    return node


def _is_critic(function: Function, named: ast.expr, call: ast.Call) -> bool:
    """A call of a critic, or a call that gives several things of which one goes by the name of a value."""
    if not isinstance(function.file.resolve(call.func, function.inner), Function | None):
        return False
    return bool(_VALUE.search(last_name(call.func).lower()) or _VALUE.search(last_name(named).lower()))


def _is_cut(node: ast.AST) -> bool:
    return any(part.attr in _CUTS for part in walk(node) if isinstance(part, ast.Attribute))


def _is_off(function: Function, node: ast.AST) -> bool:
    """Whether gradients are off where it stands."""
    if any(word in ast.unparse(each) for each in function.node.decorator_list for word in _OFF):
        return True
    blocks = [
        block for block in function.all(ast.With) if any(word in ast.unparse(i) for i in block.items for word in _OFF)
    ]
    line = getattr(node, "lineno", 0)
    return any(block.lineno <= line <= (block.end_lineno or 0) for block in blocks)
