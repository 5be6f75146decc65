"""masked-score-kept: masked scores are set to nought before a softmax, which gives them weight all the same."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, loads, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.origins import callers, returns

LOOKS_AT = "masked score"
WORDS = ("mask",)
_BROKEN_NUMBERS = pattern(r"isnan|isinf|isfinite|inf\b|!=")
_DRAWN = pattern(r"\brand|bernoulli|dropout")
_SOFTMAX = "softmax"  # a logarithm is a loss, where whole rows are blanked and left out later
_AS_IT_IS = ("float", "to", "type_as", "contiguous", "view", "reshape", "unsqueeze", "squeeze", "transpose", "permute")


_MASK = pattern(r"(?:^|_)(?:mask|pad|padding|valid)$|^mask(?:_|$)")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _multiplied(facts)
    for file in facts.sites.mentioning(["masked_fill"]):
        softmaxes = file.calls(_SOFTMAX)
        for call in file.calls("masked_fill", "masked_fill_") if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            value = call.constant("value", 1)
            mask = call.argument("mask", 0)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e-2:
                continue
            if mask is None or _BROKEN_NUMBERS.search(ast.unparse(mask)) or _is_of_scores(call, mask):
                continue
            softmax = next((other for other in softmaxes if _takes(other, call)), None)
            mended = softmax is not None and _is_mended(call, mask, softmax)
            if softmax is None:
                softmax = next(_softmaxes_of_answer(call), None)
            if softmax is not None and not _is_row(call, mask, softmax) and not mended:
                yield Finding(
                    f"A masked score of {ast.unparse(_given(call))} is an ordinary score to the softmax: "
                    "masked positions still get weight",
                    call.place.location,
                    help='fill with `float("-inf")`, or with `torch.finfo(scores.dtype).min`',
                    related=(softmax.place.location,),
                )


def _multiplied(facts: Facts) -> Iterator[Finding]:
    """`scores * mask` before a softmax, with a mask that the function is given or compares for."""
    for file in facts.sites.mentioning(["mask"]):
        for softmax in file.calls(_SOFTMAX) if "torch" in file.text else ():
            given = _softened(softmax)
            product, context = source(file, given, softmax.context) if given is not None else (None, softmax.context)
            if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            masks = [side for side in (product.left, product.right) if _is_mask(softmax, side)]
            made = Call(file, softmax.node, context)
            if len(masks) == 1 and not _is_row(made, masks[0], softmax) and not _is_mended(made, masks[0], softmax):
                yield Finding(
                    "A masked score is multiplied by zero here, and 0 is an ordinary score to the softmax: "
                    "masked positions still get weight",
                    file.place(product, context).location,
                    help='`scores.masked_fill(mask == 0, float("-inf"))`',
                    related=(softmax.place.location,),
                )


def _is_mask(softmax: Call, node: ast.expr) -> bool:
    """Whether it is a mask of noughts and ones: by the name of a parameter, or by what it compares."""
    inner = before_methods(node, (*_AS_IT_IS, "unsqueeze", "expand", "expand_as"))
    inner = source(softmax.file, inner, softmax.context)[0]
    if isinstance(before_methods(inner, _AS_IT_IS), ast.Compare):
        return True
    parameters = softmax.function.parameters if softmax.function is not None else {}
    return isinstance(inner, ast.Name) and inner.id in parameters and _MASK.search(inner.id.lower()) is not None


def _given(call: Call) -> ast.expr:
    value = call.argument("value", 1)
    return value if value is not None else call.node


def _is_of_scores(fill: Call, mask: ast.expr) -> bool:
    """Whether the mask is a threshold of the scores themselves, or drawn: nought is a score that is wanted then."""
    made = source(fill.file, mask, fill.context)[0]
    filled = fill.owner
    is_own = isinstance(filled, ast.Name) and loads(made, filled.id)
    return is_own or _DRAWN.search(ast.unparse(made)) is not None


def _is_row(fill: Call, mask: ast.expr, softmax: Call) -> bool:
    """Whether the mask is the same for all that the softmax weighs: whole rows, which are left out later."""
    dim = softmax.constant("dim", 1 if softmax.name else 0, -1)
    made = source(fill.file, mask, fill.context)[0]
    last = made.slice.elts[-1] if isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Tuple) else None
    is_last = isinstance(last, ast.Constant) and last.value is None
    return dim == -1 and (is_last or "unsqueeze(-1)" in ast.unparse(made) or "keepdim=True" in ast.unparse(made))


def _is_mended(fill: Call, mask: ast.expr, softmax: Call) -> bool:
    """Whether the mask is applied once more to what the softmax gave, as in `w * mask / (w * mask).sum()`."""
    within = {id(node) for node in walk(mask)}
    held = set(_held(mask))
    return fill.function is not None and any(
        isinstance(node, ast.Name | ast.Attribute)
        and node.lineno >= softmax.node.lineno
        and id(node) not in within
        and ast.unparse(node) in held
        for node in fill.function.nodes
    )


def _held(mask: ast.expr) -> Iterator[str]:
    """`self.tril` of `self.tril[:n, :n] == 0`, `mask` of `~mask.unsqueeze(1)`: what bounds a slice is no mask."""
    todo: list[ast.AST] = [mask]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            yield ast.unparse(node)
        elif isinstance(node, ast.Subscript):
            todo.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            todo += [node.func.value, *node.args]
        else:
            todo += ast.iter_child_nodes(node)


def _softened(softmax: Call) -> ast.expr | None:
    """What the softmax is taken of: its argument, or the tensor whose method it is."""
    of_library = isinstance(softmax.file.resolve(softmax.node.func, softmax.context), str)
    is_module = isinstance(softmax.node.func, ast.Attribute) and ast.unparse(softmax.node.func).startswith("self.")
    owner = getattr(softmax.node.func, "value", None)
    return softmax.argument("input", 0) if of_library or is_module else owner


def _softmaxes_of_answer(fill: Call) -> Iterator[Call]:
    """The softmax of what the function around returns, where a caller takes it as it is and masks no weights itself."""
    function = fill.function
    for call in callers(fill.file.sites, function) if function is not None and _returns(function, fill) else ():
        handed = {ast.unparse(part) for part in (*call.node.args, *(word.value for word in call.node.keywords))}
        for softmax in call.file.calls(_SOFTMAX) if call.function is not None else ():
            given = _softened(softmax)
            if softmax.function is not call.function or given is None:
                continue
            made, _ = source(softmax.file, before_methods(given, _AS_IT_IS), softmax.context)
            taken = before_methods(made, _AS_IT_IS) is call.node
            if taken and not _weighs_again(call.function, softmax, handed):
                yield softmax


def _returns(function: Function, fill: Call) -> bool:
    return any(source(fill.file, each, function.inner)[0] is fill.node for each in returns(function))


def _weighs_again(function: Function | None, softmax: Call, handed: set[str]) -> bool:
    """Whether a product below it has one of these in it: `weights * mask`."""
    below = [n for n in function.all(ast.BinOp) if n.lineno >= softmax.node.lineno] if function is not None else []
    products = (node for node in below if isinstance(node.op, ast.Mult))
    given = softmax.node
    sides = (side for node in products for side in (node.left, node.right) if given not in walk(side))
    return any(ast.unparse(part) in handed for side in sides for part in walk(side) if isinstance(part, ast.Name))


def _takes(softmax: Call, fill: Call) -> bool:
    """Whether the softmax is taken of what the call filled, and of nothing later."""
    if softmax.function is not fill.function or softmax.node.lineno < fill.node.lineno:
        return False
    if softmax.context.excludes(fill.context):
        return False
    given = _softened(softmax)
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in _AS_IT_IS:
        given = given.func.value
    if given is fill.node:
        return True
    if not isinstance(given, ast.Name):
        return False
    in_place = isinstance(fill.node.func, ast.Attribute) and fill.node.func.attr.endswith("_")
    filled = fill.node.func.value if in_place and isinstance(fill.node.func, ast.Attribute) else None
    if is_name(filled, given.id):
        last = _last_line(softmax, given)
        return last <= fill.node.lineno
    return given.id in fill.file.names_given(fill.node) and _last_line(softmax, given) == fill.node.lineno


def _last_line(call: Call, name: ast.Name) -> int:
    """The line above the call on which the name was last bound, on whichever branch."""
    found = latest(call.file, name, call.context)
    lines = [getattr(b.node, "lineno", 0) for b in call.file.bindings(name.id, call.context)]
    above = [line for line in lines if line < call.node.lineno]
    return max(above, default=getattr(found.node, "lineno", 0) if found is not None else 0)
