"""Whether code outside a class may use one of its attributes: by another object, by a string, in an heir."""

from __future__ import annotations

import re

from mlcheck.lint.sites.fetching import may_fetch, mentions
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.words import lines_with, occurrences


def is_named_elsewhere(sites: Sites, cls: Class, name: str) -> bool:
    """Whether anything but the class itself may use its attribute of that name."""
    read = sites.once(_ReadOfOthers)
    return read.has(name) or _is_used_by_heir(sites, cls, name)


class _ReadOfOthers:
    """Which names are read off another object than `self`, or stand in a string: kept, as many layers share a name."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._known: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._is_read(name)
        return self._known[name]

    def _is_read(self, name: str) -> bool:
        other = re.compile(rf"(?<!\bself)\.{name}\b|[\"'](?:[\w.]+\.)?{name}(?:\.[\w.]+)?[\"']")
        return any(
            any(other.search(line) for line in lines_with(name, file.text)) and mentions(file.module.source.tree, name)
            for file in self._sites.files.values()
        )


def heirs_of(sites: Sites, cls: Class) -> list[Class]:
    """The modules that derive from it, near or far."""
    return sites.once(_heirs).get(cls, [])


def _heirs(sites: Sites) -> dict[Class, list[Class]]:
    """The modules that derive from each class."""
    found: dict[Class, list[Class]] = {}
    for heir in sites.once(module_classes):
        for cls in heir.line[1:]:
            found.setdefault(cls, []).append(heir)
    return found


def _is_used_by_heir(sites: Sites, cls: Class, name: str) -> bool:
    """Whether an heir names it, or it or the class itself fetches attributes by names that may be this one."""
    heirs = heirs_of(sites, cls)
    if any(may_fetch(each, name) for each in (cls, *heirs)):
        return True
    return any(occurrences(name, heir.text, most=1) for heir in heirs)
