"""visible-devices: CUDA_VISIBLE_DEVICES is set where it has no effect."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, Class, Context, File, Function, Named, ProjectModule, Sites
from mlcheck.lint.sites.gpus import is_gpu, renumbered, written_as_list
from mlcheck.lint.sites.origins import callers, origins

LOOKS_AT = "environment variable"
WORDS = ("CUDA", "VISIBLE")
_KEY = "CUDA_VISIBLE_DEVICES"
_NEARLY = pattern(r"^CUDA_?VIS[A-Z_]*$|^VISIBLE_CUDA[A-Z_]*$|^CUDA_DEVICES_VISIBLE$")
_ASKS = frozenset(["is_available", "device_count", "get_device_name", "current_device", "set_device", "init"])
_MOVES = ("cuda", "to")
_COUNTS = ("is_available", "device_count", "get_device_name", "get_device_properties", "current_device", "init")
_ASKS |= {"get_device_properties", "get_device_capability"}
_EXPORTED = pattern(rf"\s*(?:export|set)\s+{_KEY}=[^;&|]*")
_CHILDREN = ("subprocess", "Process(", "spawn", "Popen")
"""Processes that start afterwards have it in their environment."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _in_another_shell(facts)
    for file in facts.sites.mentioning(["CUDA", "VISIBLE"]):
        for node, context, value in _environment(file):
            facts.sites.seen[LOOKS_AT] += 1
            if value == _KEY:
                yield from renumbered(file, node, context)
                yield from written_as_list(file, node, context)
                kept = (
                    _runs_elsewhere(file, context) or _is_passed_on(file, node, context) or _is_for_child(file, context)
                )
                used = None if kept else _first_use(file, node, context)
                if used is not None and not _starts_afresh(file, used.node, node):
                    yield Finding(
                        f"`{_KEY}` is set after CUDA was first used, or asked: the choice may be ignored",
                        file.place(node, context).location,
                        help="set it before torch is first used, or outside of the program",
                        related=(used.location,),
                    )
            elif _NEARLY.match(value):
                yield Finding(
                    f"`{value}` is ignored by CUDA: all GPUs stay visible",
                    file.place(node, context).location,
                    help=f"the name is `{_KEY}`",
                )


def _first_use(file: File, node: ast.AST, context: Context) -> Place | None:
    """Where CUDA was asked before."""
    here = _used_before(file, node, context) or _asked_by_import(file, node, context)
    return file.place(here, context) if here is not None else _used_before_call(file, context)


