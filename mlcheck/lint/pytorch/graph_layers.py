"""The modules of the libraries for graph networks, as far as their names tell."""

from collections.abc import Collection

_HOMES = ("torch_geometric.nn.", "dgl.nn.")
_PARTS = frozenset(["lr_scheduler", "loader", "fx", "model_hub", "functional"])
_OTHERS = frozenset(["DataParallel", "KNNIndex", "LastNeighborLoader", "NodeEmbedding", "PyGModelHubMixin"])
_RESULTS = ("Output", "Info", "KNNIndex")


def is_graph_layer(name: str) -> bool:
    """Whether the library class of that name is a module of torch-geometric or of DGL: `torch_geometric.nn.GCNConv`."""
    if not name.startswith(_HOMES):
        return False
    *parts, last = name.split(".")
    return last[:1].isupper() and last not in _OTHERS and not last.endswith(_RESULTS) and _PARTS.isdisjoint(parts)


_WITH_PARAMETERS = frozenset(
    [
        *("GCNConv", "SAGEConv", "GATConv", "GATv2Conv", "GraphConv", "ChebConv", "SGConv", "TAGConv", "RGCNConv"),
        *("TransformerConv", "ARMAConv", "GCN2Conv", "HGTConv", "GatedGraphConv", "ResGatedGraphConv", "RelGraphConv"),
    ]
)


def has_weights(name: str) -> bool:
    """Whether a layer of graphs has weights of its own, whatever it is made with."""
    return is_graph_layer(name) and name.rpartition(".")[2] in _WITH_PARAMETERS


_AROUND = frozenset(["GINConv", "GINEConv", "EdgeConv", "DynamicEdgeConv", "NNConv"])


def wraps_layers(name: str) -> bool:
    """Whether a layer of graphs holds the layers it is made with: `GINConv(nn.Linear(8, 8))`."""
    return is_graph_layer(name) and name.rpartition(".")[2] in _AROUND


_SUMS = frozenset(["GCNConv", "SAGEConv", "GraphConv", "ChebConv", "SGConv", "TAGConv", "RGCNConv"])
_ENDS_OTHERWISE = frozenset(["activation", "norm", "normalize"])


def ends_linear(name: str, settings: Collection[str]) -> bool:
    """Whether what a layer of graphs returns is a sum as it is: scores, where it is the last one."""
    return is_graph_layer(name) and name.rpartition(".")[2] in _SUMS and _ENDS_OTHERWISE.isdisjoint(settings)
