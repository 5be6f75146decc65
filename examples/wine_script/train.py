"""Three cultivars of wine: a script that nobody prepared for mlcheck. `mlcheck probe train.py` follows its own loop."""

import argparse

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.003)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    training, validation = wine()
    train_loader = DataLoader(training, batch_size=16, shuffle=True, drop_last=True)
    validation_loader = DataLoader(validation, batch_size=16)
    model = nn.Sequential(nn.Linear(13, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
    for epoch in range(arguments.epochs):
        train(model, train_loader, optimizer)
        print(f"epoch {epoch}: accuracy {accuracy(model, validation_loader):.3f}")
    torch.save(model.state_dict(), "wine.pt")


def train(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    model.train()
    for features, cultivar in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), cultivar)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = sum(int((model(features).argmax(1) == cultivar).sum()) for features, cultivar in loader)
    return right / len(loader.dataset)


def wine() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation bottles, both scaled by the mean and deviation of the training set."""
    data = load_wine()
    features, cultivar = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    train, validation = train_test_split(range(len(cultivar)), test_size=0.2, stratify=cultivar, random_state=0)
    features = (features - features[train].mean(0)) / features[train].std(0)
    return TensorDataset(features[train], cultivar[train]), TensorDataset(features[validation], cultivar[validation])


if __name__ == "__main__":
    main()
