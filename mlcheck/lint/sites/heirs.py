"""The classes that derive from each class of the program."""

from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.project import Sites


def heirs(sites: Sites) -> dict[Class, list[Class]]:
    """Each class with those that derive from it, itself among them; `sites.once(heirs)`."""
    found: dict[Class, list[Class]] = {}
    for heir in sites.classes:
        for cls in heir.line:
            found.setdefault(cls, []).append(heir)
    return found
