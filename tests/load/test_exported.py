"""Bare models as services, and what is noticed of modes and gradients while a query is answered."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mlcheck.load.compare import plain
from mlcheck.load.exported import load, of_module, tensors
from mlcheck.load.modes import watched
from mlcheck.load.service import NoService, load_service


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


QUERY = [[0.1, 0.2, 0.3]]


def test_a_module_is_served_in_evaluation_mode_without_gradients_and_says_so(net: Net) -> None:
    service = of_module(net)
    with watched() as seen:
        answer = service.predict(service.prepare(QUERY))
    assert (seen.training, seen.graph) == ([], "")
    assert seen.calls == 7
    assert not answer.requires_grad
    assert "mlcheck itself calls eval()" in service.notices[0]


def test_a_module_left_in_training_mode_is_named_layer_by_layer(net: Net) -> None:
    with watched() as seen:
        net(torch.rand(2, 3))
    assert seen.training == ["Net.layers.1 (BatchNorm1d)", "Net.layers.3 (Dropout)"]
    assert seen.graph == "Net"
    with watched() as after:
        pass
    assert after.calls == 0


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.0), nn.LayerNorm(3), nn.LSTM(3, 3), nn.InstanceNorm1d(3), nn.Identity(), nn.MultiheadAttention(3, 1)],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_are_the_same_in_training_are_not_accused(layer: nn.Module) -> None:
    query = torch.rand(1, 3, 3)
    with torch.no_grad(), watched() as seen:
        layer(query, query, query) if isinstance(layer, nn.MultiheadAttention) else layer(query)
    assert (seen.training, seen.graph) == ([], "")
    assert seen.calls >= 1


@pytest.mark.parametrize(
    "layer", [nn.LSTM(3, 3, 2, dropout=0.1), nn.InstanceNorm1d(3, track_running_stats=True), nn.RReLU()]
)
def test_layers_that_differ_in_training_are(layer: nn.Module) -> None:
    with torch.no_grad(), watched() as seen:
        layer(torch.rand(1, 3, 3))
    assert len(seen.training) == 1


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_is_looked_into(net: Net) -> None:
    scripted = torch.jit.trace(net.eval(), torch.rand(2, 3))
    with torch.no_grad(), watched() as calm:
        scripted(torch.rand(2, 3))
    assert calm.training == []
    scripted.train()
    with torch.no_grad(), watched() as seen:
        scripted(torch.rand(2, 3))
    assert any("BatchNorm1d" in told for told in seen.training)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_exported_files_answer_as_the_module_does(net: Net, tmp_path: Path) -> None:
    expected = plain(of_module(net).predict(torch.tensor(QUERY)))
    torch.jit.save(torch.jit.trace(net, torch.rand(1, 3)), str(tmp_path / "net.pt"))
    torch.export.save(torch.export.export(net, (torch.rand(1, 3),)), tmp_path / "net.pt2")
    for name in ("net.pt", "net.pt2"):
        service = load(tmp_path / name)
        assert plain(service.predict(service.prepare(QUERY)))[0] == pytest.approx(expected[0], abs=1e-6)


def test_a_file_of_weights_alone_is_no_service(net: Net, tmp_path: Path) -> None:
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(NoService, match="is no model that can be run by itself"):
        load(tmp_path / "weights.pt")
    (tmp_path / "text.pt2").write_text("no model", encoding="utf-8")
    with pytest.raises(NoService, match=r"export it with torch\.export\.save"):
        load(tmp_path / "text.pt2")
    with pytest.raises(NoService, match="there is no file"):
        load(tmp_path / "none.pt")


def test_a_model_file_without_torch_says_what_to_install(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoService, match=r"to serve net\.onnx, mlcheck needs torch: pip install"):
        load_service("net.onnx")


def test_alone_and_in_a_batch(net: Net) -> None:
    service = of_module(net)
    queries = [service.prepare([[float(n), 0.0, 1.0]]) for n in range(3)]
    assert service.predict_batch is not None
    together = plain(service.predict_batch(queries))
    alone = [plain(service.predict(query)) for query in queries]
    assert [one[0] for one in together] == [pytest.approx(one[0]) for one in alone]


@pytest.mark.parametrize(
    ("query", "shape", "dtype"),
    [
        ([[1.0, 2.0]], (1, 2), torch.float32),
        ([1, 2, 3], (3,), torch.int64),
        ({"shape": [2, 3]}, (2, 3), torch.float32),
        ({"shape": [4], "dtype": "int64", "high": 9}, (4,), torch.int64),
        ({"values": [1, 2], "dtype": "float16"}, (2,), torch.float16),
    ],
)
def test_json_becomes_tensors(query: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    made = tensors(query)
    assert (tuple(made.shape), made.dtype) == (shape, dtype)
    again = tensors(query)
    assert torch.equal(made, again)


def test_keywords_positions_and_text() -> None:
    named = tensors({"input_ids": [[1, 2]], "mask": [[1.0]]})
    assert set(named) == {"input_ids", "mask"}
    first, second = tensors({"args": [[1.0], "text"]})
    assert (first.tolist(), second) == ([1.0], "text")
    with pytest.raises(NoService, match="the dtype 'float99'"):
        tensors({"shape": [1], "dtype": "float99"})


def test_the_example_that_came_with_a_module(net: Net) -> None:
    net.example_input_array = torch.rand(1, 3)
    service = of_module(net)
    assert tuple(service.predict(service.example).shape) == (1, 2)
