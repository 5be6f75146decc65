"""Judges whether one rank alone writes a checkpoint."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun, Saved, location


def check(run: RankRun) -> Verdict:
    writers: dict[str, dict[int, Saved]] = {}
    for rank in run.ranks:
        for saved in rank.of(Saved):
            writers.setdefault(saved.path, {})[rank.rank] = saved
    if not writers:
        raise NotMeasured("nothing was saved with torch.save in the steps that were run")
    shared = {path: ranks for path, ranks in writers.items() if len(ranks) > 1}
    if not shared:
        return Verdict(
            Outcome.PASS, f"each of {plural(len(writers), 'file')} is written by one rank", looked_at=len(writers)
        )
    findings = tuple(
        Finding(
            f"ranks {', '.join(map(str, ranks))} write the same file, {path.rpartition('/')[2]}, at once",
            location(next(iter(ranks.values())).place, run.place),
            help="`if dist.get_rank() == 0:` before it, and a `dist.barrier()` behind it where the others read it",
        )
        for path, ranks in shared.items()
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=len(writers))
