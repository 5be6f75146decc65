"""Tells what the model costs, module by module, and judges layers over everything, very long recurrences and tables."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.embedded_ids import EmbeddedIds, Lookups
from mlcheck.probe.measure.model.model_size import ModelSize, ModuleSize

HEAVY = 2_000_000
MOST = 0.8
WIDE = 4096
LONG = 1000
WIDENED = 2
FEW_ROWS = 100
LITTLE = 0.01
_SHOWN = 30


def check(seen: ModelSize, lookups: Lookups | None, *, share: float = MOST, steps: int = LONG) -> Verdict:
    numbers = {
        "parameters": float(seen.parameters),
        "trained": float(seen.trained),
        "operations a sample": seen.flops / seen.samples,
        "output bytes a sample": sum(module.output_bytes for module in seen.modules) / seen.samples,
        "state bytes": float(sum(module.state for module in seen.memory)),
        "bytes kept for backward a sample": sum(module.saved for module in seen.memory) / seen.samples,
    }
    uncounted = f" ({', '.join(sorted({m.kind for m in seen.uncounted}))} not counted)" if seen.uncounted else ""
    told = (
        f"{plural(seen.parameters, 'parameter')}; a sample takes {_short(numbers['operations a sample'])} "
        "operations forward"
        f"{uncounted}; training holds {_short(numbers['state bytes'])}B of weights, gradients and optimizer state, and "
        f"for backward {_short(numbers['bytes kept for backward a sample'])}B a sample"
    )
    faults = (_too_wide(module, seen, share) or _too_long(module, steps) for module in seen.modules)
    unread = _unread(lookups.tables, seen, share) if lookups else []
    findings = (*(fault for fault in faults if fault), *unread)
    outcome = Outcome.WARN if findings else Outcome.PASS
    return Verdict(
        outcome,
        findings[0].message if findings else told,
        findings=findings,
        figures=(_table(seen), _memory(seen)),
        numbers=numbers,
        looked_at=len(seen.modules),
    )


def _too_wide(module: ModuleSize, seen: ModelSize, most: float) -> Finding | None:
    share = module.parameters / max(seen.parameters, 1)
    widens = module.features > 0 and module.parameters >= WIDENED * module.features**2
    if not module.flattens or module.parameters < HEAVY or share < most or (module.features < WIDE and not widens):
        return None
    shape = " x ".join(map(str, module.flattens))
    return Finding(
        f"`{module.name}` takes all {module.features:,} numbers of {shape} at once: {module.parameters:,} weights, "
        f"{100 * share:.1f} % of the model",
        Location(symbol=module.name),
        help="pool first (AdaptiveAvgPool), or let a strided convolution bring the map down",
        numbers={"share": share},
    )


def _unread(tables: tuple[EmbeddedIds, ...], seen: ModelSize, most: float) -> list[Finding]:
    """Embeddings that are most of the model, where a hundredth of the rows would do for all ids there were."""
    findings = []
    sizes = {module.name: module.parameters for module in seen.modules}
    for table in tables:
        weights, highest = sizes.get(table.name, 0), max(table.ids, default=0)
        share = weights / max(seen.parameters, 1)
        if weights < HEAVY or share < most or table.rows < FEW_ROWS or highest >= LITTLE * table.words:
            continue
        message = (
            f"`{table.name}` has {table.words:,} rows, {100 * share:.1f} % of the model's weights, and in "
            f"{table.rows:,} sequences no id above {highest:,} was looked up"
        )
        help_ = "give it the size of the vocabulary that the data is encoded with"
        findings.append(Finding(message, Location(symbol=table.name), help=help_, numbers={"share": share}))
    return findings


def _too_long(module: ModuleSize, most: int) -> Finding | None:
    if module.steps <= most:
        return None
    return Finding(
        f"`{module.name}` ({module.kind}) runs over {module.steps:,} steps one after the other: gradients hardly reach "
        "the first of them, and no hardware can do two at once",
        Location(symbol=module.name),
        help="cut the sequence into parts (truncated backpropagation), or shorten it with strided convolutions first",
        numbers={"steps": float(module.steps)},
    )


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} "


def _table(seen: ModelSize) -> Figure:
    heaviest = sorted(seen.modules, key=lambda m: (m.parameters, m.flops or 0), reverse=True)[:_SHOWN]
    shown = [module for module in seen.modules if module in heaviest]
    rows = [
        [
            module.name,
            module.kind,
            " × ".join(map(str, module.shape)),
            module.parameters,
            "uncounted" if module.flops is None else module.flops // seen.samples,
            module.output_bytes // seen.samples,
        ]
        for module in shown
    ]
    columns = ["module", "kind", "output", "parameters", "operations a sample", "output bytes a sample"]
    more = "" if len(shown) == len(seen.modules) else f", the {len(shown)} largest of {len(seen.modules)} modules"
    return Figure("table", f"what a forward pass of {seen.name} takes{more}", {"columns": columns, "rows": rows})


def _memory(seen: ModelSize) -> Figure:
    heaviest = sorted(seen.memory, key=lambda m: m.state + m.saved, reverse=True)[:_SHOWN]
    rows = [
        [m.name, m.kind, m.weights, m.gradients, m.optimizer, m.saved // seen.samples]
        for m in seen.memory
        if m in heaviest
    ]
    columns = ["module", "kind", "weights", "gradients", "optimizer state", "kept for backward a sample"]
    more = f", the {len(rows)} largest of {len(seen.memory)} modules" if len(rows) < len(seen.memory) else ""
    title = f"bytes that training holds for {seen.name}, without what the loss itself keeps{more}"
    return Figure("table", title, {"columns": columns, "rows": rows})
