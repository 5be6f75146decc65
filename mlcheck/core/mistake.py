"""What a user can get wrong, told in one sentence: what, where, and what to do."""

from __future__ import annotations


class Mistake(Exception):
    """Misuse of mlcheck: the command prints the message, without a traceback, and exits with 2."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def not_yaml(path: str, error: Exception) -> Mistake:
    """`error` is what the parser, or the decoder before it, said of the file, often over several lines."""
    return Mistake(f"{path}: not valid YAML: {' '.join(str(error).split())}")
