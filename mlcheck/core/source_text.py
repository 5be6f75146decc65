"""The Python text of a file, whatever it is kept in."""

from __future__ import annotations

from mlcheck.core.notebook import is_notebook, read_notebook


def read_source(path: str) -> str:
    """In the encoding it declares, lines ending as in memory; of a notebook its code cells, each line in its place.

    Raises OSError where it cannot be read, SyntaxError or ValueError where it cannot be decoded or is no notebook.
    """
    import io
    import tokenize

    with open(path, "rb") as file:
        data = file.read()
    if is_notebook(path):
        return read_notebook(data).text
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")


def is_code(path: str) -> bool:
    """Whether a file is Python to be run, by its name: a script or a notebook."""
    return path.endswith(".py") or is_notebook(path)
