"""Which pretrained networks have dropout is read off their names: the configurations of transformers have to agree."""

from __future__ import annotations

import pytest

from mlcheck.lint.pytorch.pretrained import _DROPPING_CLASSES, _DROPPING_NAMES

auto = pytest.importorskip("transformers.models.auto")

# Weights on the hub, and the type of model that their configuration names.
DROPPING = {
    "bert-base-uncased": "bert",
    "allenai/scibert-scivocab-uncased": "bert",
    "distilbert-base-cased": "distilbert",
    "roberta-large": "roberta",
    "microsoft/codebert-base": "roberta",
    "xlm-roberta-base": "xlm-roberta",
    "camembert-base": "camembert",
    "openai-community/gpt2": "gpt2",
    "distilgpt2": "gpt2",
    "t5-small": "t5",
    "google/flan-t5-base": "t5",
    "google/mt5-small": "mt5",
    "facebook/bart-large-cnn": "bart",
    "facebook/mbart-large-50": "mbart",
    "google/electra-small-discriminator": "electra",
    "microsoft/deberta-v3-base": "deberta-v2",
    "google/pegasus-xsum": "pegasus",
    "allenai/longformer-base-4096": "longformer",
    "facebook/wav2vec2-base": "wav2vec2",
    "facebook/hubert-base-ls960": "hubert",
}
WITHOUT = {
    "albert-base-v2": "albert",
    "google/vit-base-patch16-224": "vit",
    "google/gemma-2b": "gemma",
    "meta-llama/Llama-2-7b-hf": "llama",
    "Qwen/Qwen2-7B": "qwen2",
    "mistralai/Mistral-7B-v0.1": "mistral",
}


def drops(model_type: str) -> bool:
    """Whether a network drops activations where its configuration is left as it is."""
    config = auto.CONFIG_MAPPING[model_type]().to_dict()
    rates = [value for key, value in config.items() if "drop" in key and "classifier" not in key]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


@pytest.mark.parametrize("weights", DROPPING)
def test_weights_whose_names_tell_of_dropout_have_it(weights: str) -> None:
    assert _DROPPING_NAMES.search(weights.lower())
    assert drops(DROPPING[weights])


@pytest.mark.parametrize("weights", WITHOUT)
def test_nothing_is_said_of_weights_without_dropout(weights: str) -> None:
    assert not _DROPPING_NAMES.search(weights.lower())
    assert not drops(WITHOUT[weights])


def test_classes_whose_names_tell_of_dropout_have_it() -> None:
    names = {kind: cls for kind, cls in auto.modeling_auto.MODEL_MAPPING_NAMES.items() if isinstance(cls, str)}
    told = {kind for kind, cls in names.items() if _DROPPING_CLASSES.match(cls)}
    assert len(told) > 30
    assert [kind for kind in sorted(told) if not drops(kind)] == []
