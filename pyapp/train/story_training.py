"""`pyapp train story`: from a grammar to a small language model that writes stories."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp import formats
from pyapp.engine import get_num_threads, instruction_set
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError, PyappError, StorageFullError
from pyapp.events import Cancel, Done, Event, Metric, Progress
from pyapp.formats.sink import open_sink
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn.layers import initialize_normal
from pyapp.text.tokenizer import Tokenizer
from pyapp.train.bpe import train_vocabulary
from pyapp.train.loader import StoryLoader, story_rows
from pyapp.train.loop import CHECKPOINT, Recipe, Trainer, nats, same_settings
from pyapp.train.ngram import TrigramModel
from pyapp.train.plot import loss_curve
from pyapp.train.stories import held_out_stories, story

VOCABULARY_STORIES = 4000
HELD_OUT = 400
GROUP = 32
"""int8 values that share a scale in model.bin: divides every row of the default model."""


@dataclass(frozen=True)
class StorySettings:
    """What decides the result, apart from the seed. The defaults made the embedded model."""

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
    held_out: int = field(default=HELD_OUT)

    def __post_init__(self) -> None:
        for name in ("steps", "rows", "held_out"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise OptionError(f"{name} must be from 1 to 10,000,000, not {getattr(self, name)}")
        if not 0 < self.rate <= 1:
            raise OptionError(f"rate must be above 0 and at most 1, not {self.rate}")
        if not 300 <= self.vocab_size <= 65536 or not 16 <= self.length <= 4096:
            raise OptionError("vocab_size must be from 300 to 65,536 and length from 16 to 4,096")

    def config(self) -> Config:
        return Config(
            self.dim, self.hidden_dim, self.n_layers, self.n_heads, self.n_kv_heads, self.vocab_size, self.length
        )

    def recipe(self) -> Recipe:
        return Recipe(self.steps, self.rows, self.rate, warmup=max(1, min(100, self.steps // 10)))


class StoryTraining:
    """A folder in which a story model is trained: the tokenizer, the checkpoint, and at the end the model."""

    def __init__(self, folder: Path, settings: StorySettings) -> None:
        self.folder = folder
        self.settings = settings
        self.checkpoint = folder / CHECKPOINT
        make_folder(folder)
        if self.checkpoint.exists():
            same_settings(self.checkpoint, "settings", asdict(settings))
        self.tokenizer = self._tokenizer()
        held_out = held_out_stories(settings.held_out)
        self.rows = list(story_rows(self.tokenizer, held_out, settings.length))
        self.bytes = sum(len(self.tokenizer.decode(row).encode()) for row in self.rows)
        model = Llama2c(settings.config(), initialize=False)
        initialize(model, Generator(settings.seed))
        loader = StoryLoader(self.tokenizer, settings.length, settings.seed, held_out)
        self.trainer = Trainer(model, loader, settings.recipe())
        if self.checkpoint.exists():
            self.trainer.restore(self.checkpoint)

    def _tokenizer(self) -> Tokenizer:
        """Trained on the first stories of the seed; the same each time, so an interruption costs nothing."""
        texts = (story(self.settings.seed, index) for index in range(VOCABULARY_STORIES))
        vocabulary = train_vocabulary(texts, self.settings.vocab_size)
        pieces = [piece.encode() for piece in vocabulary.pieces_in_file()]
        formats.write_tokenizer_bin(self.folder / "tokenizer.bin", pieces, vocabulary.scores())
        with open_sink(self.folder / "tokenizer.json") as file:
            file.write(vocabulary.to_json().encode())
        return Tokenizer.from_llama2c(pieces, vocabulary.scores())

    def save(self) -> None:
        self.trainer.save(self.checkpoint, {"settings": json.dumps(asdict(self.settings))})

    def held_out_loss(self, rows: int | None = None) -> float:
        """Nats per token over the first `rows` held-out stories (None: all)."""
        total, count = nats(self.trainer.model, self.rows[:rows])
        return total / count

    def export(self) -> None:
        """model.bin (int8 groups, llama2.c version 2) and model-f32.bin (version 1)."""
        model = self.trainer.model
        assert isinstance(model, Llama2c)
        tensors, config = model.export_tensors(), model.config.to_dict()
        formats.write_llama2c(self.folder / "model-f32.bin", config, tensors, version=1)
        formats.write_llama2c(self.folder / "model.bin", config, tensors, version=2, group_size=GROUP)

    def trigram(self) -> TrigramModel:
        """Of the very stories that the model has seen so far (it saw some of them only in part)."""
        loader = self.trainer.loader
        texts = (self.tokenizer.encode(story(self.settings.seed, index)) for index in range(loader.position))
        return TrigramModel(texts, self.settings.vocab_size)

    def results(self) -> dict[str, Any]:
        """Held-out losses in nats of the float32 model, of model.bin and of a trigram model, per token and per byte."""
        with formats.open_checkpoint(self.folder / "model.bin") as checkpoint:
            quantized = Llama2c.from_checkpoint(checkpoint)
        found = {"float32": nats(self.trainer.model, self.rows), "int8": nats(quantized, self.rows)}
        found["trigram"] = self.trigram().nats(row[:-1] for row in self.rows)
        losses = {
            name: {"nats_per_token": total / count, "nats_per_byte": total / self.bytes}
            for name, (total, count) in found.items()
        }
        model = self.trainer.model
        return {
            "held_out_losses": losses,
            "held_out_stories": len(self.rows),
            "held_out_tokens": found["float32"][1],
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "steps": self.trainer.step_count,
            "tokens": self.trainer.step_count * self.settings.rows * self.settings.length,
            "stories": self.trainer.loader.position,
            "size": (self.folder / "model.bin").stat().st_size,
            "folder": str(self.folder),
        }

    def curve(self, levels: dict[str, float]) -> None:
        """loss.png: the training loss (running mean of ten steps), the held-out loss, and horizontal levels."""
        losses = self.trainer.losses
        means = [sum(losses[max(0, i - 9) : i + 1]) / min(10, i + 1) for i in range(len(losses))]
        curves: dict[str, list[tuple[float, float]]] = {"training": [(i + 1.0, mean) for i, mean in enumerate(means)]}
        if self.trainer.held_out:
            curves["held out"] = [(float(step), loss) for step, loss in self.trainer.held_out]
        loss_curve(self.folder / "loss.png", curves, levels, "Loss of the story model")


def initialize(model: Llama2c, generator: Generator) -> None:
    """Normal weights with the deviations that GPT-2's 0.02 comes to at this width.

    GPT-2 is 768 wide. Narrower, 0.02 makes embeddings so short that a tied head can hardly tell names apart: it then
    takes thousands of steps until the model repeats the name that it began with.
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
        initialize_normal(parameter, deviation, generator)


