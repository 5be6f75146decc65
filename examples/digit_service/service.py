"""Reads handwritten digits: what a web server would call for each query.

mlcheck load service:DigitService --queries random.jsonl --golden golden.jsonl --labelled labelled.jsonl --slo slo.toml
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn


class DigitService:
    """A query is {"pixels": [64 numbers from 0 to 16]}; the answer names the digit and how sure the model is."""

    def load(self) -> None:
        weights = json.loads((Path(__file__).parent / "weights.json").read_text(encoding="utf-8"))
        self.model = nn.Linear(64, 10)
        self.model.load_state_dict(
            {"weight": torch.tensor(weights["weight"]), "bias": torch.tensor(weights["bias"]).flatten()}
        )
        self.model.eval()

    def predict(self, query: dict[str, Any]) -> dict[str, Any]:
        return self.predict_batch([query])[0]

    def predict_batch(self, queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        images = torch.stack([self._image(query) for query in queries])
        with torch.inference_mode():
            probabilities = self.model(images / 16).softmax(dim=-1)
        return [{"label": int(row.argmax()), "probability": float(row.max())} for row in probabilities]

    def _image(self, query: dict[str, Any]) -> torch.Tensor:
        pixels = query.get("pixels") if isinstance(query, dict) else None
        if not isinstance(pixels, list) or len(pixels) != 64:
            raise ValueError("a query must have `pixels`, a list of 64 numbers")
        image = torch.tensor(pixels, dtype=torch.float32)
        if not bool(((image >= 0) & (image <= 16)).all()):
            raise ValueError("every pixel must be a number from 0 to 16")
        return image
