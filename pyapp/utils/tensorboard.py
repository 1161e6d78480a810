"""torch.utils.tensorboard's name: a log of numbers, histograms and pictures that TensorBoard shows."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine import Tensor
from ..engine.lazy import np
from ..formats.tfevents import EventWriter

__all__ = ["SummaryWriter"]


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


class SummaryWriter:
    """Writes an event file into `log_dir` (without one into runs/ and the time, then `comment`). What is added is in
    the file at once. `global_step` is the place on TensorBoard's axis; None is 0."""

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if purge_step is not None or filename_suffix:
            raise NotImplementedError("SummaryWriter: purge_step and filename_suffix are not there; use a new log_dir")
        self.log_dir = str(log_dir or Path("runs") / f"{time.strftime('%b%d_%H-%M-%S')}{comment}")
        self._files: dict[str, EventWriter] = {}
        self._writer()

    def _writer(self, folder: str = "") -> EventWriter:
        """The file of a folder inside the log's; it is made anew after `close`."""
        if folder not in self._files:
            self._files[folder] = EventWriter(Path(self.log_dir) / folder)
        return self._files[folder]

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """A number: a tensor or an array of one element, too."""
        value = _array(scalar_value)
        if value.size != 1:
            raise ValueError(f"add_scalar: {tag!r} has {value.size} numbers, not one")
        self._writer().write(global_step or 0, {tag: float(value.reshape(()))})

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, *_: Any
    ) -> None:  # fmt: skip
        """Several numbers in one drawing: each in a folder of its own, <main_tag>_<tag>, as torch does."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{tag}"
            self._writer(folder).write(global_step or 0, {main_tag: float(_array(value).reshape(()))})

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, *_: Any, **__: Any) -> None:
        """The distribution of the numbers in a tensor of any shape."""
        self._writer().write_histogram(global_step or 0, tag, _array(values))

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "CHW"
    ) -> None:  # fmt: skip
        """A picture: floats from 0 to 1, or uint8. `dataformats` orders its dims: CHW, HWC or HW."""
        self.add_images(tag, _array(img_tensor)[None], global_step, walltime, f"N{dataformats}")

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "NCHW"
    ) -> None:  # fmt: skip
        """Several pictures, of which the first three are written."""
        pictures, order = _array(img_tensor), dataformats.upper()
        if sorted(order) not in (sorted("NCHW"), sorted("NHW")) or pictures.ndim != len(order):
            raise ValueError(f"add_images: {dataformats!r:.20} does not order the dims of {pictures.shape}")
        if "C" not in order:
            pictures, order = pictures[..., None], order + "C"
        pictures = pictures.transpose([order.index(dim) for dim in "NHWC"])
        if pictures.shape[-1] not in (1, 3, 4):
            raise ValueError(f"add_images: a picture has 1, 3 or 4 channels, not {pictures.shape[-1]}")
        self._writer().write_pictures(global_step or 0, tag, pictures)

    def flush(self) -> None:
        """Has no effect: everything is in the files."""

    def close(self) -> None:
        """Ends the files. What is added later goes into new ones."""
        for writer in self._files.values():
            writer.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
