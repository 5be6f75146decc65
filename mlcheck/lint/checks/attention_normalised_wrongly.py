"""attention-normalised-wrongly: scores of queries against keys get a softmax over the queries."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, reads_of, walk
from mlcheck.lint.sites import Call, Context, canonical
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.einsum_weights import normalised_over_kept
from mlcheck.lint.sites.layers.masked_weights import factors, itself, masked_after
from mlcheck.lint.sites.layers.ranks import least_rank
from mlcheck.lint.sites.layers.softmax_layers import softmax_layer, softmax_layer_calls

LOOKS_AT = "softmax over scores"
WORDS = ("softmax(", "Softmax(")
_FUNCTIONS = ("torch.softmax", "torch.nn.functional.softmax")
_MOVED = ("mean", "transpose", "permute", "unsqueeze", "t", "contiguous")
_KEPT = ("masked_fill", "masked_fill_", "float", "div", "mul", "clamp", "contiguous")
_MASKED = {
    True: "This is masked after the softmax, as scores are before it: what is masked weighs as much as it can",
    False: "The weights are masked after the softmax, and those that are left do not sum to one",
}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    deep = [softmax.place.node for softmax in facts.softmaxes if len(softmax.shape.dims) > 2 and softmax.dim == 1]
    yield from _by_letters(facts)
    for file in facts.sites.mentioning(WORDS):
        for masked in masked_after(file) if "mask" in file.text else ():
            yield Finding(
                _MASKED[masked.by_infinity],
                file.place(masked.node, masked.softmax.context).location,
                help='mask the scores, before the softmax: `scores.masked_fill(mask, float("-inf"))`',
                related=(masked.softmax.place.location,),
            )
        for call in {call.node: call for call in (*file.calls("softmax"), *softmax_layer_calls(file))}.values():
            scores, dim = _asked(call)
            if call.function is None or scores is None or not isinstance(dim, int):
                continue
            product = _product(call, scores)
            if product is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            before_keys = dim == 1 and (call.node in deep or _has_three_dimensions(call, product))
            if (dim == -2 or before_keys) and _weighs(call):
                yield Finding(
                    "This softmax runs over queries or heads, and the product after it sums over the keys: "
                    "the weights of a query do not sum to one",
                    call.place.location,
                    help="`softmax(dim=-1)`",
                    related=(file.place(product, call.context).location,),
                )


def _by_letters(facts: Facts) -> Iterator[Finding]:
    for file in facts.sites.mentioning(["einsum("]):
        for softmax, product in normalised_over_kept(file) if "softmax(" in file.text else ():
            yield Finding(
                "These weights add up to one along a dimension that the product after it keeps, and it sums along "
                "another: the weights of a query do not sum to one",
                softmax.place.location,
                help="give the dimension of the keys, which the product sums over",
                related=(product.place.location,),
            )


def _asked(call: Call) -> tuple[ast.expr | None, object]:
    """What the softmax is taken of, and the constant dimension."""
    layer = softmax_layer(call)
    if layer is not None:
        return call.node.args[0], layer.constant("dim", 0)
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, str) and canonical(named) in _FUNCTIONS:
        return call.argument("input", 0), call.constant("dim", 1)
    func = call.node.func
    if isinstance(func, ast.Attribute) and named is None:
        return func.value, call.constant("dim", 0)
    return None, None


def _product(call: Call, scores: ast.expr) -> ast.expr | None:
    """`q @ k.transpose(-2, -1)` behind the scores, scaled and masked as may be."""
    node, context = scores, call.context
    for _ in range(8):
        node, context = source(call.file, node, context)
        node, context = _unmasked(call, node, context)
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult | ast.Add | ast.Sub):
            node = node.left
        elif isinstance(func, ast.Attribute) and func.attr in _KEPT:
            node = func.value
        else:
            break
    right = _right(call, node)
    if right is None or not isinstance(right.func, ast.Attribute) or right.func.attr != "transpose":
        return None
    return node if sorted(_constants(call, right)) in ([-2, -1], [1, 2], [2, 3]) else None


def _right(call: Call, product: ast.expr) -> ast.Call | None:
    """`k.transpose(1, 2)` of `q @ k.transpose(1, 2)`, also where that has a name."""
    right = factors(call.file, product, call.context)[1]
    made = source(call.file, right, call.context)[0] if right is not None else None
    return made if isinstance(made, ast.Call) else None


def _unmasked(call: Call, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """The scores as first computed, where a branch may mask them: `if mask is not None: s = s.masked_fill(...)`."""
    if not isinstance(node, ast.Name):
        return node, context
    found = [each for each in call.file.bindings(node.id, context) if _line(each.node) < call.node.lineno]
    made = [each for each in found if each.value is None or not _is_masked(each.value, node.id)]
    if len(made) == 1 and made[0].kind == "value" and isinstance(made[0].value, ast.expr):
        return made[0].value, made[0].context
    return node, context


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _is_masked(value: ast.AST, name: str) -> bool:
    """`name.masked_fill(...)`, `name + bias`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Mult | ast.Div):
        value = value.left
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEPT:
        value = value.func.value
    return is_name(value, name)


