"""Questions to git about the working directory, where it is a repository and git is installed."""

from __future__ import annotations

import subprocess


def asked(*words: str) -> str:
    """What `git WORDS` prints; nothing outside of a repository, without git, or when it takes longer than 10 s."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=True)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip()
