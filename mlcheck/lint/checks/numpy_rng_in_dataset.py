"""numpy-rng-in-dataset: a generator made once and copied into every worker."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import AttributeSet, Call, Class, Context, File, Function
from mlcheck.lint.sites.data.loaders import Loader, loaders
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.origins import Origin, origins

LOOKS_AT = "multi-process loader"
WORDS = ("DataLoader",)
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator", "random.Random")
_RESEEDS = pattern(r"worker_info|worker_id|initial_seed|set_epoch|reseed")
_OWN = pattern(r"\bself\.(\w+)\(")
_DRAWS = (
    "random|uniform|normal|standard_|integers|randint|choice|rand|randn|shuffle|permutation|permuted|gauss|sample|beta"
)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.workers for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        if not loader.workers or loader.call.argument("worker_init_fn", 9) is not None:
            continue
        for data in loader.data:
            cls = data.file.resolve(getattr(data.node, "func", None), data.context)
            if isinstance(cls, Class):
                yield from _copied(cls, loader)
                yield from _given(cls, data, loader)
                yield from _shared(cls, loader)


def _copied(cls: Class, loader: Loader) -> Iterator[Finding]:
    reads = cls.find("__getitem__")
    if reads is None or _RESEEDS.search(text_of(cls)):
        return
    text = _text_reached(cls, reads)
    for name, function, assigned in _set_once(cls):
        is_drawn = _draws_from(text, name) or _is_drawn_in_object(cls, text, name)
        if is_drawn and _is_generator(function.file, assigned.value, assigned.context):
            yield _finding(f"self.{name}", function.place(assigned.node), loader)
    for name, function, assigned in _set_once(cls):
        value = assigned.value
        made = origins(function.file, value, assigned.context) if value is not None and _names(text, name) else []
        for holder, call in _made_in(made[0]) if len(made) == 1 else ():
            if not _RESEEDS.search(text_of(holder)):
                yield from _held(holder, loader)
                yield from _handed(holder, call, loader)


def _given(cls: Class, data: Origin, loader: Loader) -> Iterator[Finding]:
    """`Photos(files, rng)` and `Photos(files, Noise())`, which draws from a generator of its own."""
    reads = cls.find("__getitem__")
    if reads is None or not isinstance(data.node, ast.Call) or _RESEEDS.search(text_of(cls)):
        return
    text = _text_reached(cls, reads)
    for name, function, kept in _set_once(cls):
        if not isinstance(kept.value, ast.Name) or not _names(text, name) or function.cls is None:
            continue
        found = origins(
            function.file, kept.value, kept.context, Entered(function, Call(data.file, data.node, data.context))
        )
        made = found[0] if len(found) == 1 else None
        if made is None or made.node is kept.value:
            continue
        if _is_generator(made.file, made.node, made.context):
            if _draws_from(text, name):
                yield _finding(f"self.{name}", made.file.place(made.node, made.context), loader)
            continue
        for holder, call in _made_in(made):
            if not _RESEEDS.search(text_of(holder)):
                yield from _held(holder, loader)
                yield from _handed(holder, call, loader)


def _made_in(made: Origin) -> Iterator[tuple[Class, Call]]:
    """The objects of classes of the project that an expression makes: `Noise()`, `Compose([Noise(), Scale()])`."""
    for node in walk(made.node):
        named = made.file.resolve(node.func, made.context) if isinstance(node, ast.Call) else None
        if isinstance(named, Class) and isinstance(node, ast.Call):
            yield named, Call(made.file, node, made.context)


def _handed(holder: Class, call: Call, loader: Loader) -> Iterator[Finding]:
    """The generators that are made for an object, `Noise(np.random.RandomState(0))`, which draws from them."""
    for name, given in _arguments_kept(holder, call):
        if _is_generator(call.file, given, call.context) and _draws_from(_text_used(holder), name):
            yield _finding(f"self.{name}", call.file.place(given, call.context), loader)


def _arguments_kept(holder: Class, call: Call) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that the constructor sets to its parameters alone, and what the call gives for them."""
    init = holder.find("__init__")
    for position, parameter in enumerate(list(init.parameters)[1:] if init is not None else ()):
        given = call.argument(parameter, position)
        if isinstance(given, ast.expr):
            yield from ((key, given) for key, _, kept in _set_once(holder) if is_name(kept.value, parameter))


