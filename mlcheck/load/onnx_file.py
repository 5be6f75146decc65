"""An ONNX file as a service: it runs in onnxruntime, with as many threads as the worker was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mlcheck.load.exported import tensors
from mlcheck.load.service import NoService, Service

# The first of these that is there. TensorRT is left out: it compiles for minutes when a session begins.
_PROVIDERS = ("CUDAExecutionProvider", "ROCMExecutionProvider", "CPUExecutionProvider")
_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


def load(path: Path) -> Service:
    """A service of the model's inputs by name or place. Raises NoService without onnxruntime or for a bad file."""
    try:
        import onnxruntime
    except ImportError:
        raise NoService(f"{path}: to run an ONNX file, install onnxruntime: pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    here = [name for name in _PROVIDERS if name in onnxruntime.get_available_providers()]
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=here)
    except Exception as error:
        raise NoService(f"{path} is no ONNX model that onnxruntime can run: {str(error)[:160]}") from error
    model = _Model(session)
    told = f"onnxruntime {onnxruntime.__version__} runs the model with {session.get_providers()[0]}"
    return Service(model.predict, model.prepare, model.predict_batch if model.joins else None, [told])


class _Model:
    """`joins`: one input whose first dimension is free, so that queries can be joined along it."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs = {entry.name: entry for entry in session.get_inputs()}
        first = next(iter(self._inputs.values()), None)
        free = first is not None and bool(first.shape) and not isinstance(first.shape[0], int)
        self.joins = free and len(self._inputs) == len(session.get_outputs()) == 1

    def prepare(self, query: Any) -> dict[str, Any]:
        made = tensors(query)
        if not isinstance(made, dict):
            places = made if isinstance(made, tuple) else (made,)
            if len(places) != len(self._inputs):
                raise NoService(f"the model takes {', '.join(self._inputs)}, and a query gives {len(places)} input(s)")
            made = dict(zip(self._inputs, places))
        return {name: self._array(name, value) for name, value in made.items()}

    def _array(self, name: str, value: Any) -> Any:
        """Whole numbers of JSON become what the model declares where that is a float."""
        array = value.numpy() if isinstance(value, torch.Tensor) else value
        declared = _FLOATS.get(self._inputs[name].type) if name in self._inputs else None
        whole = isinstance(array, np.ndarray) and (array.dtype.kind in "iu" or array.dtype == np.float32)
        return array.astype(declared) if declared is not None and whole else array

    def predict(self, query: dict[str, Any]) -> Any:
        answers = self._session.run(None, query)
        return answers[0] if len(answers) == 1 else answers

    def predict_batch(self, queries: list[dict[str, Any]]) -> Sequence[Any]:
        (name,) = self._inputs
        ends = np.cumsum([len(query[name]) for query in queries])
        joined = self.predict({name: np.concatenate([query[name] for query in queries])})
        return np.split(joined, ends[:-1])
