"""What a check asks to be measured: the annotations of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_type_hints

from mlcheck.core.check import Verdict
from mlcheck.probe.measure.measurement import Measurement

KEYWORD_ONLY = Parameter.KEYWORD_ONLY


def measurements_of(check: Callable[..., Verdict]) -> list[type[Measurement]]:
    """The types a check's parameters are annotated with, `Samples` and `Samples | None` alike.

    Parameters by name alone are the options of its rule.
    """
    hints = get_type_hints(check)
    return [_plain(hints[one.name]) for one in signature(check).parameters.values() if one.kind is not KEYWORD_ONLY]


def optional_measurements(check: Callable[..., Verdict]) -> set[type[Measurement]]:
    """Those a check can do without."""
    return {_plain(hint) for hint in get_type_hints(check).values() if isinstance(hint, UnionType)}


def _plain(hint: Any) -> type[Measurement]:
    kind = next(part for part in get_args(hint) if part is not NoneType) if isinstance(hint, UnionType) else hint
    return cast("type[Measurement]", kind)
