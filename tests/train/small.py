"""A small training that many tests use: a model that learns to count."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyapp import nn
from pyapp.engine import Tensor
from pyapp.engine.ops.random import Generator
from pyapp.nn.init import normal_
from pyapp.optim import AdamW
from pyapp.optim.lr_scheduler import LambdaLR, warmup_cosine
from pyapp.train.token_rows import next_token_batch, token_loss
from pyapp.train.trainer import Trainer, decay_groups

VOCABULARY, LENGTH = 40, 24


class Counting:
    """Rows that count upwards from a random start: a rule that can be learnt."""

    def __init__(self) -> None:
        self.position = 0

    def batch(self) -> list[list[int]]:
        found = []
        for _ in range(4):
            start = int(np.random.default_rng(self.position).integers(2, 38))
            found.append([2 + (start + i) % 38 for i in range(LENGTH + 1)])
            self.position += 1
        return found


class Net(nn.Module):
    """An embedding, a normalised hidden layer and a head: (B, T) ids -> (B, T, VOCABULARY) logits."""

    def __init__(self, generator: Generator, width: int = 32, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.hidden = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(2 * width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * width, VOCABULARY, bias=False)
        for parameter in (self.embedding.weight, self.hidden.weight, self.head.weight):
            normal_(parameter, 0.0, 0.05, generator)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.dropout(self.norm(self.hidden(self.embedding(ids)))))


def loss(model: Net, rows: list[list[int]]) -> tuple[Tensor, float]:
    inputs, targets = next_token_batch(rows)
    value = token_loss(model(inputs), targets)
    return value, float(value.item())


def small_trainer(steps: int = 60, seed: int = 7, clip: float | None = 1.0, **settings: Any) -> Trainer:
    model = Net(Generator(seed), **settings)
    optimizer = AdamW(decay_groups(model, 0.1), lr=1e-2, betas=(0.9, 0.99))
    schedule = LambdaLR(optimizer, warmup_cosine(5, steps, 0.05))
    return Trainer(model, Counting(), loss, optimizer, schedule, clip=clip)


def weights(trainer: Trainer) -> bytes:
    return b"".join(p.detach().numpy().tobytes() for p in trainer.model.parameters())
