"""`pyapp train reader`: trains a small reader of printed lines, drawn with the fonts of Debian's packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.device import Device, cpu
from pyapp.engine.ops.random import Generator
from pyapp.events import Cancel, Event, Metric
from pyapp.models.ctc_reader import Config, CtcReader
from pyapp.nn.init import normal_
from pyapp.optim import AdamW
from pyapp.optim.lr_scheduler import LambdaLR, warmup_cosine
from pyapp.recipes.error_rates import error_rate
from pyapp.recipes.from_scratch import check_counts_and_rate, train_in
from pyapp.recipes.prepared_batches import Stage
from pyapp.recipes.reader.drawing import Print
from pyapp.recipes.reader.evaluation import CONDITIONS, read_lines, test_lines
from pyapp.recipes.reader.export import export
from pyapp.recipes.reader.language import LANGUAGE_FILE, write_language
from pyapp.recipes.reader.loader import LineLoader, Lines, batched
from pyapp.recipes.reader.texts import ALPHABET
from pyapp.recipes.spelling import spelling_loss
from pyapp.text.generation.character_model import read_character_model
from pyapp.text.generation.ctc import TextSearch
from pyapp.text.generation.options import check_number
from pyapp.train.resumable import ResumableTraining
from pyapp.train.trainer import Trainer, decay_groups

# The fraction of all steps at which a stage begins, and how its lines are printed: short and clean ones first.
STAGES = (
    (0.0, Print(longest=10, defects=0.0)),
    (0.03, Print(longest=20, defects=0.5)),
    (0.08, Print()),
)
BATCH = 8  # held-out lines at a time


@dataclass(frozen=True)
class ReaderSettings:
    """The settings that determine the result. The embedded model was made with these.

    `rows` lines make a batch. `held_out` counts the lines of each condition that judge the model, `language_lines` the
    texts of which the model of characters is made.
    """

    steps: int = 13000
    seed: int = 1
    rows: int = 16
    rate: float = 2e-3
    width: int = 192
    layers: int = 4
    held_out: int = 128
    language_lines: int = 300_000

    def __post_init__(self) -> None:
        check_counts_and_rate(self, "steps", "rows", "held_out", "language_lines")
        check_number("width", self.width, 8, 4096, whole=True)
        check_number("layers", self.layers, 1, 64, whole=True)

    def config(self) -> Config:
        return Config(ALPHABET, width=self.width, layers=self.layers, normalized=True)

    def stages(self) -> list[Stage[Print]]:
        return [Stage(round(share * self.steps), how) for share, how in STAGES]


class ReaderTraining(ResumableTraining):
    """Trains a CtcReader in a folder, which gets the checkpoint, and at the end the model."""

    title = "Loss of the reader"
    smoothing = 25

    def __init__(self, folder: Path, settings: ReaderSettings, device: Device = cpu) -> None:
        super().__init__(folder, settings)
        self.model = CtcReader(settings.config())
        initialize(self.model, Generator(settings.seed))
        self.model.to(device)
        self.loader = LineLoader(settings.seed, settings.rows, self.model.config.height, settings.stages())
        optimizer = AdamW(decay_groups(self.model, 0.02), lr=settings.rate, betas=(0.9, 0.98))
        schedule = LambdaLR(optimizer, warmup_cosine(max(1, min(200, settings.steps // 10)), settings.steps, 0.01))
        self.trainer = Trainer(
            self.model, self.loader, batch_loss, optimizer, schedule, clip=5.0, subnormals_are_zero=True
        )
        self.lines = {condition.name: test_lines(condition, settings.held_out) for condition in CONDITIONS}

    def held_out_loss(self) -> float:
        """Nats per character over lines in fonts that training has not seen."""
        total = count = 0.0
        self.model.eval()
        with no_grad():
            for lines in self.lines.values():
                for first in range(0, len(lines), BATCH):
                    batch = batched(lines[first : first + BATCH], self.model.config.height)
                    characters = sum(map(len, batch.labels))
                    total += batch_loss(self.model, batch)[1] * characters
                    count += characters
        self.model.train()
        return total / count

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        for name, error in self.errors().items():
            yield Metric(f"character_error_{name}", error, "", self.trainer.step_count)

    def errors(self, search: TextSearch | None = None) -> dict[str, float]:
        """The character error rate on the held-out lines of each condition."""
        self.model.eval()
        found = {
            name: error_rate([line.text for line in lines], read_lines(self.model, lines, search))
            for name, lines in self.lines.items()
        }
        self.model.train()
        return found

    def export(self) -> None:
        export(self.folder, self.model)
        write_language(self.folder, self.settings.seed, self.settings.language_lines)

    def results(self) -> dict[str, Any]:
        search = TextSearch(self.model.config.alphabet, read_character_model(self.folder / LANGUAGE_FILE))
        return {
            "held_out_loss": self.trainer.held_out[-1][1],
            "character_errors": self.errors(search),
            "parameters": sum(parameter.numel() for parameter in self.model.folded().parameters()),
            "lines": self.trainer.step_count * self.settings.rows,
            "size": sum((self.folder / name).stat().st_size for name in ("model.safetensors", LANGUAGE_FILE)),
        }

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        return steps_per_second * self.settings.rows, "lines/s"

    def close(self) -> None:
        """Ends the processes that draw lines."""
        self.loader.close()


def batch_loss(model: CtcReader, batch: Lines) -> tuple[Tensor, float]:
    """The loss in nats per character, as a tensor and as a number."""
    scores = ops.log_softmax(model(ops.from_numpy(batch.pixels).to(model.device)), -1)  # (B, T, classes)
    loss = spelling_loss(scores, batch.labels, [scores.shape[1]] * len(batch.labels))
    return loss, float(loss.item())


def initialize(model: CtcReader, generator: Generator) -> None:
    """Normal numbers of He's deviation for ReLU (2015, arXiv 1502.01852); what is added to the line begins small."""
    for name, parameter in model.named_parameters():
        if parameter.ndim < 3:
            continue
        inputs = parameter.numel() // parameter.shape[0]
        deviation = sqrt(2 / inputs)
        if name.endswith("down.weight"):
            deviation /= sqrt(2 * model.config.layers)
        elif name == "head.weight":
            deviation = 0.5 / sqrt(inputs)
        normal_(parameter, 0.0, deviation, generator)
    with no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 and name.endswith("bias"):
                parameter.zero_()


def train_reader(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 500,
    save_every: int = 200,
    device: Device | str = cpu,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains on `device` in the folder `out`, or continues an interrupted run there; yields Progress, Metric and
    finally Done.

    `settings` are those of ReaderSettings. Leaves model.safetensors, config.json, loss.png and a checkpoint. The same
    settings give the same weights with the same fonts, however often it was interrupted. Cancelling saves a checkpoint
    first. Raises OptionError, PyappError without fontconfig, fonts, word lists or Pillow or for other settings than
    those begun with, FileFormatError for a damaged checkpoint, OSError or StorageFullError for a folder that cannot be
    written.
    """
    preparing = "preparing the fonts"
    yield from train_in(
        out, ReaderTraining, ReaderSettings, preparing, settings, evaluate_every, save_every, device, cancel
    )
