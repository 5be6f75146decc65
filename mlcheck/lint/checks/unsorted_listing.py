"""unsorted-listing: the order of a folder's files decides labels, pairs or splits, and nothing fixes that order."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, is_name, last_name, loads, walk
from mlcheck.lint.sites import Call, File, Function
from mlcheck.lint.sites.data.numbering import numberings
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.origins import callers, returns

LOOKS_AT = "folder listing"
WORDS = ("listdir", "scandir", "iterdir", "glob")
_FUNCTIONS = ("os.listdir", "glob.glob", "glob.iglob", "os.scandir")
_METHODS = ("iterdir", "rglob", "glob")
_LISTS = ("listdir", "scandir", "iglob", "walk")
_SORTS = pattern(r"sort", re.IGNORECASE)
_LABELS = pattern(r"label|class|target|categor|tensor\(", re.IGNORECASE)
_COMPOUND = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With, ast.Try)
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
_KEEPS_ORDER = ("list", "tuple", "filter", "map", "array", "asarray", "Path", "str")


def check(facts: Facts) -> Iterator[Finding]:
    listings = [call for call in _listings(facts) if "torch" in call.file.text]
    listings += [asked for call in listings for asked in _asked(call)]
    facts.sites.seen[LOOKS_AT] = len(listings)
    held: dict[tuple[str, object, str], Call] = {}
    for call in listings:
        name = _kept_as(call)
        owner = _owner(call, name)
        if not name or _is_sorted(call) or _is_sorted_later(call.file, name):
            continue
        held[call.file.path, owner, name] = call
        use = _numbered(call, name)
        if use is not None:
            yield _finding(call, "The number of a class is its place in the listing of a folder", use)
        elif (use := _cut_in_two(call, name)) is not None:
            yield _finding(call, "Which files are in which part is decided by the order of a folder's listing", use)
    yield from _pairs(held)


def _finding(call: Call, what: str, use: ast.AST) -> Finding:
    return Finding(
        f"{what}, and that order differs between file systems",
        call.place.location,
        help=f"`sorted({ast.unparse(call.node)[:60]})`",
        related=(call.file.place(use, call.context).location,),
    )


def _listings(facts: Facts) -> Iterator[Call]:
    yield from facts.sites.calls(*_FUNCTIONS)
    for file in facts.sites.mentioning([f".{name}(" for name in _METHODS]):
        for call in file.calls(*_METHODS):
            if isinstance(call.node.func, ast.Attribute) and file.resolve(call.node.func, call.context) is None:
                yield call


def _asked(call: Call) -> Iterator[Call]:
    """The calls of a function that returns the listing as it is."""
    function = call.function
    if function is None or _SORTS.search(function.text) or any(s in function.text for s in ("set(", "shuffle")):
        return
    name = _kept_as(call)
    if any(_carries(answer, call.node) or (name and is_name(answer, name)) for answer in returns(function)):
        yield from callers(call.file.sites, function)


def _statement(call: Call) -> tuple[ast.expr, ast.expr] | None:
    """The target and the value of the assignment that the listing becomes, filtered or wrapped perhaps."""
    within = call.function.node if call.function is not None else call.file.module.source.tree
    for node in walk(within):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, value in assigned(node):
                if _carries(value, call.node):
                    return target, value
    return None


def _carries(value: ast.expr, listing: ast.Call) -> bool:
    """Whether an expression has the files of the listing in its order."""
    if value is listing:
        return True
    if isinstance(value, ast.ListComp | ast.GeneratorExp) and len(value.generators) == 1:
        return _carries(value.generators[0].iter, listing)
    if isinstance(value, ast.Call) and value.args:
        last = last_name(value.func)
        return last in _KEEPS_ORDER and _carries(value.args[-1], listing)
    return False


def _kept_as(call: Call) -> str:
    """The variable, or the attribute of `self`, that the listing is kept in."""
    found = _statement(call)
    target = found[0] if found is not None else None
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""


def _owner(call: Call, name: str) -> object:
    """Where the name is valid: the class for an attribute, else the function."""
    method = call.file.method_around(call.context)
    if "." in name:
        return method.cls if method is not None else None
    return call.function


def _is_sorted(call: Call) -> bool:
    found = _statement(call)
    return found is not None and _SORTS.search(ast.unparse(found[1])) is not None


def _is_sorted_later(file: File, name: str) -> bool:
    """`name.sort()`, `sorted(name)`, `natsorted(name)`, `np.sort(name)` anywhere, or a set or a shuffle made of it."""
    dotted = re.escape(name)
    return re.search(rf"sort\w*\(\s*{dotted}\b|{dotted}\.sort\(|\bset\(\s*{dotted}\b", file.text) is not None


def _scope(call: Call, name: str) -> ast.AST:
    owner = _owner(call, name)
    if isinstance(owner, Function):
        return owner.node
    return call.cls.node if call.cls is not None and "." in name else call.file.module.source.tree


def _numbered(call: Call, name: str) -> ast.AST | None:
    """Where the files are numbered in the order of the listing: `{c: i for i, c in enumerate(names)}`,
    `names.index(c)`."""
    scope = _scope(call, name)
    for node, over in numberings(walk(scope)):
        if ast.unparse(over) == name and not _are_samples(scope, name):
            return node
    for node in walk(scope):
        if isinstance(node, ast.For) and ast.unparse(iteration_of(node).over) == name and _labels_files(node):
            return node
        if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND) and f"{name}.index(" in ast.unparse(node):
            if _LABELS.search(ast.unparse(node)):  # the place of a file may also tell how far a run has come
                return node
    return None


def _labels_files(loop: ast.For) -> bool:
    """`for label, folder in enumerate(names):`, which lists each folder, and keeps the number beside its files."""
    turn = iteration_of(loop)
    if not isinstance(turn.number, ast.Name) or not isinstance(turn.brought, ast.Name):
        return False
    calls = [node for line in loop.body for node in walk(line) if isinstance(node, ast.Call)]
    lists = any(last_name(call.func) in (*_LISTS, *_METHODS) for call in calls)
    kept = [arg for call in calls if last_name(call.func) in ("append", "extend") for arg in call.args]
    kept += [node.value for line in loop.body for node in walk(line) if isinstance(node, ast.AugAssign)]
    return (
        lists
        and any(loads(line, turn.brought.id) for line in loop.body)
        and any(loads(arg, turn.number.id) for arg in kept)
    )


def _are_samples(scope: ast.AST, name: str) -> bool:
    """Whether the length of a data set is that of the listing: what is numbered are its samples, no classes."""
    lengths = (node for node in walk(scope) if isinstance(node, ast.FunctionDef) and node.name == "__len__")
    return any(f"return len({name})" in ast.unparse(each) for each in lengths)


def _cut_in_two(call: Call, name: str) -> ast.AST | None:
    """`names[:n]` and `names[n:]`."""
    heads, tails = {}, {}
    for node in walk(_scope(call, name)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and ast.unparse(node.value) == name:
            lower, upper = node.slice.lower, node.slice.upper
            if lower is None and upper is not None:
                heads[ast.unparse(upper)] = node
            elif upper is None and lower is not None:
                tails[ast.unparse(lower)] = node
    return next((node for where, node in heads.items() if where in tails), None)


def _pairs(held: dict[tuple[str, object, str], Call]) -> Iterator[Finding]:
    """Two listings of two folders, read at the same place: the third image with the third mask."""
    keys = list(held)
    for number, (path, owner, one) in enumerate(keys):
        for path_, owner_, two in keys[number + 1 :]:
            first, second = held[path, owner, one], held[path_, owner_, two]
            if (path, owner) != (path_, owner_) or one == two or owner is None:
                continue
            if ast.unparse(first.node) == ast.unparse(second.node) or first.context.excludes(second.context):
                continue
            use = _read_together(_scope(second, two), one, two)
            if use is not None and not _is_shuffled(_scope(second, two), (one, two)):
                yield _finding(
                    second, f"`{one}[i]` and `{two}[i]` belong together only if both folders list alike", use
                )


def _counted_inside(outer: ast.AST) -> set[str]:
    """The variables of the loops within: two of them may both count by `i`, each for itself."""
    loops = (node for node in walk(outer) if isinstance(node, ast.For | ast.comprehension) and node is not outer)
    own = [id(each) for each in outer.generators] if isinstance(outer, _COMPREHENSIONS) else []
    targets = (walk(loop.target) for loop in loops if id(loop) not in own)
    return {part.id for target in targets for part in target if isinstance(part, ast.Name)}


def _is_shuffled(scope: ast.AST, names: tuple[str, str]) -> bool:
    """`random.shuffle(ours)` and `random.shuffle(theirs)`: any two will do."""
    calls = (node for node in walk(scope) if isinstance(node, ast.Call) and last_name(node.func) == "shuffle")
    return any(ast.unparse(arg) in names for call in calls for arg in call.args)


def _read_together(scope: ast.AST, one: str, two: str) -> ast.AST | None:
    """`one[i]` and `two[i]` with the same index in one function, or `zip(one, two)`."""
    for function in walk(scope):
        if isinstance(function, ast.Call) and getattr(function.func, "id", "") == "zip":
            if {one, two} <= {ast.unparse(arg) for arg in function.args}:
                return function
        if isinstance(function, ast.FunctionDef | ast.For | _COMPREHENSIONS):
            found: dict[str, dict[str, ast.AST]] = {one: {}, two: {}}
            counted = _counted_inside(function)
            for node in walk(function):
                if (
                    isinstance(node, ast.Subscript)
                    and isinstance(node.slice, ast.Name)
                    and node.slice.id not in counted
                ):
                    found.get(ast.unparse(node.value), {})[node.slice.id] = node
            both = found[one].keys() & found[two].keys()
            if both:
                return found[two][min(both)]
    return None
