"""pairs-shuffled-apart: inputs are put into one random order, and their targets into another."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Context, File, canonical
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.data.ordered_alone import ordered_alone
from mlcheck.lint.sites.data.shuffled_apart import shuffled_apart
from mlcheck.lint.sites.data.zipped import gone_over_together
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "shuffle(", "randperm(", "permutation(", "sort(")
_SUPERVISED = ("CrossEntropyLoss", "MSELoss", "L1Loss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "SmoothL1Loss")
_FUNCTIONS = (
    *("cross_entropy", "mse_loss", "l1_loss", "nll_loss", "binary_cross_entropy", "smooth_l1_loss"),
    *("binary_cross_entropy_with_logits", "huber_loss"),
)


def check(facts: Facts) -> Iterator[Finding]:
    for apart in shuffled_apart(facts.sites):
        yield Finding(
            f"`{apart.inputs}` and `{apart.targets}` are shuffled by two draws: "
            "the targets no longer belong to the inputs",
            apart.second.place.location,
            help="draw one order, and put both into it",
            related=(apart.first.place.location,),
        )
    for alone in ordered_alone(facts.sites):
        yield Finding(
            f"`{alone.rows}` is put into another order, and `{alone.left}` beside it is not: "
            "the targets no longer belong to the inputs",
            alone.moved.location,
            help="put both into the same order",
            related=(alone.together.location,),
        )
    for pairs in gone_over_together(facts.sites):
        file, context = pairs.call.file, pairs.call.context
        pair = _pair(iteration_of(pairs.loop).brought)
        if pair is None or len(pairs.call.node.args) != 2:
            continue
        made = [_shuffled(file, arg, context) for arg in pairs.call.node.args]
        if any(loader is None for loader in made) or made[0] == made[1]:
            continue
        around, inner = pairs.file, pairs.context
        compared = next((node for node in walk(pairs.loop) if _compares(around, node, inner, pair)), None)
        if compared is not None:
            yield Finding(
                f"`{pair[0]}` and `{pair[1]}` come out of two loaders, each shuffled by itself: "
                "the targets no longer belong to the inputs",
                pairs.call.place.location,
                help="make one data set of both, `TensorDataset(inputs, targets)`, and one loader",
                related=(around.place(compared, inner).location,),
            )


def _pair(target: ast.expr) -> tuple[str, str] | None:
    match target:
        case ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=two)]):
            return one, two
    return None


def _shuffled(file: File, node: ast.expr, context: Context) -> tuple[int, int] | None:
    """The loader, by its call and the call of the function that makes it, if it shuffles in an order of its own."""
    found = origins(file, node, context)
    if len(found) != 1 or canonical(found[0].name) != LOADER or not isinstance(found[0].node, ast.Call):
        return None
    loader = found[0]
    call = Call(loader.file, found[0].node, loader.context)
    alone = call.argument("generator") is None and call.argument("sampler", 3) is None
    maker = loader.entered.call.node if loader.entered is not None else None
    return (id(call.node), id(maker)) if alone and loader.told("shuffle", 2, False) is True else None


def _compares(file: File, node: ast.AST, context: Context, pair: tuple[str, str]) -> bool:
    """`criterion(model(x), y)`, of a loss that takes each target for that of its input."""
    if not isinstance(node, ast.Call) or len(node.args) < 2 or not _is_supervised(file, node, context):
        return False
    predicted, target = source(file, node.args[0], context)[0], node.args[1]
    read = {part.id for part in walk(predicted) if isinstance(part, ast.Name)} & {*pair}
    return (
        isinstance(predicted, ast.Call)
        and isinstance(target, ast.Name)
        and target.id in pair
        and read == {*pair} - {target.id}
    )


def _is_supervised(file: File, node: ast.Call, context: Context) -> bool:
    called = file.called(node, context)
    if called.startswith("torch.nn.functional."):
        return called.rpartition(".")[2] in _FUNCTIONS
    found: list[Origin] = origins(file, node.func, context) if isinstance(node.func, ast.Name | ast.Attribute) else []
    names = [canonical(origin.name) for origin in found]
    return bool(names) and all(
        name.startswith("torch.nn.") and name.rpartition(".")[2] in _SUPERVISED for name in names
    )
