"""One of a thing and many of it, as they are written."""

from __future__ import annotations

import pytest

from mlcheck.core.plural import plural


@pytest.mark.parametrize(
    ("number", "thing", "written"),
    [
        (1, "step", "1 step"),
        (0, "step", "0 steps"),
        (1000, "file", "1,000 files"),
        (2, "loss", "2 losses"),
        (3, "validation batch", "3 validation batches"),
        (2, "box", "2 boxes"),
        (5, "query", "5 queries"),
        (1, "query", "1 query"),
        (2, "day", "2 days"),
    ],
)
def test_one_and_many(number: int, thing: str, written: str) -> None:
    assert plural(number, thing) == written
