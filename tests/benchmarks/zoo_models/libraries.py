"""Models of Hugging Face's transformers, made from a configuration: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from data import digits, sentences, text
from torch import Tensor, nn
from torch.utils.data import DataLoader

SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def trained(model: nn.Module, training: Any, validation: Any, collate: Any, rate: float = 2e-3) -> dict[str, Any]:
    """The loss is the model's own, as in the library's examples."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)

    def step(batch: dict[str, Tensor]) -> Tensor:
        model.train()
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(batch: dict[str, Tensor]) -> dict[str, float]:
        model.eval()
        return {"loss": model(**batch).loss.item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "train_step": step,
        "evaluate_step": evaluate,
        "train_loader": DataLoader(training, 32, shuffle=True, collate_fn=collate),
        "validation_loader": DataLoader(validation, 64, collate_fn=collate),
    }


def _sentences(batch: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    tokens = nn.utils.rnn.pad_sequence([sample for sample, _ in batch], batch_first=True)
    return {
        "input_ids": tokens,
        "attention_mask": (tokens != 0).long(),
        "labels": torch.tensor([label for _, label in batch]),
    }


def bert() -> dict[str, Any]:
    config = transformers.BertConfig(vocab_size=50, max_position_embeddings=32, num_labels=2, **SMALL)
    made = sentences()
    return trained(transformers.BertForSequenceClassification(config), made[:1200], made[1200:], _sentences)


def distilbert() -> dict[str, Any]:
    config = transformers.DistilBertConfig(
        vocab_size=50, max_position_embeddings=32, dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=2
    )
    made = sentences()
    return trained(transformers.DistilBertForSequenceClassification(config), made[:1200], made[1200:], _sentences)


def _language(batch: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    tokens = torch.stack([before for before, _ in batch])
    return {"input_ids": tokens, "labels": tokens}


def gpt2() -> dict[str, Any]:
    training, validation, alphabet = text()
    config = transformers.GPT2Config(
        vocab_size=alphabet, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    return trained(transformers.GPT2LMHeadModel(config), training, validation, _language)


def llama() -> dict[str, Any]:
    training, validation, alphabet = text()
    config = transformers.LlamaConfig(
        vocab_size=alphabet, max_position_embeddings=32, num_key_value_heads=2, bos_token_id=0, eos_token_id=0, **SMALL
    )
    return trained(transformers.LlamaForCausalLM(config), training, validation, _language)


def t5() -> dict[str, Any]:
    from sequence import _reversed

    source, target = _reversed()
    config = transformers.T5Config(
        vocab_size=12,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=1,
        dropout_rate=0.0,
    )
    pairs = list(zip(source, target[:, 1:]))

    def collate(batch: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        return {"input_ids": torch.stack([s for s, _ in batch]), "labels": torch.stack([t for _, t in batch])}

    return trained(transformers.T5ForConditionalGeneration(config), pairs[:1200], pairs[1200:], collate, rate=3e-3)


def _pictures(batch: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    return {"pixel_values": torch.stack([i for i, _ in batch]), "labels": torch.stack([label for _, label in batch])}


def vit() -> dict[str, Any]:
    config = transformers.ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=10, **SMALL)
    return trained(transformers.ViTForImageClassification(config), *digits(), _pictures)


def convnextv2() -> dict[str, Any]:
    config = transformers.ConvNextV2Config(
        num_channels=1, patch_size=2, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, num_labels=10, image_size=8
    )
    return trained(transformers.ConvNextV2ForImageClassification(config), *digits(), _pictures)
