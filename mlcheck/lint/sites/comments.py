"""Comments that address mlcheck."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.lint.sites.file import File
from mlcheck.lint.suppress import Suppression, suppressions


def ignoring(file: File) -> Iterator[Suppression]:
    """The `# mlcheck: ignore` comments of a file that can be read."""
    for found in suppressions(file.path, file.text.encode()):
        if isinstance(found, Suppression):
            yield found
