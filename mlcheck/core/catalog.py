"""Finds rule pages by name and reads them on demand: starting mlcheck parses none of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING

from mlcheck.core.mistake import Mistake
from mlcheck.core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from mlcheck.core.outcome import Severity, Stage
    from mlcheck.core.rule import Rule

_WORD, _NAMED = 4, 5  # letters of what is searched for inside of names, and names that are suggested
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def rules_folder() -> Path:
    """Where the pages are: shipped inside the wheel, beside the package in a checkout or editable install."""
    from pathlib import Path

    return Path(_shipped())


def _shipped() -> str:
    """That folder, without what takes longer to load than a file to lint."""
    above = os.path.dirname(_PACKAGE)
    in_checkout = os.path.isfile(os.path.join(above, "pyproject.toml"))
    return os.path.join(above, "rules") if in_checkout else os.path.join(_PACKAGE, "_rules")


class BadRules(Mistake):
    """A folder of pages that a team names and that cannot be used; the message says which and why."""


def team_folders(named: Iterable[str], root: str) -> tuple[Path, ...]:
    """Folders of a team's own pages: `checklists` below `root`, or `package:folder` in an installed package.

    A package is looked up, never imported. Raises BadRules for one that is not there.
    """
    return tuple(_team_folder(name, root) for name in named)


def _team_folder(name: str, root: str) -> Path:
    from pathlib import Path

    package, colon, inside = name.partition(":")
    if not colon:
        folder = Path(root, name)
    else:
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise BadRules(f"rules `{name}`: there is no installed package `{package}`")
        folder = Path(places[0], inside)
    if not folder.is_dir():
        raise BadRules(f"rules `{name}`: there is no folder {folder}")
    return folder


class UnknownRule(Mistake):
    """A rule name no page has; the message suggests the nearest ones."""


class Heading(NamedTuple):
    """What a rule that found nothing is listed with: the top of its page."""

    title: str
    stage: Stage
    severity: Severity


class Catalog:
    """All pages under some folders, by rule name. Pages are parsed when first asked for, once.

    `team` are further folders, whose pages only ask people and take no name that is in use.
    """

    def __init__(self, folders: tuple[Path, ...] | None = None, team: tuple[Path, ...] = ()) -> None:
        self._folders = folders
        self._team = team
        self._read: dict[str, Rule] = {}

    @cached_property
    def paths(self) -> dict[str, str]:
        """Rule name -> page; one listing a stage folder, nothing opened. Raises BadRules where two share a name."""
        found = dict(_shipped_pages()) if self._folders is None else {}
        for folder in self._folders or ():
            found.update(_pages(folder))
        for folder in self._team:
            for name, page in _pages(folder).items():
                if name in found:
                    raise BadRules(f"{page}: `{name}` is already the name of {found[name]}; rename it")
                found[name] = page
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.paths

    def __iter__(self) -> Iterator[Rule]:
        for name in sorted(self.paths):
            yield self[name]

    def __getitem__(self, name: str) -> Rule:
        """The rule of that name. Raises UnknownRule, with near names in its message."""
        if name not in self._read:
            if name not in self.paths:
                from difflib import get_close_matches

                holding = sorted(known for known in self.paths if len(name) >= _WORD and name in known)
                near = holding[:_NAMED] or get_close_matches(name, self.paths, n=2)
                hint = f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else "; see `mlcheck rules`"
                raise UnknownRule(f"no rule is called `{name}`{hint}")
            from pathlib import Path

            from mlcheck.core.rule import read_page

            self._read[name] = self._checked(read_page(Path(self.paths[name])))
        return self._read[name]

    def _checked(self, rule: Rule) -> Rule:
        """A team's page has no check behind it, so it may only ask people."""
        if any(rule.path.startswith(os.path.join(folder, "")) for folder in self._team):
            from mlcheck.core.outcome import By

            if rule.by != (By.SIGN_OFF,):
                raise BadRules(f'{rule.path}: a page of your own is answered by people: write `by = ["sign-off"]`')
        return rule

    def heading(self, name: str) -> Heading:
        """The title, stage and severity of a rule, from the first lines of its page, which is not parsed."""
        return _heading(self.paths[name])

    def explains(self, name: str) -> tuple[str, ...]:
        """The rules whose failure this one would cause, from the head of its page, which is not parsed either."""
        with open(self.paths[name], encoding="utf-8") as page:
            table = page.read().split("```", 2)[1]
        return tuple(table.partition("\nexplains = [")[2].partition("]")[0].split('"')[1::2])

    def stage(self, name: str) -> str:
        """The folder the page of a rule lies in."""
        return _stage(self.paths[name])


@cache
def _heading(page: str) -> Heading:
    """A run asks for the headings of more than a hundred rules; a process reads each once, however many it makes."""
    from mlcheck.core.outcome import Severity, Stage

    with open(page, "rb", buffering=0) as file:
        title, _, rest = file.read().partition(b"\n")
    severity = rest.partition(b"\nseverity")[2].partition(b"\n")[0].split(b'"')[1:2]
    return Heading(title[1:].decode().strip(), Stage(_stage(page)), Severity(b"".join(severity).decode()))


def _stage(page: str) -> str:
    return os.path.basename(os.path.dirname(page))


@cache
def _shipped_pages() -> dict[str, str]:
    """They stay where they are for as long as a process lives, and a run asks several times."""
    return _pages(_shipped())


def _pages(folder: str | Path) -> dict[str, str]:
    found = {}
    with os.scandir(folder) as stages:
        names = sorted(stage.path for stage in stages if stage.is_dir())
    for stage in names:
        with os.scandir(stage) as pages:
            found.update({page.name[:-3]: page.path for page in pages if page.name.endswith(".md")})
    return found