def train_story(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 200,
    save_every: int = 200,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains in the folder `out`, or continues what was interrupted there; yields Progress, Metric and a last Done.

    `settings` are those of StorySettings. Leaves model.bin, model-f32.bin, tokenizer.bin, tokenizer.json, loss.png and
    the checkpoint. The same settings give the same weights, however often it was interrupted. Cancelling writes a
    checkpoint first. Raises OptionError, PyappError for other settings than those begun with, OSError or
    StorageFullError for a folder that cannot be written.
    """
    try:
        chosen = StorySettings(**settings)
    except TypeError as error:
        raise OptionError(f"unknown setting: {error}") from error
    cancel = cancel or Cancel()
    yield Progress("preparing the stories", 0, 1)
    training = StoryTraining(Path(out), chosen)
    yield from _train(training, evaluate_every, save_every, cancel)
    trainer = training.trainer
    if trainer.step_count < chosen.steps:
        yield Done(
            "cancelled", {"step": trainer.step_count, "folder": str(out), "resume": "run the same command again"}
        )
        return
    yield Progress("evaluating", 0, 1)
    training.export()
    results = training.results()
    losses = results["held_out_losses"]
    training.curve({"trigram, held out": losses["trigram"]["nats_per_token"]})
    for name, values in losses.items():
        yield Metric(f"held_out_loss_{name}", values["nats_per_token"], "nats/token", trainer.step_count)
    yield Done("complete", results)


def _train(training: StoryTraining, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
    """Steps until all are made or somebody cancels."""
    trainer, settings = training.trainer, training.settings
    start, first = time.perf_counter(), trainer.step_count
    yield Metric("threads", get_num_threads(), instruction_set())
    while trainer.step_count < settings.steps and not cancel.is_set():
        loss = trainer.step()
        step = trainer.step_count
        yield Progress("training", step, settings.steps, "steps")
        yield Metric("loss", loss, "nats/token", step)
        if step % evaluate_every == 0 or step == settings.steps:
            trainer.held_out.append((step, training.held_out_loss(48)))
            yield Metric("held_out_loss", trainer.held_out[-1][1], "nats/token", step)
        if step % 10 == 0:
            seconds = (time.perf_counter() - start) / (step - first)
            yield Metric("speed", settings.rows * settings.length / seconds, "tokens/s", step)
            yield Metric("time_left", seconds * (settings.steps - step), "s", step)
        if step % save_every == 0 or step == settings.steps:
            training.save()
    if trainer.step_count < settings.steps:
        training.save()


def make_folder(folder: Path) -> None:
    """Makes the folder and sees that it can be written to, before hours of work. PyappError, or StorageFullError."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"\0" * 4096)
        probe.unlink()
    except OSError as error:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                "the disk is full", where=str(folder), hint="Free some space, or take another folder"
            ) from error
        raise PyappError(
            f"cannot write to this folder: {(error.strerror or str(error)).lower()}", where=str(folder),
            hint="Take another folder, or change its access rights",
        ) from error  # fmt: skip
