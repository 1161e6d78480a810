"""Trains a model of pictures (ViT, ConvNeXt, Swin, ResNet …) further as a classifier, on a folder of folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.datasets.folders import ImageFolder
from pyapp.engine import Tensor
from pyapp.engine.ops.random import default_generator
from pyapp.errors import ArgumentError, FileFormatError
from pyapp.events import Cancel, Event, Notice, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.loading.writing_folder import write_folder
from pyapp.nn import BatchNorm1d, BatchNorm2d
from pyapp.train.resumable import settings_of
from pyapp.vision.reading import read_image

from .examples import digest_of
from .steps import TOO_FEW, divided
from .whole import MOST_HELD_OUT, LabelTraining, WholeSettings, labels_for

PROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True, eq=False)
class Picture:
    """A file, and the number of its label."""

    path: Path
    target: int


class PictureTraining(LabelTraining):
    """Pictures and their labels. The statistics of batch norms stay as they are: batches are small."""

    task = "image-classification"
    unit = "nats/picture"

    def outputs(self, model: Any, rows: Sequence[Picture]) -> tuple[Tensor, ...]:
        """Logits (B, labels)."""
        pixels = self.loaded.processor([_read(row.path) for row in rows], self.model.device).pixel_values
        with self.region():
            found: Tensor = model(pixels)  # (B, 3, H, W) → (B, labels)
        return (found.float(),)

    def to_training(self) -> None:
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, BatchNorm1d | BatchNorm2d):
                module.eval()

    def export(self) -> None:
        """Writes the model's folder."""
        beside = {PROCESSOR: self.files["preprocessor_config"]} if "preprocessor_config" in self.files else {}
        write_folder(self.model, self.config(), beside, self.folder)


def _read(path: Path) -> Tensor:
    """The pixels of a file, uint8 (H, W, 3). FileFormatError names a file that is no picture."""
    try:
        return read_image(path)
    except ArgumentError as error:
        raise FileFormatError(error.what, where=str(path), hint=error.hint) from error


def digest_of_folder(pictures: ImageFolder) -> str:
    """The SHA-256 of the pictures' paths and bytes."""
    found = sha256()
    for path, _ in pictures.samples:
        found.update(f"{path.relative_to(pictures.folder).as_posix()} {digest_of(path)}\n".encode())
    return found.hexdigest()


def rows_of(pictures: ImageFolder, labels: Sequence[str]) -> list[Picture]:
    """The pictures with the numbers of their labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = next((name for name in pictures.classes if name not in numbers), None)
    if unknown is not None:
        raise FileFormatError(f"the class {unknown!r:.60} is not among those to train on", where=str(pictures.folder))
    return [Picture(path, numbers[pictures.classes[number]]) for path, number in pictures.samples]


def finetune_pictures(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    held_out_data: str | os.PathLike[str] | None = None,
    evaluate_every: int | None = None,
    save_every: int = 100,
    device: str | None = None,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains a model of pictures further as a classifier, on a folder with a folder of pictures for each class, in the
    folder `out`, or continues an interrupted run there: Progress, Metric and finally Done.

    `settings` are those of WholeSettings. Leaves the model's folder, a checkpoint and, with Pillow, loss.png. Errors as
    those of finetune.
    """
    cancel = cancel or Cancel()
    given = {"model": os.fspath(model), "data": "", **settings}
    chosen = settings_of(WholeSettings, given)
    yield Progress("reading the pictures", 0, 1)
    pictures = ImageFolder(data)
    given["data"] = digest_of_folder(pictures)
    yield Progress("loading the model", 0, 1)
    files: Mapping[str, Path] = hub.resolve(model, cancel=cancel).files
    labels = labels_for(tuple(pictures.classes), read_settings(files["config"]), PictureTraining.task)
    default_generator.manual_seed(chosen.seed)  # of the new layers
    loaded = load_image_model(
        model, PictureTraining.task, dtype="float32", device=device, cancel=cancel, labels=labels
    )  # fmt: skip
    rows = rows_of(pictures, labels)
    if held_out_data is None:
        rows, held_out = divided(rows, chosen.held_out, chosen.seed, MOST_HELD_OUT)
    else:
        judged = ImageFolder(held_out_data)
        given["held_out_data"] = digest_of_folder(judged)
        held_out = rows_of(judged, labels)
    given["rows"] = min(chosen.rows, len(rows))
    if not chosen.steps:
        given["steps"] = max(1, round(len(rows) / (given["rows"] * chosen.accumulate) * chosen.epochs))
    if not held_out:
        yield Notice(TOO_FEW, hint="Give more, or a folder of their own: --eval")
    training = PictureTraining(Path(out), settings_of(WholeSettings, given), loaded, files, rows, held_out)
    yield from training.run(evaluate_every or max(1, training.settings.steps // 10), save_every, cancel)


__all__ = ["finetune_pictures"]
