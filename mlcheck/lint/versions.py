"""The PyTorch that a program is judged for."""

from mlcheck.core.named_tuples import NamedTuple


class Versions(NamedTuple):
    """`target`: what somebody asked to judge for (empty: any); `pinned`: what the project's requirements ask for.

    A pinned version keeps rules from telling what is of no concern to it, and gives them nothing more to tell.
    """

    target: str = ""
    pinned: str = ""

    @property
    def meant(self) -> str:
        return self.target or self.pinned


ANY = Versions()
