"""An ONNX file as a service, in onnxruntime itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlcheck.load.compare import plain
from mlcheck.load.onnx_file import load
from mlcheck.load.service import NoService, load_service

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WEIGHT = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], dtype=np.float32)


def saved(path: Path, first: str | int = "batch", two: bool = False) -> Path:
    """A model that multiplies `x` by WEIGHT, and adds `y` where it has two inputs."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product" if two else "out"])]
    nodes += [helper.make_node("Add", ["product", "y"], ["out"])] if two else []
    inputs = [helper.make_tensor_value_info("x", kind, [first, 3])]
    inputs += [helper.make_tensor_value_info("y", kind, [2])] if two else []
    outputs = [helper.make_tensor_value_info("out", kind, [first, 2])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))
    return path


def test_it_answers_as_its_arithmetic_says_and_names_what_runs_it(tmp_path: Path) -> None:
    service = load_service(str(saved(tmp_path / "m.onnx")))
    assert plain(service.predict(service.prepare([[1.0, 2.0, 3.0]]))) == [[7.0, -1.0]]
    assert "with CPUExecutionProvider" in service.notices[0]


def test_whole_numbers_are_what_the_model_declares(tmp_path: Path) -> None:
    service = load(saved(tmp_path / "m.onnx"))
    assert plain(service.predict(service.prepare([[1, 2, 3]]))) == [[7.0, -1.0]]


def test_queries_are_joined_where_the_first_dimension_is_free(tmp_path: Path) -> None:
    service = load(saved(tmp_path / "m.onnx"))
    queries = [service.prepare([[1.0, 2.0, 3.0]]), service.prepare([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])]
    assert service.predict_batch is not None
    assert plain(service.predict_batch(queries)) == [[[7.0, -1.0]], [[2.0, -1.0], [1.0, 0.0]]]
    assert load(saved(tmp_path / "fixed.onnx", first=1)).predict_batch is None


def test_inputs_by_name_and_by_place(tmp_path: Path) -> None:
    service = load(saved(tmp_path / "m.onnx", two=True))
    by_name = {"y": [10.0, 20.0], "x": [[1.0, 2.0, 3.0]]}
    by_place = {"args": [[[1.0, 2.0, 3.0]], [10.0, 20.0]]}
    for query in (by_name, by_place):
        assert plain(service.predict(service.prepare(query))) == [[17.0, 19.0]]
    with pytest.raises(NoService, match=r"the model takes x, y, and a query gives 1 input"):
        service.prepare([[1.0, 2.0, 3.0]])


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("no model", encoding="utf-8")
    with pytest.raises(NoService, match="is no ONNX model that onnxruntime can run"):
        load_service(str(tmp_path / "m.onnx"))
