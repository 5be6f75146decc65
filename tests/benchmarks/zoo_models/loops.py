"""Sound training steps unlike the plain one: schedules, clipping, accumulation, precision, other optimizers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from data import digits, loaders, table
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
from vision import batch_norm_cnn, lenet, mlp


def accuracy(model: nn.Module) -> Any:
    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        images, targets = batch
        output = model(images)
        return {
            "loss": F.cross_entropy(output, targets).item(),
            "accuracy": (output.argmax(1) == targets).float().mean().item(),
        }

    return evaluate


def stepwise(parts: dict[str, Any], step: Any) -> dict[str, Any]:
    """The same program with a training step of its own."""
    return parts | {"train_step": step, "evaluate_step": accuracy(parts["model"])}


def clipped() -> dict[str, Any]:
    parts = lenet()
    model, optimizer = parts["model"], parts["optimizer"]

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def accumulated() -> dict[str, Any]:
    parts = batch_norm_cnn()
    model, optimizer = parts["model"], parts["optimizer"]
    seen = 0

    def step(batch: Any) -> dict[str, Tensor]:
        nonlocal seen
        model.train()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        (loss / 4).backward()
        seen += 1
        if seen % 4 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return {"loss": loss.detach()}

    return stepwise(parts | loaders(digits(), batch=16), step)


def warm_up_then_cosine() -> dict[str, Any]:
    parts = mlp()
    model = parts["model"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 900),
        ],
        [20],
    )

    def step(batch: Any) -> dict[str, float]:
        model.train()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return {"loss": loss.item(), "rate": scheduler.get_last_lr()[0]}

    return stepwise(parts | {"optimizer": optimizer, "scheduler": scheduler}, step)


def lbfgs() -> dict[str, Any]:
    model = nn.Linear(30, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)

    def step(batch: Any) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch[0]), batch[1]) + 1e-3 * model.weight.square().sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    parts = {"model": model, "optimizer": optimizer, **loaders(table("breast_cancer"), batch=128)}
    return stepwise(parts, step)


class SignDescent(torch.optim.Optimizer):
    """Lion (Chen et al. 2023)."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
                parameter.add_((0.9 * average + 0.1 * parameter.grad).sign_(), alpha=-group["lr"])
                average.lerp_(parameter.grad, 0.01)


def own_optimizer() -> dict[str, Any]:
    parts = lenet()
    return parts | {"optimizer": SignDescent(parts["model"].parameters(), lr=2e-3)}


def two_rates() -> dict[str, Any]:
    parts = lenet()
    model = parts["model"]
    groups = [{"params": model[:6].parameters(), "lr": 1e-3}, {"params": model[6:].parameters(), "lr": 4e-3}]
    return parts | {"optimizer": torch.optim.AdamW(groups, weight_decay=0.01)}


def bfloat16_autocast() -> dict[str, Any]:
    parts = batch_norm_cnn()
    model, optimizer = parts["model"], parts["optimizer"]

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def averaged_weights() -> dict[str, Any]:
    parts = batch_norm_cnn()
    model, optimizer = parts["model"], parts["optimizer"]
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98), use_buffers=True
    )

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        return loss.detach()

    return parts | {
        "model": {"model": model, "average": average},
        "train_step": step,
        "evaluate_step": accuracy(average),
    }


def mixup() -> dict[str, Any]:
    parts = lenet()
    model, optimizer = parts["model"], parts["optimizer"]
    share = torch.distributions.Beta(0.4, 0.4)

    def step(batch: Any) -> Tensor:
        model.train()
        images, targets = batch
        weight, other = share.sample(), torch.randperm(len(images))
        output = model(weight * images + (1 - weight) * images[other])
        loss = weight * F.cross_entropy(output, targets) + (1 - weight) * F.cross_entropy(output, targets[other])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def adversarial() -> dict[str, Any]:
    """Half of the loss on inputs moved against it (Goodfellow et al. 2015)."""
    parts = lenet()
    model, optimizer = parts["model"], parts["optimizer"]

    def step(batch: Any) -> Tensor:
        model.train()
        images = batch[0].clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(model(images), batch[1]), images)
        moved = (images + 0.1 * slope.sign()).detach()
        loss = 0.5 * F.cross_entropy(model(batch[0]), batch[1]) + 0.5 * F.cross_entropy(model(moved), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def distilled() -> dict[str, Any]:
    """A trained teacher in evaluation mode; the pupil alone learns."""
    parts = mlp()
    pupil, optimizer = parts["model"], parts["optimizer"]
    teacher = copy.deepcopy(pupil)
    learn(teacher, parts["train_loader"])
    teacher.eval().requires_grad_(False)

    def step(batch: Any) -> Tensor:
        pupil.train()
        output = pupil(batch[0])
        with torch.no_grad():
            wanted = teacher.to(batch[0].device)(batch[0])
        soft = F.kl_div(
            F.log_softmax(output / 2, 1), F.log_softmax(wanted / 2, 1), reduction="batchmean", log_target=True
        )
        loss = 0.5 * F.cross_entropy(output, batch[1]) + 2 * soft
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts, step)


def learn(model: nn.Module, loader: DataLoader, epochs: int = 4) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for images, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), targets).backward()
            optimizer.step()


def frozen_backbone() -> dict[str, Any]:
    """A trained backbone that is kept, and a new head."""
    parts = batch_norm_cnn()
    model = parts["model"]
    learn(model, parts["train_loader"])
    backbone = model[:-1].requires_grad_(False)
    model[-1] = nn.Linear(32, 10)
    optimizer = torch.optim.Adam(model[-1].parameters(), lr=5e-3)

    def step(batch: Any) -> Tensor:
        model.train()
        backbone.eval()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return stepwise(parts | {"optimizer": optimizer}, step)


def weighted_sampler() -> dict[str, Any]:
    """One class in ten, drawn as often as the others together."""
    training, validation = digits()
    rare = (training.tensors[1] == 8).long()
    sampler = WeightedRandomSampler(torch.where(rare == 1, 9.0, 1.0).tolist(), len(rare))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(TensorDataset(training.tensors[0], rare), 32, sampler=sampler),
        "validation_loader": DataLoader(TensorDataset(validation.tensors[0], (validation.tensors[1] == 8).long()), 64),
    }


def weighted_classes() -> dict[str, Any]:
    parts = weighted_sampler()
    rare = parts["train_loader"].dataset
    return parts | {
        "train_loader": DataLoader(rare, 32, shuffle=True),
        "loss": nn.CrossEntropyLoss(weight=torch.tensor([0.55, 5.0])),
    }


def sharpness_aware() -> dict[str, Any]:
    """Two passes a step (Foret et al. 2021)."""
    parts = mlp()
    model = parts["model"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model.parameters()]))
        moves = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves):
                parameter.add_(move)
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves):
                parameter.sub_(move)
        optimizer.step()
        return loss.detach()

    return stepwise(parts | {"optimizer": optimizer}, step)
