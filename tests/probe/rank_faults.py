"""Faults of programs on several ranks, each as what it changes in the sound program, and sound ones beside them."""

from __future__ import annotations

from dataclasses import dataclass

Change = tuple[str, str]


@dataclass(frozen=True)
class Fault:
    """`rules` are all that alarm; the first one's finding has `words` in it."""

    changes: tuple[Change, ...]
    rules: tuple[str, ...]
    words: str


CALL = "F.cross_entropy(model(x), y)"
WRAP = "model = DistributedDataParallel(net)\n"
BACKWARD = "        loss.backward()\n"
STEP = "        optimizer.step()\n"
LOADER = "loader = DataLoader(data, batch_size=8, sampler=sampler)\n"
SAMPLER = "sampler = DistributedSampler(data)\n"
SET_EPOCH = "    sampler.set_epoch(epoch)\n"
REDUCE = "    dist.all_reduce(right)\n"
NET = "net = nn.Sequential("
NOISY = """
class Noisy(Dataset):
    def __len__(self):
        return len(data)
    def __getitem__(self, i):
        x, y = data[i]
        return x + 0.1 * torch.randn(8), y
"""

LOSSY = """
lost = torch.Generator().manual_seed(7)
def lossy(state, bucket):
    work = dist.all_reduce(bucket.buffer().div_(world), async_op=True).get_future()
    def take(done):
        value = done.value()[0]
        if rank == 1:
            value[torch.rand(value.shape, generator=lost) < 0.01] = 0
        return value
    return work.then(take)
model.register_comm_hook(None, lossy)
"""
SPARE = """
class Net(nn.Sequential):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.spare = nn.Linear(3, 3)
    def forward(self, x):
        return self[2](self[1](self[0](x)))
net = Net("""
OTHER_START = """
torch.manual_seed(rank)
nn.init.normal_(net[0].weight)
model = net
"""
UNEVEN = """
mine = Subset(data, range(70) if rank == 0 else range(70, 124))
loader = DataLoader(mine, batch_size=8)
"""
HALVES = """
class Halves(DistributedSampler):
    def __iter__(self):
        return iter(range(60 * self.rank, 60 * self.rank + 120))
sampler = Halves(data, shuffle=False)
"""
NO_SYNC = """
        if number % 2:
            loss.backward()
        else:
            with model.no_sync():
                F.cross_entropy(model(x), y).backward()
"""
LOOP = """    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
JOIN = """    from torch.distributed.algorithms.join import Join
    with Join([model]):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
AVERAGE_WEIGHTS = """
        for weight in net.parameters():
            dist.all_reduce(weight.data)
            weight.data /= world
"""
STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        return iter(data[i] for i in range(rank, 240, world))
loader = DataLoader(Stream(), batch_size=8)
"""
SHARDED = """
from torch.distributed.optim import ZeroRedundancyOptimizer
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
"""
OBJECTS = """
    rights = [None] * world
    dist.all_gather_object(rights, right.item())
"""
AVERAGED = """
        for mean, weight in zip(average.parameters(), net.parameters()):
            mean.data.lerp_(weight.data, 0.1)
"""
OWN_GPU = """
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
net = net.to(gpu)
model = DistributedDataParallel(net, device_ids=[gpu], output_device=gpu)
"""
OWN_AVERAGE = """
        for weight in net.parameters():
            dist.all_reduce(weight.grad)
            weight.grad /= world
