"""Folders of pictures and other files, one folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelNotFoundError
from pyapp.utils.data import Dataset
from pyapp.vision.reading import SUFFIXES, read_image


def read_picture(path: str | os.PathLike[str], mode: str = "RGB") -> Tensor:
    """The pixels of a file as uint8 (C, H, W): as `pyapp.vision.read_image`, with the channels first, as layers take
    them.
    """
    return read_image(path, mode).permute(2, 0, 1).contiguous()


class ClassFolder(Dataset[tuple[Any, int]]):
    """Files in the folders of a folder, whose names are the classes: (path, the class's number). Classes and files are
    in the order of their names; `samples` lists them. `suffixes`: of the files, in small letters; `kind`: what they
    are, for errors.

    ModelNotFoundError if there is no folder with such a file.
    """

    def __init__(self, folder: str | os.PathLike[str], suffixes: Sequence[str], kind: str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ModelNotFoundError("there is no such folder", where=str(folder))
        self.classes = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted((self.folder / name).rglob("*"))
            if path.suffix.lower() in suffixes and path.is_file()
        ]
        empty = [name for number, name in enumerate(self.classes) if all(number != k for _, k in self.samples)]
        if not self.samples or empty:
            what = f"the classes {', '.join(empty[:5])} have no {kind}s" if self.samples else f"there is no {kind}"
            raise ModelNotFoundError(
                what, where=str(folder), hint=f"Each class is a folder with files ending in {', '.join(suffixes)}"
            )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.samples[index]


class ImageFolder(ClassFolder):
    """Pictures in the folders of a folder: (picture uint8 (C, H, W), or what `transform` makes of it, and the class's
    number)."""

    def __init__(
        self, folder: str | os.PathLike[str], transform: Callable[[Tensor], Any] | None = None, mode: str = "RGB"
    ) -> None:
        super().__init__(folder, SUFFIXES, "picture")
        self.transform, self.mode = transform, mode

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, number = self.samples[index]
        picture = read_picture(path, self.mode)
        return (picture if self.transform is None else self.transform(picture)), number
