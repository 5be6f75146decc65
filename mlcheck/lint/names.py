"""From names to what they name: imports, aliases, re-exports, builtins, canonical library names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Hashable
from functools import lru_cache

from mlcheck.lint.interpret.frames import DeadPath, Frame, Sink
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import ModuleInfo
from mlcheck.lint.values import Const, External, Imported, Module, Value

_BUILTINS = frozenset(dir(builtins))
_SHORT = (
    ("torch.nn.modules.", "torch.nn."),
    ("torch.optim.lr_scheduler.", "torch.optim.lr_scheduler."),
    ("torch.cuda.amp.", "torch.amp."),
    ("torch.cpu.amp.", "torch.amp."),
    ("torch.autograd.grad_mode.", "torch."),
    *((f"torch.autograd.{mode}", f"torch.{mode}") for mode in ("no_grad", "enable_grad", "set_grad_enabled")),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.special.", "torch."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("lightning.pytorch.core.", "lightning.pytorch."),
    ("pytorch_lightning.", "lightning.pytorch."),
    ("transformers.optimization.", "transformers."),
    ("lightning.LightningModule", "lightning.pytorch.LightningModule"),
)


@lru_cache(4096)
def canonical(name: str) -> str:
    """One name for a library object however it was imported: `torch.nn.modules.loss.BCELoss` -> `torch.nn.BCELoss`."""
    for prefix, short in _SHORT:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            if prefix == "torch.nn.modules." and "." in rest:
                rest = rest.rpartition(".")[2]
            if prefix == "torch.cuda.amp." and "." in rest:
                rest = rest.rpartition(".")[2]
            return short + rest
    if name.startswith("torch.optim.") and name.count(".") == 3 and not name.startswith("torch.optim.lr_scheduler."):
        last = name.rpartition(".")[2]
        if last[:1].isupper() and "swa" not in name:
            return "torch.optim." + last
    return name


def builtin(name: str) -> Value | None:
    return External("builtins." + name) if name in _BUILTINS else None


def import_statement(m: Machine, node: ast.Import) -> None:
    for alias in node.names:
        found = m.program.resolve(alias.name, m.program.name_of(m.frame.module))
        if alias.asname:
            m.bind(alias.asname, Module(found) if found else External(canonical(alias.name)))
        else:
            top = alias.name.partition(".")[0]
            root = m.program.resolve(top, m.program.name_of(m.frame.module)) if found else None
            m.bind(top, Module(root) if root else Module("?" + top) if found else External(top))


def import_from(m: Machine, node: ast.ImportFrom) -> None:
    importer = m.program.name_of(m.frame.module)
    if node.level:
        name = m.program.relative(m.frame.module, node.level, node.module)
        found: str | None = name if name in m.program.modules else m.program.resolve(name, importer)
        if found is None and node.module:
            found = m.program.resolve(node.module, importer)
    else:
        name = node.module or ""
        found = m.program.resolve(name, importer)
    for alias in node.names:
        if alias.name == "*":
            stars = m.store.get(("stars", m.frame.scope)) or ()
            m.store.set(("stars", m.frame.scope), (*stars, found or "!" + name))
            continue
        value: Value
        submodule = f"{found or name}.{alias.name}".lstrip(".")
        if found:
            value = Imported(found, alias.name)
        elif submodule in m.program.modules:
            value = Module(submodule)
        elif node.level and (beside := m.program.resolve(alias.name, importer)):
            value = Module(beside)
        elif node.level == 0 and (nested := m.program.resolve(submodule, importer)):
            value = Module(nested)
        else:
            value = External(canonical(f"{name}.{alias.name}" if node.level == 0 else f"?.{name}.{alias.name}"))
        m.bind(alias.asname or alias.name, value)


def import_on_demand(
    m: Machine, module: ModuleInfo, name: str, seen: set[tuple[str, str]] | None = None
) -> Value | None:
    """A name that only a `from x import *` of this module can have brought.

    `seen`: where which name was looked for. Each is asked once, as ways through packages of stars are without number.
    """
    seen = set() if seen is None else seen
    for star in m.store.get(("stars", m.program.name_of(module))) or ():
        if star.startswith("!"):
            if star in ("!torch.nn", "!torch.optim", "!torch", "!torch.nn.functional", "!torch.utils.data"):
                if not hasattr(builtins, name):
                    return External(canonical(f"{star[1:]}.{name}"))
            continue
        source = m.facts.sites.files[star]
        handed_on = name in source.names or (source.hands_on_torch and not hasattr(builtins, name))
        if not handed_on or (star, name) in seen:
            continue
        if (value := module_attribute(m, star, name, seen=seen)) is not None:
            return value
    return None


def module_attribute(
    m: Machine, name: str, attribute: str, depth: int = 8, seen: set[tuple[str, str]] | None = None
) -> Value | None:
    """`name.attribute` of a project module: what its top level bound, a submodule, or what it re-exports."""
    if name.startswith("?"):
        inner = f"{name[1:]}.{attribute}"
        if inner in m.program.modules:
            return Module(inner)
        if inner in m.program.folders:
            return Module("?" + inner)
        return None
    seen = set() if seen is None else seen
    seen.add((name, attribute))
    module = m.program.modules[name]
    load(m, module)
    value: Value | None = m.store.get(("v", name, attribute))
    if value == Imported(name, attribute):  # `from . import layers` in a package: its own submodule
        value = None
    if isinstance(value, Imported):
        return module_attribute(m, value.module, value.name, depth - 1, seen) if depth else None
    if value is None and f"{name}.{attribute}" in m.program.modules:
        # A library that a star import handed on hides the submodule of its name.
        passed_on = import_on_demand(m, module, attribute, seen) if depth else None
        return passed_on if passed_on == External(attribute) else Module(f"{name}.{attribute}")
    if value is None and depth:
        value = import_on_demand(m, module, attribute, seen)
    return value


def load(m: Machine, module: ModuleInfo) -> None:
    """Interpret a module's top level, once; `if __name__ == "__main__"` waits for its own turn."""
    name = m.program.name_of(module)
    rivals = m.store.get(("optimizers",)) or ()
    if m.store.get(("loaded", name)):
        _stand_beside(m, rivals, optimizers_of(m, module))
        return
    m.store.set(("loaded", name), True)
    m.store.set(("optimizers",), ())
    m.loaded.add(name)
    frames, loops, inside, moment = m.frames, m.loops, m.inside_module, m.moment
    m.frames, m.loops, m.inside_module = [Frame(module, name, Sink(m.store.mark()), m.fresh())], [], 0
    m.moment = None
    grad = m.store.get(("grad",))
    m.store.set(("v", name, "__name__"), Const(name))
    try:
        m.execute(module.source.tree.body)
    except DeadPath:
        pass
    finally:
        m.frames, m.loops, m.inside_module, m.moment = frames, loops, inside, moment
        own = m.store.get(("optimizers",)) or ()
        m.store.set(("optimizers of", name), own)
        m.store.set(("grad behind", name), m.store.get(("grad",)))
        _stand_beside(m, rivals, own)
        if grad is not None and frames:
            m.store.set(("grad",), grad)


def _stand_beside(m: Machine, rivals: tuple[Hashable, ...], own: tuple[Hashable, ...]) -> None:
    both = tuple(dict.fromkeys([*rivals, *own]))
    if both != m.store.get(("optimizers",)):
        m.store.set(("optimizers",), both)


def optimizers_of(m: Machine, module: ModuleInfo) -> tuple[Hashable, ...]:
    """Those that the top level of a module made, or of one it imports: no other script's stand beside them."""
    return m.store.get(("optimizers of", m.program.name_of(module))) or ()
