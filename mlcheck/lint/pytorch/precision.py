"""Precision: autocast regions, and modules converted to half precision."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence

from mlcheck.lint.facts import Place
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import ways_out
from mlcheck.lint.pytorch import modes
from mlcheck.lint.training import Autocast
from mlcheck.lint.values import Const, External, Object, Value

_HALF = ("torch.float16", "torch.half")


def under_autocast(m: Machine, value: Object, inside: Callable[[], bool]) -> bool:
    """`with torch.autocast(...)`."""
    before = m.store.get(("autocast",))
    assert value.place is not None
    now = Autocast(_kind(value), _device(value), value.place)

    def run() -> bool:
        m.store.set(("autocast",), now)
        return inside()

    def leave() -> bool:
        m.store.set(("autocast",), before)
        return True

    return ways_out.protect(m, run, leave)


def _kind(value: Object) -> str:
    enabled: Value = value.kwargs.get("enabled", Const(True))
    if value.args and not _names_device(value.args[0]):
        # The older form takes it first: `torch.cuda.amp.autocast(False)`.
        enabled = value.args[0]
    if not isinstance(enabled, Const) or "**" in value.kwargs:
        return "unknown"
    return "on" if enabled.value else "off"


def _device(value: Object) -> str:
    """The device; the older form `torch.cuda.amp.autocast()` takes none."""
    if ".cpu.amp." in value.type:
        return "cpu"
    given = value.args[0] if value.args else value.kwargs.get("device_type")
    if given is None:
        return "cuda"
    return str(given.value) if isinstance(given, Const) and isinstance(given.value, str) else ""


def _names_device(value: Value) -> bool:
    return (not isinstance(value, Const) and "device" in getattr(value, "name", "")) or (
        isinstance(value, Const) and isinstance(value.value, str)
    )


def converted(
    m: Machine, key: Hashable, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], node: ast.AST
) -> None:
    """`module.half()`, `module.to(torch.float16)`, and the way back."""
    if name == "half":
        m.store.set(("half", key), m.place(node))
    elif name in ("float", "double", "bfloat16"):
        m.store.set(("half", key), False)
    elif name == "to":
        given = [value.name for value in (*args, *kwargs.values()) if isinstance(value, External)]
        if any(dtype in _HALF for dtype in given):
            m.store.set(("half", key), m.place(node))
        elif any(dtype.startswith("torch.") for dtype in given):
            m.store.set(("half", key), False)


def half_of(m: Machine, key: Hashable) -> Place | None:
    """Where the module was converted to half precision, if that still holds."""
    for outer in modes.ancestors(m, key):
        found = m.store.get(("half", outer))
        if found is not None:
            return found or None
    return None
