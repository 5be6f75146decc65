"""The numbers that a team may set for a rule: its page declares them, `[tool.mlcheck.options.RULE]` sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlcheck.core.dataclasses import dataclass
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.catalog import Catalog

TABLE = "tool.mlcheck.options"
RuleOptions = dict[str, dict[str, float]]


class BadOption(Mistake):
    """A table of options with a rule, an option or a value that there is not; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Option:
    """A number that decides what a rule reports, from `least` to `most`; whole where its default is."""

    name: str
    default: float
    least: float
    most: float
    meaning: str

    @property
    def whole(self) -> bool:
        return isinstance(self.default, int)

    def accepts(self, value: Any) -> bool:
        kinds = (int,) if self.whole else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.whole:
            return f"a whole number from {self.least:,} to {self.most:,}"
        return f"a number from {self.least:g} to {self.most:g}"


def declared(tables: Mapping[str, Mapping[str, Any]]) -> tuple[Option, ...]:
    """What the TOML block of a page says under `options`. Raises ValueError for a default out of its own range."""
    found = tuple(Option(name, t["default"], t["least"], t["most"], t["meaning"]) for name, t in tables.items())
    wrong = next((one.name for one in found if not one.accepts(one.default)), "")
    if wrong:
        raise ValueError(f"the default of the option `{wrong}` is outside its range")
    return found


def checked(tables: Mapping[str, Any], catalog: Catalog, where: str = "") -> RuleOptions:
    """The options that were set, rule by rule. Raises UnknownRule or BadOption.

    `where` is the file they stand in; without one they are an argument called `options`.
    """
    if not isinstance(tables, Mapping):
        raise BadOption("options: write a table of options for each rule, as in " + '{"dead-units": {"share": 0.6}}')
    return {
        rule: _checked(rule, table, catalog, f"{where}: [{TABLE}.{rule}]" if where else f'options["{rule}"]')
        for rule, table in tables.items()
    }


def joined(options: RuleOptions, over: RuleOptions) -> RuleOptions:
    """Both, where `over` has the last word on each number."""
    return {rule: {**options.get(rule, {}), **over.get(rule, {})} for rule in (*options, *over)}


def _checked(rule: str, table: Any, catalog: Catalog, where: str) -> dict[str, float]:
    known = {option.name: option for option in catalog[rule].options}
    if not known:
        raise BadOption(f"{where}: this rule has no options")
    if not isinstance(table, Mapping):
        raise BadOption(f"{where}: write it as a table, {next(iter(known))} = {next(iter(known.values())).default:g}")
    for name, value in table.items():
        if name not in known:
            raise BadOption(f"{where}: no option `{name}`; it has {', '.join(f'`{one}`' for one in known)}")
        if not known[name].accepts(value):
            raise BadOption(f"{where}: `{name}` is {known[name]}, not {value!r}")
    return {name: value if known[name].whole else float(value) for name, value in table.items()}
