"""Trains the weights that the service loads, and draws its query files from the data it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).parent
SEED = 0


def trained(images: torch.Tensor, labels: torch.Tensor, steps: int, weight_decay: float) -> nn.Linear:
    torch.manual_seed(SEED)
    model = nn.Linear(64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=weight_decay)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images / 16), labels).backward()
        optimizer.step()
    return model


def main() -> None:
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target)
    seen, held_out = train_test_split(range(len(labels)), test_size=400, random_state=SEED, stratify=labels)
    model = trained(images[seen], labels[seen], steps=200, weight_decay=0.01)
    live = trained(images[seen], labels[seen], steps=20, weight_decay=0.1)
    weights = {name: [[round(x, 4) for x in row] for row in value.reshape(-1, value.shape[-1]).tolist()]
               for name, value in model.state_dict().items()}  # fmt: skip
    (HERE / "weights.json").write_text(json.dumps(weights), encoding="utf-8")
    with open(HERE / "labelled.jsonl", "w", encoding="utf-8") as file:
        for place in held_out:
            query = {"pixels": [int(pixel) for pixel in images[place]]}
            says = int(live(images[place] / 16).argmax())
            file.write(json.dumps({"input": query, "label": int(labels[place]), "live": says}) + "\n")
    with open(HERE / "random.jsonl", "w", encoding="utf-8") as file:
        for place in held_out[:60]:
            query = {"pixels": [int(pixel) for pixel in images[place]]}
            file.write(json.dumps({"id": f"digit-{place}", "input": query}) + "\n")


if __name__ == "__main__":
    main()
