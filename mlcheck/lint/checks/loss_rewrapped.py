"""loss-rewrapped: a backward from a new tensor that holds the loss's value and nothing of its graph."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites import Call, Context, File, Function
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.training.decisions import hard_losses
from mlcheck.lint.values import live, traces_of

LOOKS_AT = "backward pass"
_MAKERS = ("torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.Tensor")
_JOINS = ("mean", "sum", "requires_grad_")
_DEPTH = 8
_OF_NUMBERS = ("numpy.", "builtins.", "statistics.")
_COMPUTED = pattern(r"loss|log_?p|logits")


def check(facts: Facts) -> Iterator[Finding]:
    yield from _collected(facts)
    yield from _of_decisions(facts)
    yield from _of_leaf(facts)
    yield from _of_numbers(facts)
    for hard in hard_losses(facts.sites):
        yield Finding(
            f"The loss depends on `{hard.name}` only through a decision, which has no gradient: it teaches nothing",
            hard.function.place(hard.line).location,
            help="compute it from the probabilities themselves",
        )
    for backward in facts.backwards:
        if backward.severed is not None and not _is_of_no_tensor(facts.sites.call_at(backward.severed)):
            yield Finding(
                "The loss is cut off from the model here: its `backward()` reaches no parameter",
                backward.severed.location,
                help="call `backward()` on the loss itself; take `item()` or `detach()` only for what is logged",
                related=(backward.place.location,),
            )


def _is_of_no_tensor(call: Call | None) -> bool:
    """Whether it makes a tensor of what a test around it says is none: there is no graph to lose."""
    given = ast.unparse(call.node.args[0]) if call is not None and call.node.args else ""
    for outer in call.context.outwards() if call is not None and given else ():
        if outer.kind in ("function", "lambda", "loop"):
            break
        if isinstance(outer.node, ast.If):
            test, holds = outer.node.test, outer.arm == "body"
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, holds = test.operand, not holds
            if not holds and re.fullmatch(rf"isinstance\({re.escape(given)}, [\w.]*Tensor\)", ast.unparse(test)):
                return True
    return False


def _collected(facts: Facts) -> Iterator[Finding]:
    """`torch.tensor(losses, requires_grad=True)` of a list that the same function filled, under its `backward()`."""
    for call in facts.sites.calls(*_MAKERS):
        given = _averaged(call.node.args[0]) if call.node.args else None
        function = call.function
        if function is None or not isinstance(given, ast.Name):
            continue
        if not _COMPUTED.search(given.id.lower()) and not _is_loss(function):
            continue
        called = {ast.unparse(node.func) for node in function.nodes if isinstance(node, ast.Call)}
        if f"{given.id}.append" not in called or not _asks_gradient(call):
            continue
        trains = any(name.endswith(".backward") for name in called) and any(name.endswith(".step") for name in called)
        if trains or (_is_loss(function) and _is_returned(call, function)):
            yield Finding(
                f"A new tensor of the numbers in `{given.id}`: no gradient reaches what they were computed with",
                call.place.location,
                help=f"`torch.stack({given.id})`, of the tensors as they were computed, without `item()`",
            )


def _of_leaf(facts: Facts) -> Iterator[Finding]:
    """`loss = torch.tensor(parts, requires_grad=True).mean()`, `loss.backward()`: that tensor alone gets a gradient."""
    told = {backward.place.spot for backward in facts.backwards if backward.severed is not None}
    asking = any(True for _ in facts.sites.mentioning(["requires_grad"]))
    for file in facts.sites.mentioning([".backward("]) if asking else ():
        for call in file.calls("backward"):
            owner = call.owner
            if owner is None or call.function is None or call.place.spot in told:
                continue
            leaf = _summed(call, owner)
            if leaf is None or leaf.file.called(leaf.node, leaf.context) not in _MAKERS or not _asks_gradient(leaf):
                continue
            steps = [other for other in file.calls("step") if other.function is call.function]
            if steps and not _is_collected(leaf) and not _is_optimised(leaf):
                yield Finding(
                    "A new tensor, which is all that gets a gradient here: none reaches what its numbers came from",
                    leaf.place.location,
                    help="`torch.stack` of the tensors as they were computed",
                    related=(call.place.location,),
                )


def _summed(backward: Call, owner: ast.expr) -> Call | None:
    """The call that made what a loss is the sum of.

    Of what is weighed, or returned by a function, only where it holds what was computed: a leaf may be weighed too.
    """
    file, made, context, near = backward.file, owner, backward.context, True
    for _ in range(_DEPTH):
        made, context = source(file, before_methods(made, _JOINS), context)
        named = file.resolve(made.func, context) if isinstance(made, ast.Call) else None
        given = list(returns(named)) if isinstance(named, Function) else []
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult | ast.Div):
            made, near = made.left, False
        elif isinstance(named, Function) and len(given) == 1:
            file, made, context, near = named.file, given[0], named.inner, False
        elif not isinstance(made, ast.Call) or before_methods(made, _JOINS) is made:
            break
    leaf = Call(file, made, context) if isinstance(made, ast.Call) else None
    return leaf if leaf is not None and (near or _holds_computed(leaf)) else None


def _holds_computed(leaf: Call) -> bool:
    """`torch.tensor([first, second])` of names that the function gave what methods of tensors return."""
    listed = leaf.node.args[0] if leaf.node.args else None
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
    made = [source(leaf.file, part, leaf.context) for part in parts if isinstance(part, ast.Name)]
    joined = [each for each, _ in made if isinstance(each, ast.Call) and last_name(each.func) in _JOINS]
    plain = any(leaf.file.called(each, context).startswith(_OF_NUMBERS) for each, context in made)
    return bool(parts) and len(joined) == len(parts) and not plain


def _is_collected(leaf: Call) -> bool:
    """Whether it holds what the same function gathered in a list: that has its own words."""
    given = leaf.node.args[0] if leaf.node.args else None
    return isinstance(given, ast.Name) and f"{given.id}.append(" in leaf.file.text


def _is_optimised(leaf: Call) -> bool:
    """Whether an optimizer may hold the tensor itself."""
    return any(f"[{name}]" in leaf.file.text for name in leaf.file.names_given(leaf.node))


def _of_decisions(facts: Facts) -> Iterator[Finding]:
    """`loss = ce + dice(logits.argmax(1).float(), masks)`: a term that is made of decisions alone."""
    for file in facts.sites.mentioning(["argmax"]):
        for call in file.calls("backward"):
            owner = call.owner
            sum_, context = source(file, owner, call.context) if isinstance(owner, ast.Name) else (None, call.context)
            for term, _ in _weighed(sum_):
                decided = [arg for arg in term.args if _is_decision(source(file, arg, context)[0])]
                others = [arg for arg in term.args if arg not in decided]
                if len(decided) == 1 and others and all(_is_of_data(file, arg, context) for arg in others):
                    yield Finding(
                        f"`{ast.unparse(term)}` is computed from `argmax`, which has no gradient: it teaches nothing",
                        file.place(term, context).location,
                        help="compute it from the probabilities, as `softmax` gives them",
                        related=(call.place.location,),
                    )


def _of_numbers(facts: Facts) -> Iterator[Finding]:
    """`loss = first + 0.5 * second.item()`, where `second` is the loss of a model: its number alone is added."""
    losses = {loss.place.node for loss in facts.losses if live(traces_of(loss.input))}
    for file in facts.sites.mentioning([".item()"]) if losses else ():
        for call in file.calls("backward"):
            owner = call.owner
            sum_, context = source(file, owner, call.context) if isinstance(owner, ast.Name) else (None, call.context)
            for term, factors in _weighed(sum_):
                taken = term.func.value if isinstance(term.func, ast.Attribute) and term.func.attr == "item" else None
                plain = all(isinstance(factor, ast.Constant | ast.Attribute) for factor in factors)
                if taken is not None and plain and source(file, taken, context)[0] in losses:
                    yield Finding(
                        f"`{ast.unparse(term)}` adds a number to the loss: nothing learns from it",
                        file.place(term, context).location,
                        help=f"add `{ast.unparse(taken)}` itself",
                        related=(call.place.location,),
                    )


def _weighed(node: ast.expr | None) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """The calls that a sum of at least two is made of, each with its factors."""
    for side in (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ():
        factors, inner = list[ast.expr](), side
        while isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
            first, inner = (inner.left, inner.right) if isinstance(inner.right, ast.Call) else (inner.right, inner.left)
            factors.append(first)
        if isinstance(inner, ast.Call):
            yield inner, factors
        yield from _weighed(side)


def _is_decision(node: ast.expr) -> bool:
    """`logits.argmax(dim=1).float()`, `torch.argmax(logits, 1)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "argmax":
            return True
        node = node.func.value
    return False


def _is_of_data(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is computed from what a loop or a parameter brings alone, by methods and comparisons."""
    names = [part.id for part in walk(node) if isinstance(part, ast.Name) and part.id != "torch"]
    bound = [binding for name in names for binding in file.bindings(name, context)]
    unpacked = [b for b in bound if b.kind == "item" and not isinstance(b.value, ast.Call)]  # as a model may be
    moved = unpacked + [b for b in bound if b.kind == "value" and ".to(" in ast.unparse(b.value or b.node)]
    moved += [b for b in bound if isinstance(b.node, ast.For)]
    return bool(names) and all(binding.kind in ("loop", "param") or binding in moved for binding in bound)


def _averaged(given: ast.expr) -> ast.expr:
    """`losses` of `np.mean(losses)`, `sum(losses)` and `sum(losses) / len(losses)`."""
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div):
        given = given.left
    plain = isinstance(given, ast.Call) and last_name(given.func) in ("mean", "sum", "fmean", "array")
    return given.args[0] if isinstance(given, ast.Call) and plain and len(given.args) == 1 else given


def _is_loss(function: Function) -> bool:
    """A loss as a function or a module: `def total_loss(...)`, `class MultiTaskLoss: def forward(...)`."""
    name, loss = function.name, ""
    if function.cls is not None and function.name in ("forward", "__call__"):
        name, loss = function.cls.name, " ".join(ast.unparse(given) for given in returns(function))
    return "loss" in name.lower() or loss == "loss"


def _is_returned(call: Call, function: Function) -> bool:
    """Whether it is what the function returns, added up or not."""
    return any(
        part is call.node for given in returns(function) for part in walk(source(call.file, given, call.context)[0])
    )


def _asks_gradient(call: Call) -> bool:
    """`torch.tensor(x, requires_grad=True)`, `torch.FloatTensor(x).requires_grad_()`."""
    if call.constant("requires_grad") is True:
        return True
    nodes = call.function.nodes if call.function is not None else walk(call.file.module.source.tree)
    return any(
        isinstance(node, ast.Attribute) and node.attr == "requires_grad_" and node.value is call.node for node in nodes
    )
