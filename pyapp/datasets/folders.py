"""Folders of pictures, one folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError, ModelNotFoundError, OptionError
from pyapp.utils.data import Dataset

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
PIXEL_LIMIT = 1 << 28


def read_picture(path: str | os.PathLike[str], mode: str = "RGB") -> Tensor:
    """The pixels of a file as uint8 (C, H, W): C is 3 for "RGB", 1 for "L" (grey), 4 for "RGBA". Needs Pillow.

    FileFormatError for a damaged picture, or one of more than 2^28 pixels; ImportError without Pillow.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("pictures are read by Pillow, which is not installed: pip install pillow") from error
    channels = {"RGB": 3, "L": 1, "RGBA": 4}.get(mode)
    if channels is None:
        raise OptionError(f"read_picture: mode is 'RGB', 'L' or 'RGBA', not {mode!r}")
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            if width * height > PIXEL_LIMIT:
                raise FileFormatError(f"the picture has {width:,} x {height:,} pixels", where=str(path))
            data = picture.convert(mode).tobytes()
    except (UnidentifiedImageError, SyntaxError, Image.DecompressionBombError) as error:
        raise FileFormatError(f"this is not a picture that can be read ({error})", where=str(path)) from error
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileFormatError(f"the picture is damaged ({error})", where=str(path)) from error
    return Tensor.from_buffer(data, (height, width, channels), "uint8").permute(2, 0, 1).contiguous()


class ImageFolder(Dataset[tuple[Any, int]]):
    """Pictures in the folders of a folder, whose names are the classes: (picture uint8 (C, H, W), or what `transform`
    makes of it, and the class's number). Classes and files are in the order of their names; `samples` lists them.

    ModelNotFoundError if there is no folder with a picture.
    """

    def __init__(
        self, folder: str | os.PathLike[str], transform: Callable[[Tensor], Any] | None = None, mode: str = "RGB"
    ) -> None:
        self.folder, self.transform, self.mode = Path(folder), transform, mode
        if not self.folder.is_dir():
            raise ModelNotFoundError("there is no such folder", where=str(folder))
        self.classes = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted((self.folder / name).rglob("*"))
            if path.suffix.lower() in SUFFIXES and path.is_file()
        ]
        empty = [name for number, name in enumerate(self.classes) if all(number != k for _, k in self.samples)]
        if not self.samples or empty:
            what = f"the classes {', '.join(empty[:5])} have no pictures" if self.samples else "there is no picture"
            raise ModelNotFoundError(
                what, where=str(folder), hint=f"Each class is a folder with files ending in {', '.join(SUFFIXES)}"
            )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, number = self.samples[index]
        picture = read_picture(path, self.mode)
        return (picture if self.transform is None else self.transform(picture)), number
