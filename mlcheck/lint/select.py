"""Which rules are asked, and of which files: `select`, `ignore`, `extend-select`, `per-file-ignores`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from mlcheck.core.catalog import Catalog
from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Stage


@dataclass(frozen=True, slots=True)
class LintSettings:
    """Rules by name or by stage; file patterns are relative to `root`. Without `select` every rule runs.

    `target_torch` is the version to judge for, such as 2.12 (empty: any), `target_determined` that of experiment
    configs; `pinned_torch`, the version that the project asks for, keeps what is of no concern to it from being told
    where there is no target. `baseline` is a file of known findings,
    renewed by this run when `write_baseline`; `cache` the folder of the cache, none when empty. `jobs` is the number
    of processes to use where that is worth it.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: str = os.curdir
    target_torch: str = ""
    target_determined: str = ""
    pinned_torch: str = ""
    baseline: str = ""
    write_baseline: bool = False
    cache: str = ""
    jobs: int = 1


class NotALintRule(Mistake):
    """A rule was selected that lint has no check for."""


class Selection:
    """The settings, resolved against the rules that lint can answer. Raises UnknownRule and NotALintRule."""

    def __init__(self, settings: LintSettings, catalog: Catalog, checks: Collection[str]) -> None:
        self._catalog, self._checks, self._root = catalog, checks, os.path.abspath(settings.root)
        chosen = self._named(settings.select, asked=True) if settings.select else set(checks)
        chosen |= self._named(settings.extend_select, asked=True)
        self.rules = sorted(chosen - self._named(settings.ignore, asked=False))
        self.narrowed = len(self.rules) < len(checks)
        self._ignored = [
            (pattern, self._named(names, asked=False)) for pattern, names in settings.per_file_ignores.items()
        ]

    def _named(self, names: Iterable[str], asked: bool) -> set[str]:
        """The lint rules meant by names and stages."""
        found = set()
        for name in names:
            if name in set(Stage):
                found |= {rule for rule in self._checks if self._catalog.stage(rule) == name}
            elif name not in self._catalog:
                self._catalog[name]  # raises, and suggests the name that was meant
            elif name in self._checks:
                found.add(name)
            elif asked:
                raise NotALintRule(f"lint cannot answer `{name}`: see `mlcheck explain {name}`")
        return found

    def ignored_in(self, path: str) -> set[str]:
        """The rules whose findings the settings leave out in the file at `path`."""
        if not self._ignored:
            return set()
        relative = os.path.relpath(os.path.abspath(path), self._root).replace(os.sep, "/")
        names = [relative, os.path.basename(path)]
        return {
            rule
            for pattern, rules in self._ignored
            if any(fnmatchcase(name, pattern.removeprefix("./")) for name in names)
            for rule in rules
        }
