"""The forms of hyperparameters, lengths and searchers in an experiment config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from mlcheck.experiment.document import merged_entries
from mlcheck.experiment.field_rules import one_unit, ordered
from mlcheck.experiment.shape import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Anything,
    Either,
    Fields,
    Kind,
    Many,
    Problem,
    Scalar,
    Shape,
    joined,
    listed,
)

_SOME = Scalar(WHOLE, least=1)
_RISING = (ordered("minval", "maxval", equal=False),)
CONST = Fields({"type": Scalar(TEXT, choices=("const",)), "val": Anything()}, needs=("type", "val"))
INT = Fields(
    {"type": Scalar(TEXT, choices=("int",)), "minval": Scalar(WHOLE), "maxval": Scalar(WHOLE), "count": _SOME},
    needs=("type", "minval", "maxval"),
    rules=_RISING,
)
DOUBLE = Fields(
    {"type": Scalar(TEXT, choices=("double",)), "minval": Scalar(NUMBER), "maxval": Scalar(NUMBER), "count": _SOME},
    needs=("type", "minval", "maxval"),
    rules=_RISING,
)
LOG = Fields(
    {
        "type": Scalar(TEXT, choices=("log",)),
        "minval": Scalar(NUMBER),
        "maxval": Scalar(NUMBER),
        "base": Scalar(NUMBER, above=0),
        "count": _SOME,
    },
    needs=("type", "minval", "maxval", "base"),
    rules=_RISING,
)
CATEGORICAL = Fields(
    {"type": Scalar(TEXT, choices=("categorical",)), "vals": Many(Anything(), least=1)}, needs=("type", "vals")
)
RANGES = {"int": INT, "double": DOUBLE, "log": LOG, "const": CONST, "categorical": CATEGORICAL}


class Hyperparameter:
    """A value of any form, a range, or a group of such: only a mapping with a `type` must be a range."""

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        if not isinstance(node, yaml.MappingNode):
            return
        entries = merged_entries(node)
        if any(entry.key == "type" for entry in entries):
            yield from _RANGE.problems(node, path, complete)
        else:
            for entry in entries:
                yield from self.problems(entry.value, joined(path, entry.key), complete)


_RANGE = Kind("type", RANGES, Fields({}, others=True))
HYPERPARAMETER = Hyperparameter()

_UNITS = ("batches", "records", "epochs")


def length(least: int) -> Fields:
    """`{batches|records|epochs: n}`: exactly one of the three."""
    return Fields({unit: Scalar(WHOLE, least=least) for unit in _UNITS}, rules=(one_unit,))


LENGTH = length(0)
POSITIVE_LENGTH = length(1)
SEARCHER_LENGTH = Either(
    Scalar(WHOLE, least=0), None, POSITIVE_LENGTH, f"a number, or a mapping with one of {listed(_UNITS)}"
)

_ANY: dict[str, Shape] = {
    "metric": Scalar(TEXT),
    "smaller_is_better": Scalar(FLAG),
    "source_trial_id": Scalar(WHOLE),
    "source_checkpoint_uuid": Scalar(TEXT),
}
_AT_ONCE = Scalar(WHOLE, least=0)
_HALVING: dict[str, Shape] = {"divisor": Scalar(NUMBER, above=1), "stop_once": Scalar(FLAG)}
_TIMED: dict[str, Shape] = {"time_metric": Scalar(TEXT), "max_time": Scalar(WHOLE)}
_BRACKETS: dict[str, Shape] = {
    "mode": Scalar(TEXT, choices=("aggressive", "standard", "conservative")),
    "max_rungs": _SOME,
    "bracket_rungs": Many(Scalar(WHOLE)),
}
_STEPS = {"max_steps": "write `max_length: {batches: ...}`: steps were removed in 0.13"}
# Read for experiments of earlier versions, and refused for new ones.
RETIRED = ("adaptive", "adaptive_simple", "sync_halving", "custom")


def _searcher(name: str, known: Mapping[str, Shape], *wants: str, long: Shape = SEARCHER_LENGTH) -> Fields:
    fields = {"name": Scalar(TEXT, choices=(name,)), "max_length": long, **_ANY, **known}
    return Fields(fields, needs=("name",), wants=(*wants, "metric"), removed=_STEPS)


SEARCHERS = {
    "single": _searcher("single", {}),
    "random": _searcher("random", {"max_trials": _SOME, "max_concurrent_trials": _AT_ONCE}, "max_trials"),
    "grid": _searcher("grid", {"max_concurrent_trials": _AT_ONCE}),
    "adaptive_asha": _searcher(
        "adaptive_asha",
        {"max_trials": _SOME, "max_concurrent_trials": _AT_ONCE, **_HALVING, **_TIMED, **_BRACKETS},
        "max_trials",
    ),
    "async_halving": _searcher(
        "async_halving",
        {"num_rungs": _SOME, "max_trials": _SOME, "max_concurrent_trials": _AT_ONCE, **_HALVING, **_TIMED},
        "num_rungs",
        "max_trials",
        long=POSITIVE_LENGTH,
    ),
    "sync_halving": _searcher(
        "sync_halving",
        {
            "budget": POSITIVE_LENGTH,
            "num_rungs": _SOME,
            "divisor": _HALVING["divisor"],
            "train_stragglers": Scalar(FLAG),
        },
        "num_rungs",
        "budget",
        long=POSITIVE_LENGTH,
    ),
    "adaptive": _searcher(
        "adaptive",
        {"budget": LENGTH, "divisor": _HALVING["divisor"], "train_stragglers": Scalar(FLAG), **_BRACKETS},
        "budget",
        long=POSITIVE_LENGTH,
    ),
    "adaptive_simple": _searcher(
        "adaptive_simple",
        {
            "max_trials": Scalar(WHOLE, least=1, most=2000),
            "mode": _BRACKETS["mode"],
            "divisor": _HALVING["divisor"],
            "max_rungs": _SOME,
        },
        "max_trials",
        long=POSITIVE_LENGTH,
    ),
    "custom": Fields(
        {"name": Scalar(TEXT), "metric": Scalar(TEXT), "smaller_is_better": Scalar(FLAG), "unit": Scalar(TEXT)},
        needs=("name",),
        wants=("metric",),
        others=True,
    ),
}
_COMMON = Fields(
    {**{name: Anything() for shape in SEARCHERS.values() for name in shape.known}, **_ANY},
    wants=("name", "metric"),
    removed=_STEPS,
)
SEARCHER = Kind("name", SEARCHERS, _COMMON, retired=RETIRED)
