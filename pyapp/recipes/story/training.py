"""`pyapp train story`: trains a small language model on the stories of a grammar."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp import formats
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.device import Device, cpu
from pyapp.engine.ops.random import Generator
from pyapp.events import Cancel, Event, Metric
from pyapp.formats.sink import open_sink
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn.init import normal_
from pyapp.optim import AdamW
from pyapp.optim.lr_scheduler import LambdaLR, warmup_cosine
from pyapp.recipes.from_scratch import check_counts_and_rate, train_in
from pyapp.recipes.story.bpe import train_vocabulary
from pyapp.recipes.story.grammar.stories import held_out_stories, story
from pyapp.recipes.story.loader import StoryLoader, story_rows
from pyapp.recipes.story.trigram import TrigramModel
from pyapp.text.generation.options import check_number
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.train.resumable import ResumableTraining
from pyapp.train.token_rows import next_token_batch, token_loss, total_loss
from pyapp.train.trainer import Trainer, decay_groups

VOCABULARY_STORIES = 4000
JUDGED = 48  # held-out stories during training; all of them at the end
BATCH = 8  # held-out stories at a time
GROUP = 32
"""int8 values that share a scale in model.bin; it divides every row of the default model."""


@dataclass(frozen=True)
class StorySettings:
    """The settings that determine the result. The defaults made the embedded model.

    `rows` of `length` tokens make a batch. `held_out` counts the stories that judge the model.
    """

    steps: int = 20000
    seed: int = 1
    rows: int = 4
    rate: float = 1.5e-3
    dim: int = 128
    hidden_dim: int = 352
    n_layers: int = 5
    n_heads: int = 4
    n_kv_heads: int = 2
    vocab_size: int = 2048
    length: int = 288
    held_out: int = 400

    def __post_init__(self) -> None:
        check_counts_and_rate(self, "steps", "rows", "held_out")
        check_number("vocab_size", self.vocab_size, 300, 65536, whole=True)
        check_number("length", self.length, 16, 4096, whole=True)

    def config(self) -> Config:
        return Config(
            self.dim, self.hidden_dim, self.n_layers, self.n_heads, self.n_kv_heads, self.vocab_size, self.length
        )


class StoryTraining(ResumableTraining):
    """Trains a Llama2c in a folder, which gets the tokenizer, the checkpoint, and at the end the model."""

    title = "Loss of the story model"

    def __init__(self, folder: Path, settings: StorySettings, device: Device = cpu) -> None:
        super().__init__(folder, settings)
        self.tokenizer = self._tokenizer()
        held_out = held_out_stories(settings.held_out)
        self.rows = list(story_rows(self.tokenizer, held_out, settings.length))
        self.bytes = sum(len(self.tokenizer.decode(row).encode()) for row in self.rows)
        self.model = Llama2c(settings.config(), initialize=False)
        initialize(self.model, Generator(settings.seed))
        self.model.to(device)
        loader = StoryLoader(self.tokenizer, settings.length, settings.seed, held_out, rows=settings.rows)
        optimizer = AdamW(decay_groups(self.model, 0.1), lr=settings.rate, betas=(0.9, 0.99))
        warmup = max(1, min(100, settings.steps // 10))
        schedule = LambdaLR(optimizer, warmup_cosine(warmup, settings.steps, floor=0.05))
        self.trainer = Trainer(self.model, loader, next_token_loss, optimizer, schedule)

    def _tokenizer(self) -> Tokenizer:
        """Trained on the first stories of the seed: the same each time, so it needs no checkpoint."""
        texts = (story(self.settings.seed, index) for index in range(VOCABULARY_STORIES))
        vocabulary = train_vocabulary(texts, self.settings.vocab_size)
        pieces = [piece.encode() for piece in vocabulary.pieces_in_file()]
        formats.write_tokenizer_bin(self.folder / "tokenizer.bin", pieces, vocabulary.scores())
        with open_sink(self.folder / "tokenizer.json") as file:
            file.write(vocabulary.to_json().encode())
        return Tokenizer.from_llama2c(pieces, vocabulary.scores())

    def held_out_loss(self) -> float:
        total, count = nats(self.model, self.rows[:JUDGED])
        return total / count

    def export(self) -> None:
        """model.bin (int8 groups, llama2.c version 2) and model-f32.bin (version 1)."""
        tensors, config = self.model.export_tensors(), self.model.config.to_dict()
        formats.write_llama2c(self.folder / "model-f32.bin", config, tensors, version=1)
        formats.write_llama2c(self.folder / "model.bin", config, tensors, version=2, group_size=GROUP)

    def trigram(self) -> TrigramModel:
        """A trigram model of the stories that training has used so far (some of them only in part)."""
        texts = (self.tokenizer.encode(story(self.settings.seed, index)) for index in range(self._stories))
        return TrigramModel(texts, self.settings.vocab_size)

    @property
    def _stories(self) -> int:
        return self.trainer.batches.position

    def results(self) -> dict[str, Any]:
        """Held-out losses in nats of the float32 model, of model.bin and of a trigram model, per token and per byte."""
        with formats.open_checkpoint(self.folder / "model.bin") as checkpoint:
            quantized = Llama2c.from_checkpoint(checkpoint)
        found = {"float32": nats(self.model, self.rows), "int8": nats(quantized, self.rows)}
        found["trigram"] = self.trigram().nats(row[:-1] for row in self.rows)
        losses = {
            name: {"nats_per_token": total / count, "nats_per_byte": total / self.bytes}
            for name, (total, count) in found.items()
        }
        return {
            "held_out_losses": losses,
            "held_out_stories": len(self.rows),
            "held_out_tokens": found["float32"][1],
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "tokens": self.trainer.step_count * self._tokens_per_step,
            "stories": self._stories,
            "size": (self.folder / "model.bin").stat().st_size,
        }

    def levels(self, results: Mapping[str, Any]) -> Mapping[str, float]:
        return {"trigram, held out": results["held_out_losses"]["trigram"]["nats_per_token"]}

    def final_metrics(self, results: Mapping[str, Any]) -> Iterator[Metric]:
        for name, values in results["held_out_losses"].items():
            yield Metric(f"held_out_loss_{name}", values["nats_per_token"], "nats/token", self.trainer.step_count)

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        return steps_per_second * self._tokens_per_step, "tokens/s"

    @property
    def _tokens_per_step(self) -> int:
        return int(self.settings.rows * self.settings.length)


def next_token_loss(model: Llama2c, rows: list[list[int]]) -> tuple[Tensor, float]:
    """The mean loss in nats per token over rows of ids, as a tensor and as a number."""
    loss = _loss(model, *next_token_batch(rows))
    return loss, float(loss.item())


def _loss(model: Llama2c, inputs: Tensor, targets: Tensor) -> Tensor:
    """token_loss of a model on any device: inputs and targets (B, T) on the CPU."""
    return token_loss(model(inputs.to(model.device)), targets)


def nats(model: Llama2c, rows: list[list[int]]) -> tuple[float, int]:
    """(sum of -log p over all predicted tokens of `rows`, their number)."""

    def losses() -> Iterator[tuple[Tensor, int]]:
        for first in range(0, len(rows), BATCH):
            group = rows[first : first + BATCH]
            inputs, targets = next_token_batch(group)
            yield _loss(model, inputs, targets), sum(len(row) - 1 for row in group)

    return total_loss(losses())


def initialize(model: Llama2c, generator: Generator) -> None:
    """Fills the weights with normal numbers, whose deviations are GPT-2's 0.02 scaled to this width.

    GPT-2 is 768 wide. In a narrower model, 0.02 makes embeddings so short that a tied head can hardly tell names apart:
    the model then takes thousands of steps until it repeats the name that it began with.
    """
    config = model.config
    for name, parameter in model.named_parameters():
        if parameter.ndim != 2:
            continue
        deviation = 0.02 * sqrt(768 / parameter.shape[1])
        if name == "tok_embeddings.weight":
            deviation = 0.02 * 768 / config.dim
        elif name.endswith(("wo.weight", "w2.weight")):  # they add to the residual stream, 2 n_layers times
            deviation /= sqrt(2 * config.n_layers)
        normal_(parameter, 0.0, deviation, generator)


def train_story(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 200,
    save_every: int = 200,
    device: Device | str = cpu,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains on `device` in the folder `out`, or continues an interrupted run there; yields Progress, Metric and
    finally Done.

    `settings` are those of StorySettings. Leaves model.bin, model-f32.bin, tokenizer.bin, tokenizer.json, a checkpoint
    and, with Pillow, loss.png. The same settings give the same weights, however often it was interrupted. Cancelling
    saves a checkpoint first. Raises OptionError, PyappError for other settings than those begun with, FileFormatError
    for a damaged checkpoint, OSError or StorageFullError for a folder that cannot be written.
    """
    preparing = "preparing the stories"
    yield from train_in(
        out, StoryTraining, StorySettings, preparing, settings, evaluate_every, save_every, device, cancel
    )
