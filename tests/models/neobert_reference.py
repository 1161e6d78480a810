"""NeoBERT of torch's layers, by its paper (arXiv 2502.19587) and the names of its files: no library has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    """A layer."""

    def __init__(self, width: int, heads: int, inner: int, epsilon: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.ffn = nn.Module()
        self.ffn.w12 = nn.Linear(width, 2 * inner, bias=False)
        self.ffn.w3 = nn.Linear(inner, width, bias=False)
        self.attention_norm = nn.RMSNorm(width, epsilon)
        self.ffn_norm = nn.RMSNorm(width, epsilon)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.attention_norm(x)).view(batch, tokens, self.heads, -1).transpose(1, 2)
        q, k, v = parts.split(width // self.heads, -1)
        q, k = (
            torch.view_as_real(torch.view_as_complex(part.reshape(*part.shape[:-1], -1, 2)) * turns).flatten(-2)
            for part in (q, k)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.wo(y.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.ffn.w12(self.ffn_norm(x)).chunk(2, -1)
        return x + self.ffn.w3(nn.functional.silu(gate) * up)


class NeoBERT(nn.Module):
    """The encoder."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, heads, inner = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"]
        inner, epsilon = 8 * ((2 * inner // 3 + 7) // 8), config["norm_eps"]
        self.encoder = nn.Embedding(config["vocab_size"], width)
        layers = (Block(width, heads, inner, epsilon) for _ in range(config["num_hidden_layers"]))
        self.transformer_encoder = nn.ModuleList(layers)
        self.layer_norm = nn.RMSNorm(width, epsilon)
        self.size = width // heads

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        speeds = 10000.0 ** -(torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(input_ids.shape[1]).float(), speeds)
        x, turns = self.encoder(input_ids), torch.polar(torch.ones_like(angles), angles)
        for layer in self.transformer_encoder:
            x = layer(x, attention_mask[:, None, None].bool(), turns)
        return (self.layer_norm(x),)


class Headed(nn.Module):
    """The encoder with a head."""

    def __init__(self, config: dict[str, Any], task: str) -> None:
        super().__init__()
        self.model, self.task = NeoBERT(config), task
        if task == "masked-lm":
            self.decoder = nn.Linear(config["hidden_size"], config["vocab_size"])
        else:
            self.dense = nn.Linear(config["hidden_size"], config["hidden_size"])
            self.classifier = nn.Linear(config["hidden_size"], len(config["id2label"]))

    def forward(self, **given: torch.Tensor) -> tuple[torch.Tensor]:
        [x] = self.model(**given)
        if self.task == "masked-lm":
            return (self.decoder(x),)
        return (self.classifier(torch.tanh(self.dense(x[:, 0]))),)


def model_of(config: dict[str, Any], task: str) -> nn.Module:
    """The model for a task."""
    made = NeoBERT(config) if task == "features" else Headed(config, task)
    made.config = SimpleNamespace(num_attention_heads=config["num_attention_heads"])
    return made
