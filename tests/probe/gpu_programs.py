"""Training scripts for a GPU, in parts: a sound one, and what makes each of them faulty or wasteful."""

from __future__ import annotations

SOUND = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(4, (512,))
pictures = torch.randn(512, 3, 32, 32) * 0.5 + labels[:, None, None, None] - 1.5
train = DataLoader(TensorDataset(pictures[:384], labels[:384]), batch_size=32, shuffle=True{loader})
held_out = DataLoader(TensorDataset(pictures[384:], labels[384:]), batch_size=32{loader})
device = "cuda"
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4){last},
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
{before}
for epoch in range(3):
    model.train()
    for inputs, targets in train:
        inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        optimizer.zero_grad()
        {step}
    model.eval()
    right = total = 0
    with torch.no_grad():
        for inputs, targets in held_out:
            inputs, targets = inputs.to(device), targets.to(device)
            right += (model(inputs).argmax(1) == targets).sum()
            total += len(targets)
    print(epoch, (right / total).item())
"""

PLAIN = """loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()"""

MIXED = """with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()"""

RANKS = """
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(0)
inputs = torch.randn(256, 8)
data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = DistributedDataParallel(nn.Linear(8, 2).cuda(rank), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch, labels in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(batch.cuda(rank)), labels.cuda(rank)).backward()
        optimizer.step()
dist.destroy_process_group()
"""


def program(step: str = PLAIN, before: str = "", loader: str = "", last: str = "") -> str:
    return SOUND.format(step=step, before=before, loader=loader, last=last)
