"""Where interpretation starts: top levels, main blocks, then whatever nobody in the project called."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial

from mlcheck.lint import names
from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret.effort import STEPS_PER_ROOT, OutOfSteps
from mlcheck.lint.interpret.frames import DeadPath, Frame, Sink
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.interpret.relevance import is_test
from mlcheck.lint.interpret.store import Delta
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.program import ModuleInfo, walk_definitions
from mlcheck.lint.python import definitions, strangers
from mlcheck.lint.pytorch import frameworks
from mlcheck.lint.sites.model import Class as SiteClass
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import Class, Const, Function, Object, Value

STEPS_UNCALLED = 4_000
_PLAIN = frozenset(["torch.nn.Module", "builtins.object", "abc.ABC", "torch.nn.Sequential"])

Run = Callable[[], None]


def plan(m: Machine) -> Iterator[tuple[str, Run]]:
    """All roots as (path, run), to be run in order: what is called on the way is not started again."""
    modules = [module for module in m.program.modules.values() if m.relevance.to_read(module)]
    registering = [module for module in m.program.modules.values() if m.relevance.registers(module)]
    for module in dict.fromkeys([*registering, *modules]):
        yield module.source.path, partial(_top_level, m, module)
    for module in modules:
        for block in _main_blocks(module):
            yield module.source.path, partial(_main, m, module, block)
    for cls in _heirs(m.facts.sites):
        yield cls.file.path, partial(_inherited, m, cls.file.module, cls.node)
    for called in (False, True):
        for module in modules:
            if is_test(module):
                continue
            for node, owner in walk_definitions(module.source.tree.body):
                if isinstance(node, ast.ClassDef) or node in m.visited:
                    continue
                if called or not m.relevance.callers.may_reach(module, node, owner):
                    yield module.source.path, partial(_uncalled, m, module, node, owner, called)


def _main_blocks(module: ModuleInfo) -> list[ast.If]:
    return [node for node in module.source.tree.body if isinstance(node, ast.If) and is_main_guard(node)]


def is_main_guard(node: ast.If) -> bool:
    """`if __name__ == "__main__":`"""
    test = node.test
    return isinstance(test, ast.Compare) and is_name(test.left, "__name__")


def _top_level(m: Machine, module: ModuleInfo) -> None:
    _prepare(m)
    m.store.set(("grad",), GradMode("on"))
    m.store.set(("optimizers",), ())
    try:
        names.load(m, module)
    except (OutOfSteps, RecursionError):
        pass


def _prepare(m: Machine, steps: int = STEPS_PER_ROOT) -> None:
    m.effort.restart(steps)
    m.inside_module, m.building, m.ways, m.moment = 0, 0, 1, None
    m.loops.clear()
    m.frames.clear()


def _scratch(m: Machine, module: ModuleInfo, run: Callable[[], object], steps: int = STEPS_PER_ROOT) -> None:
    """Run a root on top of the loaded modules and forget its memory afterwards; its facts stay."""
    _prepare(m)
    for name in sorted(m.loaded - m.kept):
        names.load(m, m.program.modules[name])
    names.load(m, module)
    m.kept.update(name for name in m.loaded - m.kept if m.store.get(("loaded", name)))
    m.store.set(("optimizers",), names.optimizers_of(m, module))
    _prepare(m, steps)
    mark = m.store.mark()
    scope = m.program.name_of(module)
    m.frames.append(Frame(module, scope, Sink(mark), m.fresh()))
    m.nested.clear()
    try:
        run()
        _handed_out(m)
    except (DeadPath, OutOfSteps, RecursionError):
        pass
    finally:
        m.effort.settle()
        _prepare(m)
        m.store.undo(mark)


def _handed_out(m: Machine) -> None:
    """Call the inner functions that nobody called so far, in their order, as whoever got them would.

    They may be one another's alternatives: each meets the gradients as they were when it was handed out.
    """
    optimizers = m.store.get(("optimizers",)) or ()
    held: Delta = {("optimizers",): optimizers}
    held |= {("grads", key): m.store.get(("grads", key)) for key in optimizers}
    for node, function in list(m.nested.items()):
        if node not in m.visited and m.relevance.is_judged(node):
            m.store.replay(held)
            try:
                m.call(function, [], {"**": m.symbol()}, node)
            except DeadPath:
                del m.frames[1:]


def _main(m: Machine, module: ModuleInfo, node: ast.If) -> None:
    def run() -> None:
        m.store.set(("grad",), m.store.get(("grad behind", m.program.name_of(module))) or GradMode("on"))
        m.bind("__name__", Const("__main__"))
        m.execute(node.body)

    _scratch(m, module, run)


def _uncalled(
    m: Machine,
    module: ModuleInfo,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    owner: ast.ClassDef | None,
    called: bool,
) -> None:
    if node in m.visited or not m.relevance.to_start(node):
        return
    steps = m.effort.share(STEPS_UNCALLED, len(m.program.modules), m.relevance.is_judged(node))
    _scratch(m, module, lambda: _start(m, module, node, owner, called), steps)


def _heirs(sites: Sites) -> Iterator[SiteClass]:
    """Classes that leave the hooks of their framework to a class of the project above them, and have methods."""
    for cls in sites.classes if any(True for _ in sites.mentioning(frameworks.OWNERS)) else ():
        own, above = set(cls.methods) - {"__init__"}, set().union(*(set(base.methods) for base in cls.line[1:]))
        if own and own.isdisjoint(frameworks.HOOKS) and not above.isdisjoint(frameworks.HOOKS):
            yield cls


def _inherited(m: Machine, module: ModuleInfo, node: ast.ClassDef) -> None:
    """Run the hooks that such a class inherits, unless somebody made one and called its methods."""
    own = [line for line in node.body if isinstance(line, ast.FunctionDef) and line.name != "__init__"]
    if not any(line not in m.visited for line in own):
        return

    def run() -> None:
        cls = _class_of(m, node)
        made = strangers.instance(m, cls, node) if cls is not None and frameworks.owner_of(cls.info) else None
        if isinstance(made, Object) and made.cls is not None:
            frameworks.run_hooks(m, made, node)

    _scratch(m, module, run, m.effort.share(STEPS_UNCALLED, len(m.program.modules), True))


def _start(
    m: Machine,
    module: ModuleInfo,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    owner: ast.ClassDef | None,
    called: bool,
) -> None:
    """Call the function as a stranger would: with unknown arguments, in unknown modes.

    Where some file calls that name after all, or a library may, not even the gradient mode is known.
    """
    m.store.set(("grad",), GradMode("unknown" if called else "on"))
    if owner is None:
        value = m.lookup(node.name)
        if not isinstance(value, Function):
            value = Function(definitions.function_info(m, node, None, node.name), m.frame.scope)
        given = {arg.arg: strangers.argument(m, value, arg) for arg in (*node.args.args, *node.args.kwonlyargs)}
        _as_in_epochs(m, node, lambda: m.call(value, [], {**given, "**": m.symbol()}, node))
        return
    cls = _class_of(m, owner)
    if cls is None:
        return
    made = strangers.instance(m, cls, node)
    if not isinstance(made, Object) or made.cls is None:
        return
    if frameworks.owner_of(made.cls) and node.name in frameworks.HOOKS:
        frameworks.run_hooks(m, made, node)
        return
    if node.name == "__init__":
        return
    if not made.cls.libraries <= _PLAIN:
        m.store.set(("grad",), GradMode("unknown"))
    _as_in_epochs(m, node, lambda: m.call_method(made, node.name, [], {"**": m.symbol()}, node))


def _as_in_epochs(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, call: Callable[[], Value]) -> None:
    """Call it; and once more where it leaves gradients that were being accumulated, as the next epoch would.

    A function that goes through the epochs itself, in a loop around that of the batches, is called for all of them.
    """
    call()
    left = (m.store.get(("grads", key)) or () for key in m.store.get(("optimizers",)) or ())
    if any(grads.kind == "fresh" and grads.choice is not None for found in left for grads in found):
        if not _has_epochs(m, node):
            call()


def _has_epochs(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function's backward passes run within two of its own loops, and a test that counts in both."""
    left = (grads for key in m.store.get(("optimizers",)) or () for grads in m.store.get(("grads", key)) or ())
    lines = {grads.choice.spot[1] for grads in left if grads.kind == "fresh" and grads.choice is not None}
    loops = [(loop.lineno, loop.end_lineno or 0) for loop in walk(node) if isinstance(loop, ast.For | ast.While)]
    return bool(lines) and all(sum(first < line <= last for first, last in loops) > 1 for line in lines)


def _class_of(m: Machine, owner: ast.ClassDef) -> Class | None:
    value = m.lookup(owner.name)
    if isinstance(value, Class) and value.info.node is owner:
        return value
    return None