def _constants(call: Call, turned: ast.Call) -> list[int]:
    found = [call.file.constant(node, call.context) for node in turned.args]
    return [value for value in found if isinstance(value, int)]


def _has_three_dimensions(call: Call, product: ast.expr) -> bool:
    """`torch.bmm` takes no other number of them, and of three alone `transpose(1, 2)` swaps the last two.

    An input that is taken for three, `b, t, d = x.shape`, gives a query of three or of four, as `qkv[:, :, :d]` is.
    """
    if isinstance(product, ast.Call) and call.file.resolve(product.func, call.context) == "torch.bmm":
        return True
    right = _right(call, product)
    if right is not None and sorted(_constants(call, right)) == [1, 2]:
        return True
    queries = factors(call.file, product, call.context)[0]
    if queries is not None and _is_cut_of_three(source(call.file, queries, call.context)[0]):
        return True
    if any(least_rank(call.file, side, call.context) > 2 for side in _multiplied(call, product)):
        return True
    sizes = [node for node in call.function.nodes if isinstance(node, ast.Assign)] if call.function is not None else []
    return any(
        isinstance(node.targets[0], ast.Tuple)
        and len(node.targets[0].elts) > 2
        and ast.unparse(node.value).endswith((".shape", ".size()"))
        for node in sizes
    )


def _multiplied(call: Call, product: ast.expr) -> list[ast.expr]:
    """`q` and `k` of `q @ k.transpose(-2, -1)`."""
    queries, keys = factors(call.file, product, call.context)[0], _right(call, product)
    turned = keys.func.value if keys is not None and isinstance(keys.func, ast.Attribute) else None
    return [side for side in (queries, turned) if side is not None]


def _is_cut_of_three(node: ast.expr) -> bool:
    """`qkv[:, :, :d]`, of all samples and all tokens."""
    cut = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    return len(cut) > 2 and all(isinstance(part, ast.Slice) for part in cut)


def _weighs(call: Call) -> bool:
    """Whether the softmax, as it is, is the left factor of a product, and nothing normalises it anew."""
    assert call.function is not None
    nodes = call.function.nodes
    products = [factors(call.file, node, call.context) for node in nodes if isinstance(node, ast.expr)]
    lefts = [left for left, right in products if left is not None and not _are_weights(call, right)]
    if any(itself(left) is call.node for left in lefts):
        return True
    names = {
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and itself(node.value) is call.node
    }
    if len(names) != 1:
        return False
    name = names.pop()
    reads = reads_of(nodes, name)
    reads = [n for n in reads if n.lineno > call.node.lineno]
    weighed = {id(itself(left)) for left in lefts} & {id(read) for read in reads}
    return bool(weighed) and all(_is_plain(nodes, read, weighed) for read in reads)


def _are_weights(call: Call, node: ast.expr | None) -> bool:
    """Attention over attention: what is weighed are weights again, which sum to one along what the product sums."""
    context = call.context
    for _ in range(8):
        if node is None:
            break
        node, context = source(call.file, node, context)
        func = node.func if isinstance(node, ast.Call) else None
        if last_name(func) == "softmax":
            return True
        node = func.value if isinstance(func, ast.Attribute) and func.attr in _MOVED else None
    return False


def _is_plain(nodes: list[ast.AST], read: ast.Name, weighed: set[int]) -> bool:
    """A use that leaves the weights what they are: the product itself, dropout, a return."""
    if id(read) in weighed:
        return True
    for node in nodes:
        if isinstance(node, ast.Return) and any(n is read for n in walk(node)):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            return any(value is read for value in values)
        if isinstance(node, ast.Assign) and node.value is not read and itself(node.value) is read:
            return isinstance(node.targets[0], ast.Name) and node.targets[0].id == read.id
    return False