"""
EVERY_SECOND = """
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
"""

FAULTS = {
    "past-the-wrapper": Fault(
        ((CALL, "F.cross_entropy(model.module(x), y)"),),
        ("ddp-bypassed", "ranks-drift-apart"),
        "`Sequential` was called past its DistributedDataParallel",
    ),
    "cast-after-wrapping": Fault(
        ((WRAP, f"{WRAP}model.double()\n"), ("model(x)", "model(x.double())")),
        ("moved-after-ddp", "ranks-drift-apart"),
        "went from float32 to float64 after the model was wrapped",
    ),
    "new-head-after-wrapping": Fault(
        ((WRAP, f"{WRAP}torch.manual_seed(rank)\nnet[2] = nn.Linear(16, 5)\n"),),
        ("moved-after-ddp", "ranks-drift-apart", "rank-dies-or-hangs"),
        "`2.weight` is another parameter than when the model was wrapped",
    ),
    "never-wrapped": Fault(
        ((WRAP, "model = net\n"),), ("ranks-drift-apart",), "no model is wrapped in DistributedDataParallel"
    ),
    "weight-outside": Fault(
        (
            (WRAP, f"{WRAP}scale = nn.Parameter(torch.ones(()))\n"),
            (CALL, "F.cross_entropy(scale * model(x), y)"),
            ("SGD(model.parameters()", "SGD([*model.parameters(), scale]"),
        ),
        ("ranks-drift-apart",),
        "belongs to no model that DistributedDataParallel wraps",
    ),
    "always-under-no-sync": Fault(
        ((CALL, "0.0"), (BACKWARD, f"        with model.no_sync():\n            {CALL}.backward()\n")),
        ("ranks-drift-apart",),
        "under no_sync()",
    ),
    "clipped-on-one-rank": Fault(
        ((STEP, f"        if rank == 0:\n            nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n{STEP}"),),
        ("ranks-drift-apart",),
        "4 of 4 gradients differ between ranks at step 1 (`0.weight`): they were averaged, and differ",
    ),
    "rate-of-the-rank": Fault(
        (("lr=0.1", "lr=0.1 * (1 + rank)"),),
        ("ranks-drift-apart",),
        "the gradients are the same, and the learning rates are not (0.1, 0.2)",
    ),
    "exchange-loses-data": Fault(
        ((WRAP, WRAP + LOSSY),), ("ranks-drift-apart",), "they were averaged, and differ when the optimizer steps"
    ),
    "other-start": Fault(
        ((WRAP, OTHER_START), (BACKWARD, BACKWARD + OWN_AVERAGE)),
        ("ranks-drift-apart",),
        "the ranks start from different weights",
    ),
    "same-batches": Fault(
        ((LOADER, "loader = DataLoader(data, batch_size=8)\n"),),
        ("ranks-read-same-data",),
        "all 2 ranks train on the same batches (3 of 3 are equal)",
    ),
    "whole-data-each": Fault(
        ((LOADER, "torch.manual_seed(rank)\nloader = DataLoader(data, batch_size=8, shuffle=True)\n"),),
        ("ranks-read-same-data",),
        "each of 2 ranks goes through all 240 samples: an epoch is 2 epochs",
    ),
    "overlapping-shards": Fault(
        ((SAMPLER, HALVES),),
        ("ranks-read-same-data",),
        "samples of an epoch are read by more than one rank",
    ),
    "no-set-epoch": Fault(
        ((SET_EPOCH, ""),), ("set-epoch-missing",), "epochs 1 and 2 bring the same 120 samples in one order"
    ),
    "all-save": Fault(
        (("    if rank == 0:\n        torch.save", "    if True:\n        torch.save"),),
        ("save-on-all-ranks",),
        "ranks 0, 1 write the same file, model.pt, at once",
    ),
    "metric-of-a-share": Fault(((REDUCE, ""),), ("metric-of-one-rank",), "each rank evaluates 50% of the samples"),
    "uneven": Fault(
        (
            (LOADER, UNEVEN),
            (SET_EPOCH, ""),
        ),
        ("ranks-uneven", "rank-dies-or-hangs"),
        "rank 0 has 9 batches, rank 1 has 7 batches",
    ),
    "collective-on-one-rank": Fault(
        ((REDUCE, f"    if rank == 0:\n    {REDUCE}"),),
        ("collective-in-rank-branch", "rank-dies-or-hangs"),
        "rank 0 calls all_reduce of [1] float32 at",
    ),
    "one-more-on-one-rank": Fault(
        ((STEP, f"{STEP}        if rank == 0 and number == 1:\n            dist.all_reduce(torch.zeros(1))\n"),),
        ("collective-in-rank-branch", "rank-dies-or-hangs"),
        "rank 0 calls all_reduce of [1] float32 at",
    ),
    "unused-weights": Fault(
        ((NET, SPARE),),
        ("rank-dies-or-hangs", "ranks-drift-apart"),
        "2 weights get no gradient, which DistributedDataParallel waits for (`spare.weight`, `spare.bias`)",
    ),
    "one-dies": Fault(
        ((STEP, f"{STEP}        if rank == 1 and number == 1:\n            raise ValueError('sample 17 is torn')\n"),),
        ("rank-dies-or-hangs",),
        "ValueError: sample 17 is torn",
    ),
    "one-crashes": Fault(
        ((STEP, f"{STEP}        if rank == 1 and number == 1:\n            os.abort()\n"),),
        ("rank-dies-or-hangs",),
        "rank 1 died at",
    ),
    "exchanged-every-time": Fault(
        (("        optimizer.zero_grad()\n", ""), (STEP, EVERY_SECOND)),
        ("accumulation-exchanged",),
        "2 batches make one update, and the ranks exchange",
    ),
    "one-gpu": Fault(
        ((WRAP, "torch.cuda.set_device(0)\nnet = net.cuda()\nmodel = DistributedDataParallel(net, device_ids=[0])\n"),),
        ("ranks-on-one-gpu",),
        "all 2 ranks choose GPU 0 by set_device",
    ),
    "same-noise": Fault(
        ((LOADER, f"{NOISY}loader = DataLoader(Noisy(), batch_size=8, sampler=sampler)\n"),),
        ("ranks-draw-same-noise",),
        "begin the epoch with the same random numbers",
    ),
}
NOISY_LOADER = f"{NOISY}loader = DataLoader(Noisy(), batch_size=8, sampler=sampler)\n"
SHARE = ("sampler=DistributedSampler(held_out, shuffle=False)", "shuffle=False")
COUNT = "        for x, y in shares:\n            right += (model(x)"
SOUND: dict[str, tuple[Change, ...]] = {
    "plain": (),
    "exchanged-once": (("        optimizer.zero_grad()\n", ""), (BACKWARD, NO_SYNC), (STEP, EVERY_SECOND)),
    "joined": ((LOADER, UNEVEN), (SET_EPOCH, ""), (LOOP, JOIN)),
    "averages-by-itself": ((WRAP, "model = net\n"), (BACKWARD, BACKWARD + OWN_AVERAGE)),
    "averages-weights": ((WRAP, "model = net\n"), (STEP, STEP + AVERAGE_WEIGHTS)),
    "own-seeds": ((WRAP, f"torch.manual_seed(rank)\nnet = copy.deepcopy(net)\n{WRAP}"), (LOADER, NOISY_LOADER)),
    "batch-norm-and-dropout": ((NET, f"{NET}nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), "),),
    "clipped-alike": ((STEP, f"        nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n{STEP}"),),
    "spare-weights-are-found": ((NET, SPARE), ("Parallel(net)", "Parallel(net, find_unused_parameters=True)")),
    "rank-zero-evaluates-all": (
        SHARE,
        (COUNT, "        for x, y in shares if rank == 0 else ():\n            right += (net(x)"),
        (REDUCE, ""),
    ),
    "all-evaluate-all": (SHARE, (REDUCE, "")),
    "gathers-objects": ((REDUCE, OBJECTS),),
    "unwraps-to-evaluate": (("right += (model(x)", "right += (model.module(x)"),),
    "subgroups": (
        (LOADER, f"{LOADER}alone = [dist.new_group([one]) for one in range(world)]\n"),
        (REDUCE, f"{REDUCE}    for _ in range(rank + 1):\n        dist.all_reduce(right, group=alone[rank])\n"),
    ),
    "stream-by-rank": ((LOADER, STREAM), (SET_EPOCH, "")),
    "own-shard": (
        (LOADER, "loader = DataLoader(Subset(data, range(rank, 240, world)), batch_size=8, shuffle=True)\n"),
        (SET_EPOCH, ""),
    ),
    "average-of-weights": ((WRAP, f"{WRAP}average = copy.deepcopy(net)\n"), (STEP, STEP + AVERAGED)),
    "sharded-optimizer": (("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", SHARDED),),
    "gpu-by-rank": (
        (
            WRAP,
            OWN_GPU,
        ),
    ),
    "own-file-each": (("    if rank == 0:\n", "    if True:\n"), ('"model.pt"', 'f"model-{rank}.pt"')),
    "workers-and-noise": (
        (LOADER, NOISY_LOADER.replace("sampler=sampler", "sampler=sampler, num_workers=1")),
        (WRAP, f"{WRAP}torch.manual_seed(100 + rank)\n"),
    ),
}
