"""The reports of one pytest session: each is made once, also when the tests are spread over several processes."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mlcheck.core.atomic import replace_file

if TYPE_CHECKING:
    from mlcheck.core.report import Report
    from mlcheck.lint.run import LintSettings
    from mlcheck.probe.engine import ProbeOptions

_LINT_PATIENCE_S = 300.0
_POLL_S = 0.1


class Runs:
    """Makes reports and keeps them; in `shared`, a folder, the processes of one run leave them for each other."""

    def __init__(self, shared: str) -> None:
        self._shared = shared
        self._owned = ""
        self._kept: dict[str, Report] = {}

    def share(self) -> str:
        """The folder for the workers of this process; it goes with `close`."""
        if not self._owned:
            self._owned = tempfile.mkdtemp(prefix="mlcheck-")
        return self._owned

    def close(self) -> None:
        if self._owned:
            shutil.rmtree(self._owned, ignore_errors=True)
            self._owned = ""

    def lint(self, paths: tuple[str, ...], settings: LintSettings) -> Report:
        from mlcheck.lint.run import run_lint

        return self._once(f"lint {paths} {settings}", lambda: run_lint(paths, settings), _LINT_PATIENCE_S)

    def probe(self, options: ProbeOptions) -> Report:
        from mlcheck.probe.engine import run_probes

        return self._once(f"probe {options}", lambda: run_probes(options), options.budget + 2 * options.time_limit)

    def _once(self, what: str, make: Callable[[], Report], patience_s: float) -> Report:
        if what not in self._kept:
            self._kept[what] = self._made_by_one(what, make, patience_s) if self._shared else make()
        return self._kept[what]

    def _made_by_one(self, what: str, make: Callable[[], Report], patience_s: float) -> Report:
        """The first process to ask makes the report, the others wait for it; beyond patience each makes its own."""
        from mlcheck.report import json

        name = hashlib.sha256(what.encode()).hexdigest()[:24]
        saved, lock = Path(self._shared, f"{name}.json"), Path(self._shared, f"{name}.lock")
        end = time.monotonic() + patience_s
        while not saved.exists():
            try:
                lock.touch(exist_ok=False)
            except FileExistsError:
                if time.monotonic() > end:
                    return make()
                time.sleep(_POLL_S)
                continue
            try:
                if not saved.exists():  # another may have finished between the look and the lock
                    replace_file(saved, json.render(make()))
            finally:
                lock.unlink()
        return json.read(saved.read_text(encoding="utf-8"))
