"""Comments that address mlcheck."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.suppress import Suppression, suppressions


def ignoring(sites: Sites) -> Iterator[tuple[File, Suppression]]:
    """The `# mlcheck: ignore` comments that can be read, with their files."""
    for file in sites.files.values():
        text = file.module.source.text
        for found in suppressions(file.path, text.encode()) if "mlcheck:" in text else ():
            if isinstance(found, Suppression):
                yield file, found
