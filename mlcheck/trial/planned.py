"""How long the run is to be: as the experiment's config, the command line or the program's own names say it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["epochs", "batches"]
_NAMES = {f"{prefix}epochs" for prefix in ("", "n_", "num_", "max_", "total_", "train_", "num_train_")}


@dataclass(frozen=True, slots=True)
class Planned:
    """So many epochs or batches; `source` ends a sentence: `the config's max_length`.

    `records` are the samples that the config counts as an epoch, where it turns epochs into batches by them.
    """

    count: float
    unit: Unit
    source: str
    records: int | None = None

    def batches(self, epoch: int | None) -> int | None:
        """With `epoch` batches in an epoch; None where that is needed and not known."""
        if self.unit == "batches":
            return round(self.count)
        return round(self.count * epoch) if epoch else None


def planned_by(config: Mapping[str, Any] | None, hyperparameters: Mapping[str, Any]) -> Planned | None:
    """What an experiment's config says in `searcher.max_length`, else a hyperparameter named for it."""
    searcher = (config or {}).get("searcher")
    length = searcher.get("max_length") if isinstance(searcher, Mapping) else None
    if isinstance(length, Mapping) and len(length) == 1:
        unit, count = next(iter(length.items()))
        records = (config or {}).get("records_per_epoch")
        if unit in ("epochs", "batches") and _is_count(count):
            counted = records if unit == "epochs" and _is_count(records) else None
            return Planned(count, unit, "the config's max_length", counted)
        if unit == "records" and _is_count(count) and _is_count(records):
            return Planned(count / records, "epochs", "the config's max_length")
    return _only([("the hyperparameter", name, value) for name, value in hyperparameters.items()])


def planned_in(objects: Sequence[Any]) -> Planned | None:
    """What the program's own variables and parsed arguments say, where they all say the same."""
    return _only(list(_named(objects)))


def _named(objects: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    for variables in objects:
        for name, value in list(variables.items()) if isinstance(variables, dict) else ():
            yield "the variable", str(name), value
            if isinstance(value, Namespace):
                yield from (("the argument", inner, one) for inner, one in vars(value).items())


def _only(named: list[tuple[str, str, Any]]) -> Planned | None:
    found = [(kind, name, value) for kind, name, value in named if name.lower() in _NAMES and _is_count(value)]
    if len({value for _, _, value in found}) != 1:
        return None
    kind, name, value = found[0]
    return Planned(value, "epochs", f"{kind} `{name}`")


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0
