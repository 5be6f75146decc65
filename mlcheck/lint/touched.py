"""The modules that one call of a module came to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Touched(set[Hashable]):
    """Their identities; `still` are those that only ran frozen, or where no graph is recorded."""

    def __init__(self, called: Iterable[Hashable] = ()) -> None:
        super().__init__(called)
        self.still: set[Hashable] = set()

    def call(self, key: Hashable, still: bool) -> None:
        """Another one is called."""
        if not still:
            self.still.discard(key)
        elif key not in self:
            self.still.add(key)
        self.add(key)
