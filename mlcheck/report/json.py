"""The report as JSON, to be read by programs and by `mlcheck report`; `schema/report-1.json` describes it.

JSON has no NaN: a number that is not finite is written as the string "NaN", "Infinity" or "-Infinity"
wherever a number stands (`numbers`, `seconds`, the values of a figure, the cells of a table) and is read
back as that number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from mlcheck.core.finding import Figure
from mlcheck.core.report import Report, Result, UnreadableReport, report_from_dict

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FIGURE_NUMBERS = {
    "curves": ("series", "lines", "marks"),
    "bars": ("values",),
    "matrix": ("values",),
    "table": ("rows",),
}


def render(report: Report) -> str:
    """The whole report; fields in the order of the dataclasses, so that two runs can be compared by diff."""
    return json.dumps(_plain(report.to_dict()), indent=1, allow_nan=False) + "\n"


def read(text: str) -> Report:
    """The report that `render` wrote. Raises UnreadableReport on anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableReport(f"this is not a saved mlcheck report: not JSON: {error}") from error
    try:
        report = _with_numbers(report_from_dict(data))
    except (AttributeError, TypeError) as error:
        raise UnreadableReport(f"the saved report is damaged: {error}; run mlcheck again") from error
    if fault := _fault(report, Report, ""):
        raise UnreadableReport(f"the saved report is damaged: {fault}; run mlcheck again")
    return report


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it; NumPy's scalars become numbers, what is unknown becomes text."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return _finite(float(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value)


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _with_numbers(report: Report) -> Report:
    """`report` with NaN and infinities in the places where numbers stand."""
    return replace(
        report,
        seconds=_number(report.seconds),
        step_seconds=_number(report.step_seconds),
        results=tuple(_result(result) for result in report.results),
    )


def _result(result: Result) -> Result:
    return replace(
        result,
        seconds=_number(result.seconds),
        numbers=_numbers(result.numbers),
        findings=tuple(replace(finding, numbers=_numbers(finding.numbers)) for finding in result.findings),
        figures=tuple(replace(figure, data=_figure_data(figure)) for figure in result.figures),
    )


def _numbers(numbers: dict[str, float]) -> dict[str, float]:
    return {name: _number(value) for name, value in numbers.items()}


def _figure_data(figure: Figure) -> dict[str, Any]:
    numeric = _FIGURE_NUMBERS.get(figure.kind, ())
    return {key: _number(value) if key in numeric else value for key, value in figure.data.items()}


def _number(value: Any) -> Any:
    """`value` with the strings for NaN and infinities in it replaced; the name of a series is left alone."""
    if isinstance(value, dict):
        return {key: entry if key == "name" else _number(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_number(entry) for entry in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _fault(value: Any, hint: Any, where: str) -> str:
    """Where and how `value` differs from its declared type; empty when it does not."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return ""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        entries = [(getattr(value, field.name), hints[field.name], f"{where}.{field.name}") for field in fields(hint)]
    elif origin is tuple:
        entries = [(entry, arguments[0], f"{where}[{position}]") for position, entry in enumerate(value)]
    elif origin is dict:
        entries = [(entry, arguments[1], f"{where}.{name}") for name, entry in value.items()]
    else:
        allowed = get_args(hint) if origin in (Union, UnionType) else (int, float) if hint is float else (hint,)
        fits = isinstance(value, allowed) and (hint is bool or not isinstance(value, bool))
        return "" if fits else f"`{where.lstrip('.')}` holds {type(value).__name__}, not {hint.__name__}"
    return next((fault for entry in entries if (fault := _fault(*entry))), "")
