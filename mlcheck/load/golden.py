"""Must-pass cases, as they are written in a golden file."""

from __future__ import annotations

import re
from pathlib import Path

from mlcheck.load.queries import BadQueries, Query, read_queries

_WAYS = ("json", "exact", "allclose", "label", "topk", "regex")
_KEYS = ("id", "input", "input_file", "expect", "compare", "rtol", "atol", "k", "raises", "tags")


def read_golden(path: Path) -> list[Query]:
    """The cases of a file. Raises BadQueries at the first that is incomplete or contradicts itself."""
    cases = read_queries(path, keys=_KEYS)
    names: dict[str, str] = {}
    for case in cases:
        _check(case)
        if case.name in names:
            raise BadQueries(f"{case.source}: the id {case.name!r} is taken by {names[case.name]}")
        names[case.name] = case.source
    return cases


def _check(case: Query) -> None:
    given = case.given
    if ("expect" in given) == ("raises" in given):
        raise BadQueries(f"{case.source}: must have one of `expect` and `raises`")
    how = given.get("compare", "json")
    if how not in _WAYS:
        raise BadQueries(f"{case.source}: `compare` must be one of {', '.join(_WAYS)}, not {how!r}")
    if "raises" in given and not (isinstance(given["raises"], str) and given["raises"]):
        raise BadQueries(f'{case.source}: `raises` must be the name of an error, like "ValueError"')
    if how == "regex" and "expect" in given:
        try:
            re.compile(given["expect"])
        except (re.error, TypeError) as error:
            raise BadQueries(f"{case.source}: `expect` is no regular expression: {error}") from None
    for key in ("rtol", "atol", "k"):
        if key in given and (isinstance(given[key], bool) or not isinstance(given[key], int | float) or given[key] < 0):
            raise BadQueries(f"{case.source}: `{key}` must be a number of 0 or more")
