"""Trains a model of pictures (ViT, ConvNeXt, Swin, ResNet …) further as a classifier, on a folder of folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.datasets.folders import ImageFolder
from pyapp.engine import Tensor
from pyapp.engine.ops.random import default_generator
from pyapp.errors import ArgumentError, FileFormatError
from pyapp.events import Event, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.loading.writing_folder import write_folder
from pyapp.nn import BatchNorm1d, BatchNorm2d
from pyapp.vision.reading import read_image

from .examples import digest_of
from .steps import Request
from .whole import LabelTraining, WholeSettings, labels_for

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


def finetune_pictures(request: Request) -> Iterator[Event]:
    """Trains a model of pictures further as a classifier, on a folder with a folder of pictures for each class, with
    the settings of WholeSettings: Progress, Metric and finally Done.
    """
    chosen = request.settings_as(WholeSettings)
    yield Progress("reading the pictures", 0, 1)
    pictures = ImageFolder(request.data)
    more = {"data": digest_of_folder(pictures)}
    yield Progress("loading the model", 0, 1)
    labels = labels_for(tuple(pictures.classes), read_settings(request.files["config"]), PictureTraining.task)
    default_generator.manual_seed(chosen.seed)  # of the new layers
    loaded = load_image_model(
        request.model, PictureTraining.task, dtype="float32", device=request.device, cancel=request.cancel,
        labels=labels,
    )  # fmt: skip
    held_out = None
    if request.held_out_data is not None:
        judged = ImageFolder(request.held_out_data)
        more["held_out_data"] = digest_of_folder(judged)
        held_out = rows_of(judged, labels)
    settings = request.settings_as(WholeSettings, **more)
    yield from PictureTraining.started(request, settings, loaded, rows_of(pictures, labels), held_out)


__all__ = ["finetune_pictures"]
