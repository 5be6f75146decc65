"""The limits a service must keep (its service level objective, SLO), from a TOML file checked key by key."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_type_hints

from mlcheck.core.mistake import Mistake


class BadLimits(Mistake):
    """An SLO file that cannot be used: one sentence with the file, the line and the fault."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to load. `rate_qps` 0 means a share of the capacity that was measured; `threads` 0 is cores / workers."""

    workers: tuple[int, ...] = (1, 2, 4, 8, 16)
    rate_qps: float = 0.0
    share_of_capacity: float = 0.7
    duration_s: float = 10.0
    threads: int = 0
    query_timeout_s: float = 30.0
    confidence: float = 0.99


@dataclass(frozen=True, slots=True)
class Latency:
    """Limits in milliseconds; None: reported, not judged."""

    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Latencies:
    random: Latency = Latency()
    complex: Latency = Latency()


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes of 10**6 bytes."""

    per_worker_mb: float | None = None
    total_mb: float | None = None
    growth_mb_per_1k_queries: float | None = None


@dataclass(frozen=True, slots=True)
class Errors:
    max_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Scaling:
    min_efficiency: float | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    accuracy_min: float | None = None
    weighted_accuracy_min: float | None = None
    class_recall_min: float | None = None
    group_accuracy_min: float | None = None
    macro_f1_min: float | None = None
    auc_min: float | None = None
    non_inferiority_margin: float = 0.005


@dataclass(frozen=True, slots=True)
class Cases:
    """`repeatable` false for a model that samples its answers on purpose; `ignore` names fields that may change."""

    repeatable: bool = True
    ignore: tuple[str, ...] = ()
    rtol: float = 1e-4
    atol: float = 1e-5


@dataclass(frozen=True, slots=True)
class SideBySide:
    alpha: float = 0.05
    satisfaction_margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What must hold. Where a limit is absent, the number is reported and not judged."""

    load: Plan = Plan()
    latency: Latencies = Latencies()
    memory: Memory = Memory()
    errors: Errors = Errors()
    scaling: Scaling = Scaling()
    quality: Quality = Quality()
    cases: Cases = Cases()
    sbs: SideBySide = field(default_factory=SideBySide)


_SHARES = {"max_rate", "share_of_capacity", "confidence", "alpha", "min_efficiency", "non_inferiority_margin"}


def read_limits(path: Path) -> Limits:
    """The limits in a file. Raises BadLimits for what is not TOML, an unknown key, a value of the wrong kind."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadLimits(f"{path}: not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise BadLimits(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise BadLimits(f"{path}: cannot be read: {error.strerror}") from None
    limits = _filled(Limits, table, path, text, ())
    assert isinstance(limits, Limits)
    return limits


def _filled(kind: type, table: Any, path: Path, text: str, parents: tuple[str, ...]) -> Any:
    """An object of the dataclass `kind` from a TOML table of the same shape."""
    where = ".".join(parents)
    if not isinstance(table, dict):
        raise BadLimits(f"{path}{_line_of(text, parents)}: `{where}` must be a table, like [{where}]")
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            near = get_close_matches(key, hints, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; {where or 'the file'} knows {', '.join(hints)}"
            raise BadLimits(f"{path}{_line_of(text, (*parents, key))}: unknown key `{'.'.join((*parents, key))}`{hint}")
    values = {}
    for entry in fields(kind):
        if entry.name in table:
            inner, names = hints[entry.name], (*parents, entry.name)
            if is_dataclass(inner):
                assert isinstance(inner, type)
                values[entry.name] = _filled(inner, table[entry.name], path, text, names)
            else:
                values[entry.name] = _value(table[entry.name], inner, f"{path}{_line_of(text, names)}", names)
    return kind(**values)


def _value(value: Any, kind: Any, where: str, names: tuple[str, ...]) -> Any:
    name, key = ".".join(names), names[-1]
    if kind is bool:
        if not isinstance(value, bool):
            raise BadLimits(f"{where}: `{name}` must be true or false, not {value!r}")
        return value
    if kind == tuple[str, ...]:
        if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise BadLimits(f'{where}: `{name}` must be a list of texts, like ["took_ms"]')
        return tuple(value)
    if kind == tuple[int, ...]:
        if not (isinstance(value, list) and value and all(type(one) is int and one > 0 for one in value)):
            raise BadLimits(f"{where}: `{name}` must be a list of whole numbers above 0, like [1, 2, 4]")
        return tuple(sorted(set(value)))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise BadLimits(f"{where}: `{name}` must be a number, not {value!r}")
    if kind is int and type(value) is not int:
        raise BadLimits(f"{where}: `{name}` must be a whole number, not {value!r}")
    highest = 1.0 if key in _SHARES or key.endswith("_min") else float("inf")
    positive = key in {"confidence", "duration_s", "query_timeout_s", "share_of_capacity", "alpha"}
    if not 0 <= value <= highest or (positive and value == 0) or (key in {"confidence", "alpha"} and value == 1):
        raise BadLimits(f"{where}: `{name}` must lie between 0 and {highest:g}, not {value!r}")
    return float(value) if kind is float or float in get_args(kind) else value


def _line_of(text: str, names: tuple[str, ...]) -> str:
    """`:12` for the line that names the key in its table, where it can be found."""
    *tables, key = names
    inside, wanted = "", ".".join(tables)
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.\- ]+?)\s*\]", line):
            inside = header[1]
            if inside == ".".join(names):
                return f":{number}"
        dotted = key if inside == wanted else f"{'.'.join(names)}"
        if re.match(rf"\s*{re.escape(dotted)}\s*=", line) or (
            tables and re.match(rf"\s*{re.escape(tables[-1])}\s*=.*\b{re.escape(key)}\b", line)
        ):
            return f":{number}"
    return ""
