"""Trains a model of pictures (ViT, ConvNeXt, Swin, ResNet …) further as a classifier, on a folder of folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor
from pyapp.errors import ArgumentError, FileFormatError
from pyapp.events import Event, Progress
from pyapp.models.loading.pictures import load_image_model
from pyapp.vision.reading import SUFFIXES, read_image

from .class_folders import Classified, FolderTraining
from .steps import Request
from .whole import WholeSettings

SHOWN = 3  # damaged pictures that an error names


class PictureTraining(FolderTraining):
    """Pictures and their labels."""

    task = "image-classification"
    unit = "nats/picture"
    kind, suffixes = "picture", SUFFIXES

    @classmethod
    def load(cls, request: Request, labels: Sequence[str]) -> Any:
        return load_image_model(
            request.model, cls.task, dtype="float32", device=request.device, cancel=request.cancel, labels=labels
        )

    @classmethod
    def check(cls, loaded: Any, rows: Sequence[Classified], request: Request) -> Iterator[Event]:
        """Reads each picture once. FileFormatError names those that are damaged."""
        damaged: list[FileFormatError] = []
        paths = dict.fromkeys(row.path for row in rows)
        for done, path in enumerate(paths, 1):
            request.cancel.check()
            try:
                _read(path)
            except FileFormatError as error:
                damaged.append(error)
            yield Progress("reading the pictures", done, len(paths), "pictures")
        if len(damaged) > 1:
            shown = "; ".join(f"{error.where} ({error.what})" for error in damaged[:SHOWN])
            more = f" and {len(damaged) - SHOWN:,} more" if len(damaged) > SHOWN else ""
            raise FileFormatError(
                f"{len(damaged):,} of {len(paths):,} pictures cannot be read: {shown}{more}", where=str(request.data),
                hint="Take them out of the folder, or copy them again",
            )  # fmt: skip
        if damaged:
            raise damaged[0]

    def outputs(self, model: Any, rows: Sequence[Classified]) -> tuple[Tensor, ...]:
        """Logits (B, labels)."""
        pixels = self.loaded.processor([_read(row.path) for row in rows], self.model.device).pixel_values
        with self.region():
            found: Tensor = model(pixels)  # (B, 3, H, W) → (B, labels)
        return (found.float(),)


def _read(path: Path) -> Tensor:
    """The pixels of a file, uint8 (H, W, 3). FileFormatError names a file that is not a picture."""
    try:
        return read_image(path)
    except ArgumentError as error:
        raise FileFormatError(error.what, where=str(path), hint=error.hint) from error


def finetune_pictures(request: Request) -> Iterator[Event]:
    """FolderTraining.finetune of pictures, with the settings of WholeSettings."""
    return PictureTraining.finetune(request, WholeSettings)


__all__ = ["finetune_pictures"]
