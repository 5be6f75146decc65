"""double-scaling: pixels are divided by 255 although `ToTensor` has done so."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Context, File, Function
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.data.pixels import scaled_again
from mlcheck.lint.sites.data.scaled_constants import scaled_constants
from mlcheck.lint.sites.data.transforms import name_of, transforms_of
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import Origin

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "ToTensor", "to_tensor", "Normalize")


def check(facts: Facts) -> Iterator[Finding]:
    told = set()
    for place, scaled in (*_by_loaders(facts), *scaled_again(facts.sites)):
        if place.spot not in told:
            told.add(place.spot)
            yield _finding(place, scaled)
    for place in scaled_constants(facts.sites):
        yield Finding(
            "These are means and deviations of pixels between 0 and 1 already: divided by 255 they fit none",
            place.location,
            help="as they are, behind `ToTensor`",
        )


def _by_loaders(facts: Facts) -> Iterator[tuple[Place, Place]]:
    for loader in facts.sites.once(loaders):
        for data in loader.data:
            steps = transforms_of(data) or []
            scaled = next((step for step in steps if name_of(step) == "ToTensor"), None)
            if scaled is None or not data.name.startswith("torchvision.datasets."):
                continue
            for file, node, context in (*_after(steps, scaled), *_in_loops(loader)):
                yield file.place(node, context), scaled.file.place(scaled.node, scaled.context)


def _finding(place: Place, scaled: Place) -> Finding:
    return Finding(
        "The pixels are divided by 255 a second time: `ToTensor` brings them to 0..1 already",
        place.location,
        help="leave one of the two out",
        related=(scaled.location,),
    )


def _after(steps: list[Origin], scaled: Origin) -> Iterator[tuple[File, ast.AST, Context]]:
    """`Lambda(lambda x: x / 255)` among the steps behind `ToTensor`."""
    for step in steps[steps.index(scaled) + 1 :]:
        if name_of(step) == "Lambda" and isinstance(step.node, ast.Call) and step.node.args:
            given = step.node.args[0]
            named = step.file.resolve(given, step.context)
            body: list[ast.AST] = [given] if isinstance(given, ast.Lambda) else []
            if isinstance(named, Function):
                body = list(named.node.body)
            names = {arg.arg for arg in given.args.args} if isinstance(given, ast.Lambda) else set()
            names |= set(named.parameters) if isinstance(named, Function) else set()
            for part in body:
                for node in walk(part):
                    if _divides(node, names):
                        yield step.file, node, step.context


def _in_loops(loader: Loader) -> Iterator[tuple[File, ast.AST, Context]]:
    """`for x, y in loader: x = x / 255`."""
    file = loader.call.file
    for name in loader.names:
        for loop, _ in file.walk.loops:
            turn = iteration_of(loop) if isinstance(loop, ast.For) else None
            if turn is None or not isinstance(turn.over, ast.Name) or turn.over.id != name:
                continue
            first = _first(turn.brought)
            nodes = [child for line in loop.body for child in walk(line)]
            if first and not any(_multiplies(node) for node in nodes):
                yield from ((file, node, file.walk.module) for node in nodes if _divides(node, {first}))


def _first(target: ast.expr) -> str:
    """The name of the images in `x, y` and in `i, (x, y)`."""
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        inner = target.elts[1]
        return _first(inner) if isinstance(inner, ast.Tuple) else getattr(target.elts[0], "id", "")
    return ""


def _divides(node: ast.AST, names: set[str]) -> bool:
    """`x / 255`, `x.float() / 255.0`, `x.div(255)` of one of the names."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _is_255(node.right) and _owner(node.left) in names
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return _is_255(node.value) and _owner(node.target) in names
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("div", "div_"):
        return bool(node.args) and _is_255(node.args[0]) and _owner(node.func.value) in names
    return False


def _multiplies(node: ast.AST) -> bool:
    """`x * 255`: dequantised, or rounded to bytes, on the way."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_255(node.left) or _is_255(node.right)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
        return _is_255(node.value)
    named = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return named in ("mul", "mul_") and any(_is_255(arg) for arg in getattr(node, "args", ()))


def _is_255(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (255, 255.0, 256, 256.0)


def _owner(node: ast.expr) -> str:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in ("float", "to", "cuda", "view", "reshape", "double", "type", "flatten"):
            return ""
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""
