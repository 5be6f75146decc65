"""Graph networks of torch-geometric, batches of graphs by its own loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv, SAGEConv, TransformerConv, global_add_pool, global_mean_pool

FEATURES, WIDTH, CLASSES = 5, 32, 3
Pool = Callable[[Tensor, Tensor], Tensor]


def _graphs(count: int = 600) -> list[Data]:
    """Random graphs of 8 to 16 nodes; the class is the feature that is largest over the nodes that have most edges."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        nodes = int(torch.randint(8, 17, (1,), generator=generator))
        x = torch.randn(nodes, FEATURES, generator=generator)
        links = torch.rand(nodes, nodes, generator=generator) < 0.25
        links = (links | links.T).fill_diagonal_(False)
        weight = links.sum(1, keepdim=True).float()
        score = (x * weight).sum(0) / weight.sum().clamp(min=1)
        found.append(Data(x=x, edge_index=links.nonzero().T.contiguous(), y=score[:CLASSES].argmax()[None]))
    return found


class Network(nn.Module):
    """Two convolutions, a pooling over each graph, and a linear head."""

    def __init__(self, first: nn.Module, second: nn.Module, pool: Pool, outputs: int = CLASSES) -> None:
        super().__init__()
        self.first, self.second, self.pool = first, second, pool
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        hidden = F.relu(self.first(x, edge_index))
        hidden = F.relu(self.second(hidden, edge_index))
        return self.head(self.pool(hidden, batch))


def _trained(model: nn.Module) -> dict[str, Any]:
    graphs = _graphs()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        scores = model(batch.x, batch.edge_index, batch.batch)
        return {"accuracy": (scores.argmax(1) == batch.y).float().mean().item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "train_step": step,
        "evaluate_step": evaluate,
        "train_loader": DataLoader(graphs[:500], 32, shuffle=True),
        "validation_loader": DataLoader(graphs[500:], 32),
    }


def graph_convolutions() -> dict[str, Any]:
    return _trained(Network(GCNConv(FEATURES, WIDTH), GCNConv(WIDTH, WIDTH), global_mean_pool))


def graph_attention() -> dict[str, Any]:
    return _trained(Network(GATv2Conv(FEATURES, 8, heads=4), GATv2Conv(WIDTH, 8, heads=4), global_mean_pool))


def graph_isomorphism() -> dict[str, Any]:
    def mixed(inputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    return _trained(Network(GINConv(mixed(FEATURES)), GINConv(mixed(WIDTH)), global_add_pool))


def graph_sage() -> dict[str, Any]:
    return _trained(Network(SAGEConv(FEATURES, WIDTH), SAGEConv(WIDTH, WIDTH), global_mean_pool))


def graph_transformer() -> dict[str, Any]:
    return _trained(
        Network(TransformerConv(FEATURES, 8, heads=4), TransformerConv(WIDTH, 8, heads=4), global_mean_pool)
    )
