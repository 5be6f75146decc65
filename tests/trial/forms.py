"""One training program in every form that `mlcheck probe` takes, and the same faults in each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlcheck.core.outcome import Outcome

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(8, 32), nn.BatchNorm1d(32)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(32, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.body(x)))
        return self.head(self.drop(x))

torch.manual_seed(0)
x = torch.randn(160, 8)
y = x[:, :5].argmax(1)
training, held_out = TensorDataset(x[:128], y[:128]), TensorDataset(x[128:], y[128:])
RATE, SHUFFLE, EPOCHS = 3e-3, True, 40

def trained(net):
    return net.parameters()
"""


@dataclass(frozen=True)
class Form:
    """`entry` names the program. `faults` are those that the form has a place of its own for, as (right, wrong)."""

    entry: str
    text: str
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    needs: str = ""


# In the part that all forms share.
_SHARED = {
    "softmax-before-ce": ("return self.head(self.drop(x))", "return self.head(self.drop(x)).softmax(1)"),
    "parameter-not-in-optimizer": ("return net.parameters()", "return net.head.parameters()"),
    "input-ignored": ("self.body(x)", "self.body(x * 0)"),
    "parameter-without-gradient": ("self.drop(x)", "self.drop(x.detach())"),
    "parameter-never-changes": ("RATE, SHUFFLE, EPOCHS = 3e-3", "RATE, SHUFFLE, EPOCHS = 0.0"),
    "training-data-not-shuffled": ("3e-3, True", "3e-3, False"),
    "splits-overlap": ("TensorDataset(x[128:], y[128:])", "TensorDataset(x[:32], y[:32])"),
}

DETERMINED = Form(
    "train.py:NetTrial",
    """
from determined.pytorch import DataLoader, PyTorchTrial

class NetTrial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.net = context.wrap_model(Net())
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(trained(self.net), lr=RATE))

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": F.cross_entropy(self.net(batch[0]), batch[1])}

    def build_training_data_loader(self):
        return DataLoader(training, 16, shuffle=SHUFFLE)

    def build_validation_data_loader(self):
        return DataLoader(held_out, 16)
""",
    {
        "missing-zero-grad": (
            "step_optimizer(self.optimizer)",
            "step_optimizer(self.optimizer, auto_zero_grads=False)",
        ),
        "missing-eval-mode": (
            '        return {"loss": F.cross',
            '        self.net.train()\n        return {"loss": F.cross',
        ),
        "train-not-restored": ("        loss = F", "        self.net.eval()\n        loss = F"),
    },
)

FUNCTION = Form(
    "train.py:build",
    """
def build():
    net = Net()
    optimizer = torch.optim.Adam(trained(net), lr=RATE)

    def train_step(batch):
        net.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch[0]), batch[1])
        loss.backward()
        optimizer.step()

    def evaluate_step(batch):
        net.eval()
        with torch.no_grad():
            return {"loss": F.cross_entropy(net(batch[0]), batch[1])}

    return {
        "model": net,
        "optimizer": optimizer,
        "train_loader": DataLoader(training, 16, shuffle=SHUFFLE),
        "validation_loader": DataLoader(held_out, 16),
        "train_step": train_step,
        "evaluate_step": evaluate_step,
    }
""",
    {
        "missing-zero-grad": ("        optimizer.zero_grad()\n", ""),
        "missing-eval-mode": ("        net.eval()\n", "        net.train()\n"),
        "train-not-restored": ("        net.train()\n        optimizer", "        net.eval()\n        optimizer"),
    },
)

_LIGHTNING = """
import PACKAGE as pl

class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def training_step(self, batch, index):
        STEP

    def validation_step(self, batch, index):
        self.log("val_loss", F.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(trained(self.net), lr=RATE)

    def train_dataloader(self):
        return DataLoader(training, 16, shuffle=SHUFFLE)

    def val_dataloader(self):
        return DataLoader(held_out, 16)
"""
_LIT_MODES = {
    "missing-eval-mode": ('        self.log("val', '        self.train()\n        self.log("val'),
    "train-not-restored": (
        "training_step(self, batch, index):\n",
        "training_step(self, batch, index):\n        self.eval()\n",
    ),
}
AUTOMATIC = Form(
    "train.py:Lit",
    _LIGHTNING.replace("PACKAGE", "lightning").replace("STEP", "return F.cross_entropy(self.net(batch[0]), batch[1])"),
    {
        **_LIT_MODES,
        "missing-zero-grad": (
            "    def train_dataloader",
            "    def optimizer_zero_grad(self, *_): ...\n\n    def train_dataloader",
        ),
    },
    needs="lightning",
)
MANUAL = Form(
    "train.py:Lit",
    _LIGHTNING.replace("PACKAGE", "pytorch_lightning")
    .replace("self.net = Net()", "self.net = Net()\n        self.automatic_optimization = False")
    .replace(
        "STEP",
        """optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.manual_backward(loss)
        optimizer.step()""",
    ),
    {**_LIT_MODES, "missing-zero-grad": ("        optimizer.zero_grad()\n", "")},
    needs="pytorch_lightning",
)

