"""Reads the stacks that faulthandler wrote when a process was stopped."""

from __future__ import annotations

import os

from mlcheck.core.finding import Location


def last_user_line(stack: str, folder: str) -> Location:
    """The first frame of a faulthandler dump that lies in the user's folder."""
    home = os.path.abspath(folder) + os.sep
    for line in stack.splitlines():
        line = line.strip()
        if not line.startswith('File "') or line.startswith('File "<'):  # as what began the process is called
            continue
        path, _, rest = line[6:].partition('"')
        full = os.path.join(home, path)
        if full.startswith(home) and "site-packages" not in full and f"{os.sep}mlcheck{os.sep}" not in full:
            number = rest.partition("line ")[2].partition(" ")[0]
            return Location(os.path.relpath(full, home), int(number) if number.isdigit() else 0)
    return Location()
