"""The rules, their pages parsed once for all tests that go through them."""

from __future__ import annotations

from mlcheck.core.catalog import Catalog

RULES = tuple(Catalog())
