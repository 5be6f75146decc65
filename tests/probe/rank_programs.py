"""Programs that run on two ranks: a sound one, and what turns it into another, sound or broken.

The ranks are forks of a process that has imported torch and computed nothing: a launcher and two fresh interpreters
for each program would take most of a test's time, and a fork of a process that went backward cannot (torch refuses it
where it is built for CUDA). What the launcher adds is tested in tests/trial/test_ranks.py.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
import warnings
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.trial.ranks import rank as rank_process
from mlcheck.trial.ranks.launch import RankJob, stories

RULES = (
    *("accumulation-exchanged", "collective-in-rank-branch", "ddp-bypassed", "metric-of-one-rank", "moved-after-ddp"),
    *("rank-dies-or-hangs", "ranks-draw-same-noise", "ranks-drift-apart", "ranks-uneven", "save-on-all-ranks"),
    *("set-epoch-missing", "ranks-on-one-gpu"),
)

# DistributedDataParallel imports torch._dynamo, which costs seconds: here once for all ranks.
_IMPORTED = ("torch._dynamo", "mlcheck.probe.measure.ranks.run", "mlcheck.trial.ranks.rank")

BASE = """
import copy
import os
import sys
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(SEED)
data = TensorDataset(torch.randn(240, 8), torch.randint(5, (240,)))
held_out = TensorDataset(torch.randn(40, 8), torch.randint(5, (40,)))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
shares = DataLoader(held_out, batch_size=8, sampler=DistributedSampler(held_out, shuffle=False))
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    model.train()
    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    right = torch.zeros(1)
    with torch.no_grad():
        for x, y in shares:
            right += (model(x).argmax(1) == y).sum()
    dist.all_reduce(right)
    if rank == 0:
        torch.save(net.state_dict(), "model.pt")
    dist.barrier()
dist.destroy_process_group()
"""


def changed(*changes: tuple[str, str], seed: int = 0) -> str:
    """The sound program with pieces of its text replaced."""
    source = BASE
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source.replace("SEED", str(seed), 1)


def run_ranks(source: str, folder: Path, *, world: int = 2, patience: float = 3.0) -> RankRun:
    """The program in `folder`, on ranks of its own."""
    program, scratch = folder / "train.py", folder / "scratch"
    program.write_text(source)
    scratch.mkdir()
    job = RankJob(str(program), str(folder), str(scratch), world, patience, 30.0, cpu_shim="cuda" in source)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_IMPORTED])
    ranks = [context.Process(target=_rank, args=(job, rank, port)) for rank in range(world)]
    for process in ranks:
        process.start()
    _reap(ranks)
    return RankRun(stories(scratch, world), "", Location(str(program), 1))


def _rank(job: RankJob, rank: int, port: int) -> None:
    os.environ.update(
        CUDA_VISIBLE_DEVICES="-1",
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(job.world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    multiprocessing.set_start_method("fork", force=True)  # the server that forked this process is not its own
    warnings.simplefilter("default")  # those of a program are no failures of the test
    try:
        rank_process.main(job.dumps())
    finally:
        os._exit(3)


def _reap(ranks: list[BaseProcess]) -> None:
    end = time.monotonic() + 40
    for process in ranks:
        process.join(max(0.0, end - time.monotonic()))
        process.kill()
        process.join()


def judge(rule: str, run: RankRun) -> Verdict:
    """What a rule says of a run."""
    check = import_module(f"mlcheck.probe.checks.{rule.replace('-', '_')}").check
    try:
        return check(None, run) if rule == "ranks-read-same-data" else check(run)
    except NotMeasured as reason:
        return Verdict(reason.outcome, reason=reason.reason)


def alarms(run: RankRun) -> dict[str, str]:
    """Every rule that fails or warns, with its first finding."""
    verdicts = {rule: judge(rule, run) for rule in (*RULES, "ranks-read-same-data")}
    loud = (Outcome.FAIL, Outcome.WARN, Outcome.ERROR)
    return {rule: verdict.findings[0].message for rule, verdict in verdicts.items() if verdict.outcome in loud}
