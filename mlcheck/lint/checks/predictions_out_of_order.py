"""predictions-out-of-order: predictions for shuffled rows are written beside the rows in their own order."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Call, Function, Sites, canonical
from mlcheck.lint.sites.data.comparing import compared, is_in_order, is_only_joined
from mlcheck.lint.sites.data.gathering import gathered_from
from mlcheck.lint.sites.data.loaders import LOADER, Loader, loaders
from mlcheck.lint.sites.data.read_by_turn import read_by_turn
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.sorted_rows import left_sorted
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "data loader"
WORDS = ("DataLoader", "pack_padded_sequence")
_ADDS = ("append", "extend")


def check(facts: Facts) -> Iterator[Finding]:
    for given, made in left_sorted(facts.sites):
        yield Finding(
            "The rows are sorted by their length and returned in that order: row 0 is no longer the caller's first",
            given.location,
            help="put them back: `out[order.argsort()]`; or leave the order to "
            "`pack_padded_sequence(..., enforce_sorted=False)`",
            related=(made.location,),
        )
    yield from _of_helpers(facts.sites)
    for by_turn in read_by_turn(facts.sites):
        yield Finding(
            f"`{by_turn.name}` was filled by another pass over a loader that shuffles: what stands there belongs to "
            "other samples",
            by_turn.read.location,
            help="compute it for the batch at hand, or key it by the indices of the samples",
            related=(by_turn.filled.location,),
        )
    for loader in facts.sites.once(loaders):
        function = loader.call.function
        if function is None or loader.trained or loader.call.constant("shuffle", 2, False) is not True:
            continue
        rows = _names(loader)
        yield from _side_by_side(function, loader, rows)
        for filled, labels in compared(function):
            apart = is_in_order(function, loader, labels) and is_only_joined(function, loader, filled)
            if apart and filled.lineno > loader.call.node.lineno and _is_gathered(function, loader, filled):
                yield Finding(
                    f"`{ast.unparse(labels)}` is in the order of the data, and `{ast.unparse(filled)}` comes shuffled",
                    loader.call.place.location,
                    help="leave `shuffle` out where predictions are compared with labels by their position",
                    related=(function.place(filled).location,),
                )
        for node in function.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                table, filled = node.targets[0].value, node.value
                if not isinstance(table, ast.Name) or _is_made_anew(function, loader, table):
                    continue
                if table.id not in rows and not _is_read(function, table):
                    continue
                if _is_gathered(function, loader, filled):
                    yield Finding(
                        f"The rows of `{table.id}` get each other's predictions: these come shuffled",
                        loader.call.place.location,
                        help="leave `shuffle` out where predictions are matched with rows by their position",
                        related=(function.place(node).location,),
                    )


def _of_helpers(sites: Sites) -> Iterator[Finding]:
    """`test["label"] = predict(model, make_loader(test))`, of loops and loaders that other functions hold."""
    for file in sites.mentioning(["read_csv"]):
        for function in file.functions if "torch" in file.text else ():
            for line in function.all(ast.Assign):
                table = line.targets[0].value if isinstance(line.targets[0], ast.Subscript) else None
                if not isinstance(table, ast.Name) or not _is_read(function, table):
                    continue
                for over in gathered_from(Origin(file, line.value, function.inner)):
                    loader = _shuffled(over)
                    if loader is not None and loader.function is not None and _is_elsewhere(function, over, loader):
                        yield Finding(
                            f"The rows of `{table.id}` get each other's predictions: these come shuffled",
                            loader.place.location,
                            help="leave `shuffle` out where predictions are matched with rows by their position",
                            related=(function.place(line).location,),
                        )


def _shuffled(over: Origin) -> Call | None:
    """The call that makes the loader, or that has a function make it, if it shuffles."""
    found = origins(over.file, over.node, over.context, over.entered)
    if len(found) != 1 or canonical(found[0].name) != LOADER or found[0].told("shuffle", 2, False) is not True:
        return None
    made = found[0]
    own = Call(made.file, made.node, made.context) if isinstance(made.node, ast.Call) else None
    return made.entered.call if made.entered is not None else own


def _is_elsewhere(function: Function, over: Origin, loader: Call) -> bool:
    """Whether the loop, or what makes the loader, is in another function: what stands here is told of beside."""
    here = over.file.function_around(over.context) is function and loader.function is function
    written = isinstance(over.node, ast.Name) and canonical(loader.file.called(loader.node, loader.context)) == LOADER
    return not (
        here and written and any(isinstance(node, ast.For) and node.iter is over.node for node in function.nodes)
    )


def _is_read(function: Function, table: ast.Name) -> bool:
    """`submission = pd.read_csv("sample.csv")`: its rows stand in the order of the file."""
    made, context = source(function.file, table, function.inner)
    return function.file.called(made, context) in ("pandas.read_csv", "polars.read_csv")


def _side_by_side(function: Function, loader: Loader, rows: set[str]) -> Iterator[Finding]:
    """`zip(data.names, predictions)`, `DataFrame({"id": table["id"], "label": predictions})`."""
    for node in function.nodes:
        if isinstance(node, ast.Call) and is_name(node.func, "zip"):
            columns = node.args
        elif isinstance(node, ast.Call) and _is_table(function, node):
            columns = [value for part in node.args[:1] if isinstance(part, ast.Dict) for value in part.values]
        else:
            continue
        named = [column for column in columns if _is_of_rows(function, loader, column, rows)]
        filled = [column for column in columns if column not in named and _is_gathered(function, loader, column)]
        if named and filled and node.lineno > loader.call.node.lineno:
            yield Finding(
                f"`{ast.unparse(named[0])}` is in the order of the data, and `{ast.unparse(filled[0])}` comes shuffled",
                loader.call.place.location,
                help="leave `shuffle` out where predictions are matched with rows by their position",
                related=(function.place(node).location,),
            )


def _is_table(function: Function, node: ast.Call) -> bool:
    return function.file.called(node, function.inner) in ("pandas.DataFrame", "polars.DataFrame")


def _is_of_rows(function: Function, loader: Loader, column: ast.expr, rows: set[str]) -> bool:
    """`data.names`, `table["id"]`, of what the loader's data is made of."""
    owner = column.value if isinstance(column, ast.Attribute | ast.Subscript) else None
    return isinstance(owner, ast.Name) and owner.id in rows and not _is_made_anew(function, loader, owner)