TRAINER = Form(
    "train.py:build_trainer",
    """
from transformers import Trainer, TrainingArguments

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, labels=None):
        logits = self.net(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}

class Ours(Trainer):
    def _get_train_sampler(self, dataset=None):
        return RandomSampler(self.train_dataset) if SHUFFLE else SequentialSampler(self.train_dataset)

    def training_step(self, model, inputs, *rest):
        return super().training_step(model, inputs, *rest)

    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        outputs = model(**inputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

def named(dataset):
    return [{"x": a, "labels": b} for a, b in dataset]

def build_trainer():
    model = Classifier()
    optimizer = torch.optim.Adam(trained(model.net), lr=RATE)
    arguments = TrainingArguments(
        "runs", num_train_epochs=EPOCHS, per_device_train_batch_size=16, eval_strategy="epoch", use_cpu=True
    )
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    return Ours(
        model, arguments, train_dataset=named(training), eval_dataset=named(held_out), optimizers=(optimizer, constant)
    )
""",
    {
        "missing-zero-grad": (
            "    def forward(self, x, lab",
            "    def zero_grad(self, *_, **__): ...\n\n    def forward(self, x, lab",
        ),
        "missing-eval-mode": (
            "        outputs = model(",
            "        if not torch.is_grad_enabled():\n            model.train()\n        outputs = model(",
        ),
        "train-not-restored": (
            "        outputs = model(",
            "        if torch.is_grad_enabled():\n            model.eval()\n        outputs = model(",
        ),
    },
    needs="transformers",
)

_LOOP = """
for epoch in range(EPOCHS):
    net.train()
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs), labels)
        BACKWARD
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for inputs, labels in test_loader:
            print(F.cross_entropy(net(inputs), labels).item())
"""
_LOOP_FAULTS = {
    "missing-zero-grad": ("        optimizer.zero_grad()\n", ""),
    "missing-eval-mode": ("    net.eval()\n", "    net.train()\n"),
    "train-not-restored": ("    net.train()\n    for inputs", "    for inputs"),
}
_PIECES = """
net = Net()
optimizer = torch.optim.Adam(trained(net), lr=RATE)
train_loader = DataLoader(training, 16, shuffle=SHUFFLE)
test_loader = DataLoader(held_out, 16)
"""
_PREPARED = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
net, optimizer, train_loader, test_loader = accelerator.prepare(net, optimizer, train_loader, test_loader)
"""
SCRIPT = Form("train.py", _PIECES + _LOOP.replace("BACKWARD", "loss.backward()"), _LOOP_FAULTS)
ACCELERATE = Form(
    "train.py",
    _PIECES + _PREPARED + _LOOP.replace("BACKWARD", "accelerator.backward(loss)"),
    _LOOP_FAULTS,
    needs="accelerate",
)
ACCELERATE_PARTS = Form(
    "train.py:build",
    FUNCTION.text.replace(
        "    def train_step",
        "    from accelerate import Accelerator\n    accelerator = Accelerator(cpu=True)\n"
        "    loaders = DataLoader(training, 16, shuffle=SHUFFLE), DataLoader(held_out, 16)\n"
        "    net, optimizer, *loaders = accelerator.prepare(net, optimizer, *loaders)\n\n    def train_step",
    )
    .replace("loss.backward()", "accelerator.backward(loss)")
    .replace("DataLoader(training, 16, shuffle=SHUFFLE),\n", "loaders[0],\n")
    .replace("DataLoader(held_out, 16),\n", "loaders[1],\n"),
    FUNCTION.faults,
    needs="accelerate",
)
MODEL = Form("train.py:Net", "\nexample_batch, loss = (x[:32], y[:32]), nn.CrossEntropyLoss()\n")

FORMS = {
    "Determined": DETERMINED,
    "function": FUNCTION,
    "Lightning, automatic": AUTOMATIC,
    "Lightning, manual": MANUAL,
    "Transformers' Trainer": TRAINER,
    "Accelerate, a script": ACCELERATE,
    "Accelerate, its parts": ACCELERATE_PARTS,
    "script": SCRIPT,
    "model": MODEL,
}

# Faults that do not hide each other, together in one program; and what every form has to say of each.
TOGETHER = {
    "the loop's": ("missing-zero-grad", "missing-eval-mode", "training-data-not-shuffled", "splits-overlap"),
    "the model's": ("softmax-before-ce", "parameter-not-in-optimizer", "train-not-restored", "input-ignored"),
    "what stands still": ("parameter-without-gradient", "parameter-never-changes"),
}
EXPECTED = {
    **dict.fromkeys((fault for faults in TOGETHER.values() for fault in faults), Outcome.FAIL),
    "training-data-not-shuffled": Outcome.WARN,
}
# A model alone has no loop, no optimizer and one batch.
_OF_A_MODEL = ("softmax-before-ce", "input-ignored", "parameter-without-gradient")


def rules_of(form: Form, faults: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(fault for fault in faults if form is not MODEL or fault in _OF_A_MODEL)


def program(form: Form, faults: tuple[str, ...] = ()) -> str:
    """The form's text with these faults in it."""
    text = HEAD + form.text
    for fault in faults:
        right, wrong = form.faults.get(fault) or _SHARED[fault]
        assert text.count(right) >= 1, (fault, right)
        text = text.replace(right, wrong)
    return text
