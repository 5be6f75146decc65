"""Whether an answer is the one that was expected, and where it first differs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mlcheck.core.digest import digest

# The defaults of torch.testing.assert_close for float32.
RTOL, ATOL = 1.3e-6, 1e-5


def plain(value: Any) -> Any:
    """An answer as nested lists, dicts, numbers and text: tensors as lists, bytes as their length and hash."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex() if len(value) <= 64 else {"bytes": len(value), "hash": digest(bytes(value))[:16]}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in (sorted(value, key=repr) if isinstance(value, set | frozenset) else value)]
    if hasattr(value, "detach"):  # a tensor: float() because numpy and JSON know no bfloat16
        value = value.detach().cpu()
        return plain((value.float() if value.is_floating_point() else value).tolist())
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "__dict__") and vars(value):
        return {str(key): plain(entry) for key, entry in vars(value).items() if not key.startswith("_")}
    return repr(value)


def without(value: Any, names: Sequence[str]) -> Any:
    """A plain answer less the fields of these names, wherever they stand."""
    if isinstance(value, dict):
        return {key: without(entry, names) for key, entry in value.items() if key not in names}
    return [without(entry, names) for entry in value] if isinstance(value, list) else value


def difference(answer: Any, expected: Any, rtol: float = RTOL, atol: float = ATOL, path: str = "answer") -> str:
    """Where two plain values first differ, as a sentence; empty when they are equal. NaN equals NaN."""
    if isinstance(answer, dict) and isinstance(expected, dict):
        if missing := [key for key in expected if key not in answer]:
            return f"{path} has no `{missing[0]}`"
        if extra := [key for key in answer if key not in expected]:
            return f"{path} has an unexpected `{extra[0]}`"
        pairs = [(answer[key], expected[key], f"{path}.{key}") for key in expected]
    elif isinstance(answer, list) and isinstance(expected, list):
        if len(answer) != len(expected):
            return f"{path} has {len(answer)} entries, expected {len(expected)}"
        pairs = [(one, other, f"{path}[{i}]") for i, (one, other) in enumerate(zip(answer, expected, strict=True))]
    else:
        return "" if _equal(answer, expected, rtol, atol) else f"{path} is {shown(answer)}, expected {shown(expected)}"
    for one, other, place in pairs:
        if told := difference(one, other, rtol, atol, place):
            return told
    return ""


def _equal(one: Any, other: Any, rtol: float, atol: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or not (_number(one) and _number(other)):
        return type(one) is type(other) and bool(one == other)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return bool(one == other) or abs(one - other) <= atol + rtol * abs(other)


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


def judge(answer: Any, case: Mapping[str, Any]) -> str:
    """What is wrong with a plain `answer` to a golden case, as a sentence; empty when it passes."""
    expected, how = case["expect"], case.get("compare", "json")
    rtol, atol = float(case.get("rtol", RTOL)), float(case.get("atol", ATOL))
    if how == "exact":
        return difference(answer, expected, 0.0, 0.0)
    if how in {"json", "allclose"}:
        return difference(answer, expected, rtol, atol)
    if how == "regex":
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return "" if re.search(expected, text) else f"the answer {shown(answer)} does not match {expected!r}"
    wanted = expected["label"] if isinstance(expected, Mapping) and "label" in expected else expected
    if how == "label":
        label = label_of(answer)
        return "" if label == wanted else f"the label is {shown(label)}, expected {shown(wanted)}"
    k = int(case.get("k", 5))
    ranked = ranking(answer)[:k]
    return "" if wanted in ranked else f"{shown(wanted)} is not among the first {k}: {shown(ranked)}"


def label_of(answer: Any) -> Any:
    """The class an answer names: itself, its `label`, or the place of the highest score. None where there is none."""
    if isinstance(answer, Mapping):
        for key in ("label", "class", "prediction"):
            if key in answer:
                return label_of(answer[key])
    if answer is None or isinstance(answer, str | bool | int):
        return answer
    if isinstance(answer, float):
        return int(answer) if answer == int(answer) else None
    ranked = ranking(answer)
    return ranked[0] if ranked else None


def ranking(answer: Any) -> list[Any]:
    """Labels from the best to the worst: of a list of scores their places, of label: score pairs the labels."""
    if isinstance(answer, Mapping):
        for key in ("scores", "probabilities", "logits", "predictions"):
            if key in answer:
                return ranking(answer[key])
        if answer and all(_number(score) for score in answer.values()):
            return sorted(answer, key=lambda name: -answer[name])
        return []
    if isinstance(answer, Sequence) and not isinstance(answer, str) and answer:
        if len(answer) == 1 and isinstance(answer[0], list):  # a batch of one
            return ranking(answer[0])
        if all(_number(score) for score in answer):
            return sorted(range(len(answer)), key=lambda place: -answer[place])
        if all(isinstance(entry, Mapping) and "label" in entry for entry in answer):
            return [entry["label"] for entry in answer]
        if all(isinstance(entry, str) for entry in answer):
            return list(answer)
    return []


def not_finite(answer: Any, path: str = "answer") -> str:
    """The place of the first NaN or infinity in a plain answer; empty when all numbers are finite."""
    if isinstance(answer, float):
        return "" if math.isfinite(answer) else path
    if isinstance(answer, Mapping):
        entries = [(entry, f"{path}.{key}") for key, entry in answer.items()]
    elif isinstance(answer, list):
        entries = [(entry, f"{path}[{i}]") for i, entry in enumerate(answer)]
    else:
        return ""
    return next((place for entry, name in entries if (place := not_finite(entry, name))), "")
