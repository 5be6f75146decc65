"""file-read-per-item: a data set reads and parses one and the same file for every sample."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.latest import source

LOOKS_AT = "data set class"
WORDS = ("Dataset",)
_PANDAS = (
    "read_csv",
    "read_parquet",
    "read_json",
    "read_pickle",
    "read_feather",
    "read_excel",
    "read_table",
    "read_hdf",
)
_READS = frozenset([f"pandas.{name}" for name in _PANDAS] + ["numpy.load", "numpy.loadtxt", "numpy.genfromtxt"])
_READS |= {"torch.load", "scipy.io.loadmat", "json.load", "pickle.load"}
_PARTS = ("mmap_mode", "mmap", "skiprows", "nrows", "chunksize", "key", "start", "stop", "where", "filters", "columns")
_DATA = ("torch.utils.data.Dataset", "torchvision.datasets.VisionDataset")


def check(facts: Facts) -> Iterator[Finding]:
    sets = [cls for cls in facts.sites.classes if any(base in _DATA for base in cls.libraries)]
    facts.sites.seen[LOOKS_AT] = len(sets)
    for cls in sets:
        item = cls.methods.get("__getitem__")
        for call in _reads_for(cls, item) if item is not None else ():
            yield Finding(
                "The whole file is read and parsed again for every sample",
                call.place.location,
                help="read it once in `__init__`; map what does not fit into memory (`mmap_mode`, HDF5, a file each)",
            )
        for whole in _whole(cls, item) if item is not None else ():
            yield Finding(
                f"`{ast.unparse(whole.value)}` reads the whole array for each sample that is taken out of it",
                item.place(whole).location if item is not None else cls.place.location,
                help="index the data set of the file itself, without `[:]`: that reads one sample",
            )


def _reads_for(cls: Class, item: Function) -> Iterator[Call]:
    """The reads in `__getitem__`, and in the methods that it calls for every sample and that keep nothing."""
    yield from _reads(cls, item)
    for call in cls.file.calls(*cls.methods):
        named = cls.file.resolve(call.node.func, call.context) if call.function is item else None
        if isinstance(named, Function) and named.cls is cls and not conditions(call.context) and not _keeps(named):
            yield from _reads(cls, named)


def _keeps(function: Function) -> bool:
    """Whether it may answer from memory the next time: a cache, or something that it writes down."""
    sets = (node for node in function.nodes if isinstance(node, ast.Attribute | ast.Subscript))
    return bool(function.node.decorator_list) or any(isinstance(node.ctx, ast.Store) for node in sets)


def _whole(cls: Class, item: Function) -> Iterator[ast.Subscript]:
    """`h5py.File(path)["images"][:][index]`, under whatever names."""
    if "h5py" not in cls.file.text:
        return
    for node in item.nodes:
        inner = node.value if isinstance(node, ast.Subscript) else None
        if isinstance(node, ast.Subscript) and isinstance(inner, ast.Subscript) and _is_all(inner.slice):
            entry = inner.value
            named = isinstance(entry, ast.Subscript) and isinstance(entry.slice, ast.Constant)
            if named and isinstance(node.slice, ast.Name) and node.slice.id in item.parameters:
                yield node


def _is_all(index: ast.expr) -> bool:
    """`[:]` and `[()]`."""
    if isinstance(index, ast.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, ast.Tuple) and not index.elts


def _reads(cls: Class, item: Function) -> Iterator[Call]:
    names = {name.rpartition(".")[2] for name in _READS}
    for call in cls.file.calls(*sorted(names)):
        named = cls.file.resolve(call.node.func, call.context)
        if call.function is not item or named not in _READS or conditions(call.context) or not call.node.args:
            continue
        if any(keyword.arg in _PARTS for keyword in call.node.keywords) or _is_archive(item, call):
            continue
        given = call.node.args[0]
        if isinstance(given, ast.Name):
            given = source(cls.file, given, call.context)[0]
            entered = cls.file.bindings(given.id, call.context) if isinstance(given, ast.Name) else []
            if len(entered) == 1 and entered[0].kind == "with" and isinstance(entered[0].value, ast.expr):
                given = entered[0].value  # `with open(self.path) as f:`
        if isinstance(given, ast.Call) and getattr(given.func, "id", "") == "open" and given.args:
            given = given.args[0]
        if _is_one_file(cls, item, given):
            yield call


def _is_archive(item: Function, call: Call) -> bool:
    """`with numpy.load(path) as archive`: of an archive only the arrays that are asked for are read.

    Unless that is the same one for every sample: `numpy.load(path)["images"]`.
    """
    entered = [part.context_expr for node in item.nodes if isinstance(node, ast.With) for part in node.items]
    taken = [node.slice for node in item.nodes if isinstance(node, ast.Subscript) and node.value is call.node]
    if any(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in taken):
        return False
    return call.node in entered or ".npz" in call.file.text


def _is_one_file(cls: Class, item: Function, path: ast.expr) -> bool:
    """`self.path`, which the constructor sets once to a path: no list, no function of the index; or joined of such."""
    if parts := _joined(cls, path, item):
        return all(_is_one_file(cls, item, part) for part in parts)
    if not isinstance(path, ast.Attribute) or not isinstance(path.value, ast.Name) or path.value.id != item.receiver:
        return isinstance(path, ast.Constant)
    sets = cls.attribute(path.attr)
    if len(sets) != 1 or sets[0][0].name != "__init__" or sets[0][1].value is None:
        return False
    local = {node.id for node in walk(sets[0][1].value) if isinstance(node, ast.Name)}
    return bool(local) and not any(isinstance(node, ast.List | ast.ListComp) for node in walk(sets[0][1].value))


def _joined(cls: Class, path: ast.expr, item: Function) -> list[ast.expr]:
    """What a path is put together of: `self.root / f"{self.split}.csv"`, `os.path.join(self.root, "labels.csv")`."""
    match path:
        case ast.BinOp(left=left, op=ast.Div() | ast.Add(), right=right):
            return [left, right]
        case ast.JoinedStr(values=values):
            return [part.value if isinstance(part, ast.FormattedValue) else part for part in values]
        case ast.Call(args=args, keywords=[]) if cls.file.called(path, item.inner) in ("os.path.join", "pathlib.Path"):
            return args
    return []
