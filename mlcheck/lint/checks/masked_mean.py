"""masked-mean: a masked loss is averaged over the masked positions too."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import origin, source
from mlcheck.lint.sites.layers.mask_meanings import true_for
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.training.unreduced_losses import is_difference, is_unreduced, squared

LOOKS_AT = "mean"
_TOLD = ("src_key_padding_mask", "key_padding_mask")
_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_ORDERED = ("gt", "ge", "lt", "le")
_WORDS = ("mask", "pad", "valid")
_LIKE = ("expand_as", "view_as", "type_as", "reshape_as", "to")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _pooled(facts)
    yield from _attended(facts)
    yield from _ignoring(facts)
    for file in facts.sites.mentioning(["mean("]):
        for call in file.calls("mean"):
            averaged = _averaged(call)
            if averaged is None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            raised, context = source(file, averaged, call.context)
            base = squared(raised)
            product, context = source(file, base or raised, context)
            if not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)) or _is_corrected(call):
                continue
            for loss, mask in ((product.left, product.right), (product.right, product.left)):
                is_error = is_unreduced(file, loss, context) or (
                    base is not None and is_difference(file, loss, context)
                )
                if not is_error or not (_is_mask(mask) or true_for(Origin(file, mask, context), numbers=True)):
                    continue
                if not _is_sure(file, mask, context) and not _is_worked_out(file, mask, context):
                    yield Finding(
                        f"The mean counts the positions that `{ast.unparse(mask)}` takes out: the more of them, "
                        "the smaller the loss",
                        call.place.location,
                        help=f"divide the sum by `{ast.unparse(mask)}.sum()`",
                        related=(file.place(product, context).location,),
                    )
                    break


def _ignoring(facts: Facts) -> Iterator[Finding]:
    """`F.cross_entropy(scores, labels, reduction="none", ignore_index=255).mean()`: the ignored ones count as zeros."""
    for loss in facts.sites.calls("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss"):
        if loss.constant("reduction") != "none" or loss.argument("ignore_index", 4) is None:
            continue
        names = loss.file.names_given(loss.node)
        for mean in loss.file.calls("mean"):
            owner = mean.owner if not mean.node.args and not mean.node.keywords else None
            if owner is None or mean.function is not loss.function:
                continue
            made, _ = source(loss.file, owner, mean.context)
            last = made.left if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult) else made
            if (made is loss.node or last_name(last) in names) and not _is_corrected(mean):
                facts.sites.seen[LOOKS_AT] += 1
                yield Finding(
                    "The mean counts the labels that are ignored, whose losses are zero: the more of them, the smaller",
                    mean.place.location,
                    help="divide the sum by the number of labels that are not ignored",
                    related=(loss.place.location,),
                )


def _pooled(facts: Facts) -> Iterator[Finding]:
    """`(hidden * mask).mean(dim=1)`, where the mask tells tokens from padding."""
    for file in facts.sites.mentioning(["mask"]):
        for call in file.calls("mean"):
            product = call.owner
            if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult) or _dims(call) != ["1"]:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            if any(_tells_padding(file, side, call.context) for side in (product.left, product.right)):
                if not _is_corrected(call):
                    yield Finding(
                        "The mean counts the positions that the mask takes out: the more padding, the smaller it is",
                        call.place.location,
                        help="divide the sum by `mask.sum(dim=1)`",
                    )


def _attended(facts: Facts) -> Iterator[Finding]:
    """`self.encoder(x, src_key_padding_mask=pad).mean(dim=1)`: no token looks at padding, and the mean counts it."""
    for file in facts.sites.mentioning(_TOLD):
        for call in file.calls("mean"):
            owner = call.owner
            if owner is None or _dims(call) != ["1"] or file.resolve(call.node.func, call.context) is not None:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            encoded, context = origin(file, owner, call.context)
            told = _padding_of(encoded) if isinstance(encoded, ast.Call) else None
            if told is not None and not _is_corrected(call):
                yield Finding(
                    f"The mean counts the positions that `{ast.unparse(told)}` says are padding",
                    call.place.location,
                    help="set them to zero, and divide the sum by the number of tokens",
                    related=(file.place(encoded, context).location,),
                )


def _padding_of(call: ast.Call) -> ast.expr | None:
    """What an encoder, or attention of a sequence to itself, is told is padding."""
    to_itself = len({ast.unparse(arg) for arg in call.args[:2]}) == 1 and len(call.args) > 1
    told = [word for word in call.keywords if word.arg in _TOLD and (word.arg == _TOLD[0] or to_itself)]
    return next((word.value for word in told if not isinstance(word.value, ast.Constant)), None)


def _dims(call: Call) -> list[str]:
    """The dimensions that `x.mean(dim=1)` goes over."""
    given = [*call.node.args, *(word.value for word in call.node.keywords if word.arg in ("dim", "axis"))]
    return [ast.unparse(dim) for dim in given]


def _tells_padding(file: File, node: ast.expr, context: Context) -> bool:
    """A mask that is made of token numbers, `(ids != pad)`, or is called `attention_mask`."""
    if "mask" not in ast.unparse(node):
        return False
    while isinstance(node, ast.Call | ast.Subscript):
        inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if isinstance(node, ast.Subscript):
            inner = node.value
        if inner is None:
            return False
        node = inner
    made, _ = source(file, node, context)
    text = ast.unparse(made).lower()
    return "attention_mask" in text or ("!=" in text and ("pad" in text or "!= 0" in text))


def _averaged(call: Call) -> ast.expr | None:
    """What `x.mean()` or `torch.mean(x)` averages, over all of it."""
    func = call.node.func
    if not isinstance(func, ast.Attribute) or call.node.keywords:
        return None
    if call.file.resolve(func, call.context) == "torch.mean":
        return call.node.args[0] if len(call.node.args) == 1 else None
    return func.value if not call.node.args else None


def _is_mask(node: ast.expr) -> bool:
    """A name of a mask, not the complement of chance: `mask`, `pad_mask.float()`, `(y != pad)`."""
    text = ast.unparse(node).lower()
    return any(word in text for word in _WORDS) and "weight" not in text and "/" not in text


def _is_sure(file: File, mask: ast.expr, context: Context) -> bool:
    """`softmax(logits).max(1)[0] > threshold`: it takes out what the model is unsure of, and the batch stays whole."""
    for made, where in _ways(file, _bare(mask), context):
        for node in walk(made):
            asked: ast.expr | None = None
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDERS):
                asked = node.left
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ORDERED:
                asked = node.func.value
            if asked is not None and _is_probability(file, asked, where):
                return True
    return False


def _is_worked_out(file: File, mask: ast.expr, context: Context, depth: int = 3) -> bool:
    """`mask = weights`, `mask = self.choose(logits)`: how much, or what, it takes out is somebody else's answer.

    A quotient, as `(second / first).clamp(max=1)`, weighs and takes nothing out.
    """
    for made, where in [way for name in _names(mask) for way in _ways(file, name, context)]:
        parts = walk(made)
        divides = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) for part in parts)
        if "weight" in ast.unparse(made).lower() or (divides and not any(isinstance(p, ast.Compare) for p in parts)):
            return True
        if any(isinstance(part, ast.Call) and _is_own(part.func) for part in walk(made)):
            return True
        if depth > 0 and made is not mask and _is_worked_out(file, made, where, depth - 1):
            return True
    return False


def _names(node: ast.expr) -> list[ast.Name]:
    """The names it is made of; `mask.expand_as(error)` takes nothing of the error but its shape."""
    likes = (part for part in walk(node) if isinstance(part, ast.Call) and last_name(part.func) in _LIKE)
    aside = {part for call in likes for arg in call.args for part in walk(arg)}
    return [part for part in walk(node) if isinstance(part, ast.Name) and part not in aside]


def _is_own(func: ast.expr) -> bool:
    """A method of the class itself: `self.choose`."""
    return isinstance(func, ast.Attribute) and is_name(func.value, "self")


def _ways(file: File, node: ast.expr, context: Context) -> list[tuple[ast.expr, Context]]:
    """All that the name of a mask may stand for."""
    if not isinstance(node, ast.Name):
        return [(node, context)]
    bound = file.bindings(node.id, context)
    return [(each.value, each.context) for each in bound if isinstance(each.value, ast.expr)]


def _bare(node: ast.expr) -> ast.expr:
    """`mask` of `mask.float()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    return node


def _is_probability(file: File, node: ast.expr, context: Context, depth: int = 4) -> bool:
    """Whether it was taken out of a softmax or a sigmoid."""
    made, where = origin(file, node, context)
    for part in walk(made):
        if isinstance(part, ast.Call) and last_name(part.func) in ("softmax", "sigmoid"):
            return True
    names = [part for part in walk(made) if isinstance(part, ast.Name) and part is not node]
    return depth > 0 and any(_is_probability(file, name, where, depth - 1) for name in names)


def _is_corrected(call: Call) -> bool:
    """Whether the mean is divided by that of the mask at once, or multiplied by zero: a loss where nothing is left."""
    body = call.function.node if call.function is not None else call.file.module.source.tree
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div | ast.Mult)
        and (_is_divided(node, call) or _is_cancelled(node, call))
        for node in walk(body)
    )


def _is_divided(node: ast.BinOp, call: Call) -> bool:
    by = ast.unparse(node.right).lower()
    return any(part is call.node for part in walk(node.left)) and any(
        word in by for word in (*_WORDS, "numel", "size", "len(")
    )


def _is_cancelled(node: ast.BinOp, call: Call) -> bool:
    sides = [node.left, node.right]
    zero = any(isinstance(side, ast.Constant) and side.value == 0 for side in sides)
    return zero and isinstance(node.op, ast.Mult) and call.node in sides