def _starts_afresh(file: File, used: ast.AST, node: ast.AST) -> bool:
    """A notebook that imports again in between what it has: the cell is written for a kernel that was just started."""
    if not file.path.endswith(".ipynb"):
        return False
    first, last = getattr(used, "lineno", 0), getattr(node, "lineno", 0)
    lines = [line for line in file.module.source.tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    had = {alias.name for line in lines if line.lineno < first for alias in line.names}
    return any(first < line.lineno < last and not had.isdisjoint(each.name for each in line.names) for line in lines)


def _runs_elsewhere(file: File, context: Context) -> bool:
    """Whether it is set in a function within a function, which may be handed to a process of its own."""
    function = file.function_around(context)
    return function is not None and function.defined.context.kind == "function"


def _is_for_child(file: File, context: Context) -> bool:
    """`for gpu in range(n): os.environ[...] = str(gpu); Process(target=work).start()`: each child has its own."""
    loops = [outer.node for outer in context.outwards() if outer.kind == "loop"]
    return bool(loops) and any(word in ast.unparse(loops[0]) for word in _CHILDREN)


def _is_passed_on(file: File, node: ast.AST, context: Context) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.pop("HIP_VISIBLE_DEVICES")`: the choice was made before."""
    function = file.function_around(context)
    lines = function.nodes if function is not None else file.module.source.tree.body
    value = next((line.value for line in lines if isinstance(line, ast.Assign) and node in line.targets), None)
    found = [ast.unparse(each.node) for each in origins(file, value, context)] if value is not None else []
    return bool(found) and all("environ" in text and "VISIBLE_DEVICES" in text for text in found)


def _in_another_shell(facts: Facts) -> Iterator[Finding]:
    """`os.system("export CUDA_VISIBLE_DEVICES=1")`: the shell that knows of it ends with the call."""
    for call in facts.sites.calls("os.system"):
        given = call.node.args[0] if call.node.args else None
        parts = given.values if isinstance(given, ast.JoinedStr) else [given]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in parts)
        if _EXPORTED.fullmatch(text):
            yield Finding(
                f"The shell that `os.system` starts sets `{_KEY}` for itself alone: this program sees all GPUs",
                call.place.location,
                help=f'`os.environ["{_KEY}"] = ...`, before CUDA is initialised',
            )


def _environment(file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    """Where an environment variable is set: the node, its context, the variable's name."""
    for node, context in file.walk.subscripts:
        if isinstance(node.value, ast.Attribute | ast.Name) and file.resolve(node.value, context) == "os.environ":
            yield from _named(node, context, file)
    for call in file.calls("setdefault", "putenv"):
        if file.resolve(call.node.func, call.context) in ("os.environ.setdefault", "os.putenv") and call.node.args:
            key = call.node.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield call.node, call.context, key.value


def _named(node: ast.AST, context: Context, file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    if isinstance(node, ast.Subscript):
        key = file.constant(node.slice, context)
        if isinstance(key, str):
            yield node, context, key


def _used_before(file: File, node: ast.AST, context: Context) -> ast.AST | None:
    """A question about CUDA above it, in the same function or at the top level that surely ran before."""
    line = getattr(node, "lineno", 0)
    around = {id(outer.node): outer.arm for outer in context.outwards()}
    asking = [call for call in file.calls(*sorted(_ASKS), *_MOVES) if _asks_cuda(call) or _moves_there(call)]
    for call in (*asking, *(call for call in file.sites.once(_calls_that_ask) if call.file is file)):
        if call.node.lineno < line and all(around.get(id(o.node)) == o.arm for o in call.context.outwards()):
            return call.node
    return None


def _calls_that_ask(sites: Sites) -> list[Call]:
    """The calls of functions that certainly ask CUDA, whatever they are given."""
    found = dict[Function, None]()
    for file in sites.mentioning(["cuda"]):
        for call in file.calls(*sorted(_ASKS), *_MOVES):
            function = call.function
            if function is None or _KEY in function.text or call.context.node is not function.node:
                continue
            if _asks_cuda(call) or _moves_there(call):
                found[function] = None
    return [call for function in found for call in callers(sites, function)]


def _asks_cuda(call: Call) -> bool:
    named = call.file.resolve(call.node.func, call.context)
    return isinstance(named, str) and named.startswith("torch.cuda.")


def _moves_there(call: Call) -> bool:
    """`model.cuda()` and `model.to("cuda:0")`, which put something on a GPU whatever the machine has."""
    if last_name(call.node.func) == "cuda":
        return isinstance(call.node.func, ast.Attribute)
    given = call.node.args[0] if len(call.node.args) == 1 and last_name(call.node.func) == "to" else None
    return given is not None and is_gpu(call.file, given, call.context)


def _used_before_call(file: File, context: Context) -> Place | None:
    """A question about CUDA above the only call of the function that sets the variable."""
    function = file.function_around(context)
    above = list(callers(file.sites, function)) if function is not None and function.cls is None else []
    texts = [file.text, *(call.file.text for call in above)]
    if len(above) != 1 or any(word in text for text in texts for word in _CHILDREN):
        return None
    used = _used_before(above[0].file, above[0].node, above[0].context)
    return above[0].file.place(used, above[0].context) if used is not None else None


def _asked_by_import(file: File, node: ast.AST, context: Context) -> ast.AST | None:
    """An import above it of a file of the project whose top level asks CUDA."""
    for name, bindings in file.walk.module.scope.bindings.items():
        for binding in bindings:
            above = getattr(binding.node, "lineno", 0) < getattr(node, "lineno", 0)
            if binding.kind not in ("import", "from") or binding.context.kind != "module" or not above:
                continue
            found = file.meaning(binding)
            source = _file_of(file, name, found)
            if source is not None and source is not file and _asks_at_top(source):
                return binding.node
    return None


def _file_of(file: File, name: str, found: Named) -> File | None:
    if isinstance(found, ProjectModule):
        return file.sites.files.get(found.name)
    if isinstance(found, Class | Function):
        return found.file
    variable = next((b for b in file.walk.module.scope.bindings[name] if b.kind == "from"), None)
    held = file.sites.variable(file, variable) if variable is not None else None
    return held[0] if held is not None else None


def _asks_at_top(file: File) -> bool:
    """Whether importing it makes CUDA count the devices."""
    for call in file.calls(*_COUNTS):
        named = file.resolve(call.node.func, call.context)
        if isinstance(named, str) and named.startswith("torch.cuda.") and call.context.kind == "module":
            return True
    return False
