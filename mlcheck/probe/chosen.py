"""Which rules are asked: those that probes answer, as far as they are chosen by name or by stage."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from mlcheck.core.catalog import Catalog
from mlcheck.core.outcome import Stage
from mlcheck.probe import checks

ENTRY_RULE = "entry-does-not-run"


def probe_rules(only: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The rules that probes answer, of those selected by name or by stage, the entry's own first."""
    catalog = Catalog()
    only, skip = rules_of(catalog, only), rules_of(catalog, skip)
    names = [module.name.replace("_", "-") for module in pkgutil.iter_modules(checks.__path__)]
    wanted = [name for name in names if (not only or name in only) and name not in skip]
    return (ENTRY_RULE, *(name for name in wanted if name != ENTRY_RULE))


def rules_of(catalog: Catalog, named: tuple[str, ...]) -> tuple[str, ...]:
    """Rules by name; for a stage, its rules. An unknown name is the user's mistake, told with its neighbours."""
    stages: dict[str, list[str]] = {}
    for rule, path in catalog.paths.items():
        stages.setdefault(Path(path).parent.name, []).append(rule)
    return tuple(rule for name in named for rule in stages.get(name) or (catalog[name].name,))


def asks_for_ranks(catalog: Catalog, only: tuple[str, ...]) -> bool:
    """Whether the rules that were chosen are about several processes; one of them is content with two set up."""
    chosen = {rule for rule in rules_of(catalog, only) if Path(catalog.paths[rule]).parent.name == Stage.SCALE}
    return bool(chosen - {"ranks-read-same-data"})