def _held(holder: Class, loader: Loader) -> Iterator[Finding]:
    """The generators that an object makes for itself, and draws from for each sample."""
    for inner, where, made in _set_once(holder):
        if _is_generator(where.file, made.value, made.context) and _draws_from(_text_used(holder), inner):
            yield _finding(f"self.{inner}", where.place(made.node), loader)


def _finding(name: str, place: Place, loader: Loader) -> Finding:
    return Finding(
        f"`{name}` is copied into every worker: all draw the same numbers, epoch after epoch",
        place.location,
        help="draw with `torch` or `np.random`, which each worker seeds anew, or use `worker_init_fn`",
        related=(loader.call.place.location,),
    )


def _set_once(cls: Class) -> Iterator[tuple[str, Function, AttributeSet]]:
    """The attributes that the constructor alone sets."""
    for base in cls.line:
        for name, assignments in base.attributes.items():
            if len(assignments) == 1 and assignments[0][0].name == "__init__":
                yield name, *assignments[0]


def _text_reached(cls: Class, method: Function) -> str:
    """The text of a method and of the methods of its object that it calls."""
    reached, todo = dict[str, str](), [method]
    while todo:
        each = todo.pop()
        if each.name not in reached:
            reached[each.name] = each.text
            called = (cls.find(name) for name in _OWN.findall(each.text))
            todo += [further for further in called if further is not None]
    return "\n".join(reached.values())


def _text_used(cls: Class) -> str:
    """The text of all methods that may run for a sample."""
    methods = {name: method for base in reversed(cls.line) for name, method in base.methods.items()}
    return "\n".join(method.text for name, method in methods.items() if name != "__init__")


def _names(text: str, name: str) -> bool:
    return re.search(rf"self\.{name}\b", text) is not None


def _draws_from(text: str, name: str) -> bool:
    return re.search(rf"self\.{name}\.(?:{_DRAWS})\w*\(", text) is not None


def _is_drawn_in_object(cls: Class, text: str, name: str) -> bool:
    """`self.augment = Augment(self.rng)`, which draws from it for each sample."""
    for key, function, assigned in _set_once(cls):
        holder, made = _class_made(function.file, assigned), assigned.value
        if holder is None or not isinstance(made, ast.Call) or not _names(text, key):
            continue
        call = Call(function.file, made, assigned.context)
        for kept, given in _arguments_kept(holder, call):
            if own_attribute(given, function) == name and _draws_from(_text_used(holder), kept):
                return True
    return False


def _class_made(file: File, assigned: AttributeSet) -> Class | None:
    named = file.resolve(getattr(assigned.value, "func", None), assigned.context)
    return named if isinstance(named, Class) else None


def _is_generator(file: File, value: ast.expr | None, context: Context) -> bool:
    return file.resolve(getattr(value, "func", None), context) in _GENERATORS


def _shared(cls: Class, loader: Loader) -> Iterator[Finding]:
    """`rng = np.random.default_rng(0)` at the top of the file, from which samples are drawn."""
    reads = cls.find("__getitem__")
    if reads is None or _RESEEDS.search(reads.file.text):
        return
    for name, bindings in reads.file.walk.module.scope.bindings.items():
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "value" else None
        made = reads.file.resolve(getattr(value, "func", None), bindings[0].context)
        if made not in _GENERATORS or value is None or name in reads.inner.scope.bindings:
            continue
        if re.search(rf"(?<![\w.]){name}\.(?:{_DRAWS})\w*\(", reads.text):
            yield _finding(name, reads.file.place(value, bindings[0].context), loader)
