"""A sound training script, ways to break it, and other ways to write a loop."""

from __future__ import annotations

from collections.abc import Callable

from mlcheck.trial.trial import Trial

LoadScript = Callable[..., Trial]

HEAD = """\
import argparse
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(8, 32), nn.BatchNorm1d(32)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(32, 5)
    def forward(self, x):
        x = F.relu(self.norm(self.body(x)))
        return self.head(self.drop(x))

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(96, 8)
y = x[:, :5].argmax(1)
train_loader = DataLoader(TensorDataset(x[:64], y[:64]), 16, shuffle=True)
test_loader = DataLoader(TensorDataset(x[64:], y[64:]), 16)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
"""

SOUND = (
    HEAD
    + """
def train(loader):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()

def test(loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for data, target in loader:
            right += (model(data).argmax(1) == target).sum().item()
    print(right / len(loader.dataset))

if __name__ == "__main__":
    for epoch in range(args.epochs):
        train(train_loader)
        test(test_loader)
    torch.save(model.state_dict(), "model.pt")
"""
)

# The fault, where it is, by the rule that has to see it.
FAULTS = {
    "missing-zero-grad": ("        optimizer.zero_grad()\n", ""),
    "missing-eval-mode": ("    model.eval()\n", ""),
    "train-not-restored": ("    model.train()\n", ""),
    "softmax-before-ce": ("return self.head(self.drop(x))", "return self.head(self.drop(x)).softmax(1)"),
    "parameter-not-in-optimizer": ("Adam(model.parameters()", "Adam(model.head.parameters()"),
    "parameter-never-changes": ("lr=3e-3", "lr=0.0"),
    "non-finite-batch": ("y = x[", "x[33, 2] = float('nan')\ny = x["),
    "input-ignored": ("self.body(x)", "self.body(x * 0)"),
}


def broken(rule: str) -> str:
    right, wrong = FAULTS[rule]
    assert right in SOUND
    return SOUND.replace(right, wrong)


# The same program with its loops written in other ways.
LOOPS = {
    "at module level": """
for epoch in range(args.epochs):
    model.train()
    for i, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        for data, target in test_loader:
            F.cross_entropy(model(data), target)
""",
    "one function for both": """
def run(loader, training):
    model.train(training)
    with torch.set_grad_enabled(training):
        for data, target in loader:
            loss = F.cross_entropy(model(data), target)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

for epoch in range(args.epochs):
    run(train_loader, True)
    run(test_loader, False)
    run(train_loader, False)
""",
    "steps without epochs": """
batches = iter(train_loader)
for step in range(60):
    try:
        data, target = next(batches)
    except StopIteration:
        batches = iter(train_loader)
        data, target = next(batches)
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(data), target).backward()
    optimizer.step()
    if step % 10 == 9:
        model.eval()
        with torch.no_grad():
            for data, target in test_loader:
                model(data)
""",
    "both parts evaluated": """
train_set, test_set = train_loader.dataset, test_loader.dataset
def score(part):
    with torch.no_grad():
        return sum(model(data).argmax(1).eq(target).sum().item() for data, target in DataLoader(part, 16))
for epoch in range(args.epochs):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
    model.eval()
    print(score(train_set), score(test_set))
""",
    "a loader for every epoch": """
for epoch in range(args.epochs):
    model.train()
    for data, target in DataLoader(TensorDataset(x[:64], y[:64]), 16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for data, target in DataLoader(TensorDataset(x[64:], y[64:]), 16):
            model(data)
""",
    "gradients accumulated": """
for epoch in range(args.epochs * 4):
    model.train()
    for i, (data, target) in enumerate(train_loader):
        (F.cross_entropy(model(data), target) / 2).backward()
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for data, target in test_loader:
            model(data)
""",
    "two loaders at once": """
other = DataLoader(TensorDataset(x[:64]), 16, shuffle=True)
for epoch in range(args.epochs):
    model.train()
    for (data, target), (more,) in zip(train_loader, other):
        optimizer.zero_grad()
        (F.cross_entropy(model(data), target) + 0.01 * model(more).square().mean()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for data, target in test_loader:
            model(data)
""",
    "statistics first": """
total = sum(data.sum(0) for data, _ in train_loader)
assert sum(len(data) for data, _ in train_loader) == 64
for epoch in range(args.epochs):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(data - total / 64), target).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for data, target in test_loader:
            model(data)
""",
}
LOOPS["evaluated at first and seldom after"] = (
    LOOPS["steps without epochs"].replace("range(60)", "range(500)").replace("step % 10 == 9", "step % 100 == 0")
)

# No loader: batches drawn by index, evaluated by calls.
DRAWN = (
    HEAD
    + """
def draw():
    index = torch.randint(64, (16,))
    return x[index], y[index]

@torch.no_grad()
def estimate():
    model.eval()
    losses = [F.cross_entropy(model(data), target).item() for data, target in (draw() for _ in range(5))]
    model.train()
    return sum(losses) / len(losses)

data, target = draw()
for step in range(2000):
    if step % 20 == 0:
        print(estimate())
    loss = F.cross_entropy(model(data), target)
    data, target = draw()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)

# The same without loader, in the order of the data: no batch can be had twice.
IN_ORDER = DRAWN.replace("index = torch.randint(64, (16,))", "global n; n += 16; index = torch.arange(n, n + 16) % 64")
IN_ORDER = IN_ORDER.replace("def draw", "n = 0\ndef draw")