def _is_made_anew(function: Function, loader: Loader, table: ast.Name) -> bool:
    """Whether the name means another table by then: one of the rows in the order they came in."""
    stores = (node for node in function.nodes if is_name(node, table.id))
    return any(
        isinstance(node.ctx, ast.Store) and loader.call.node.lineno < node.lineno < table.lineno for node in stores
    )


def _names(loader: Loader) -> set[str]:
    """The tables that the loader's data is made of, through the names of the function."""
    found: set[str] = set()
    todo: list[Origin] = list(loader.data)
    for _ in range(6):
        following: list[Origin] = []
        for origin in todo:
            for node in walk(origin.node):
                if isinstance(node, ast.Name) and node.id not in found:
                    found.add(node.id)
                    held, context = origin.file.value(node, origin.context)
                    if held is not node:
                        following.append(Origin(origin.file, held, context))
        todo = following
    return found


def _extends(node: ast.AugAssign) -> bool:
    """`scores += model(x).tolist()`, which adds all of a batch to a list."""
    listed = isinstance(node.value, ast.List) or last_name(getattr(node.value, "func", None)) in ("tolist", "list")
    return isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add) and listed


def _is_gathered(function: Function, loader: Loader, filled: ast.expr) -> bool:
    """Whether it is the list that a loop over the loader fills, or made of it."""
    for loop in function.nodes:
        over = (
            {node.id for node in walk(loop.iter) if isinstance(node, ast.Name)} if isinstance(loop, ast.For) else set()
        )
        if not isinstance(loop, ast.For) or over.isdisjoint(loader.names):
            continue
        lists = {
            node.func.value.id
            for node in walk(loop)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS
            if isinstance(node.func.value, ast.Name)
        }
        lists |= {last_name(node.target) for node in walk(loop) if isinstance(node, ast.AugAssign) and _extends(node)}
        read = {node.id for node in walk(filled) if isinstance(node, ast.Name)}
        if read & lists and not any(word in ast.unparse(filled) for word in ("sort", "order", "index")):
            return not any(
                isinstance(node, ast.Name) and node.id in ("index", "indices", "idx", "row")
                for node in walk(loop.target)
            )
    return False
