"""The common parts of models that see videos. Videos are pixel_values (B, frames, 3, H, W), as an image processor
prepares their frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor
from ...engine.user_errors import describe
from ...errors import InputError
from ..encoders.encoders import first_token
from ..layers.convolution import Conv3d
from ..layers.linear import Linear
from ..module import Module
from .vision import ImageModel


class VideoModel(ImageModel):
    """A model of videos; `config` has `num_channels`. `frames` is the number of frames that it sees."""

    @property
    def frames(self) -> int:
        """The frames of a video."""
        found: int = self.config.num_frames
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.image_size
        return found

    def check(self, x: Tensor) -> None:
        """InputError for videos that are not (B, frames, C, H, W) of the model's sizes."""
        wanted = (self.frames, self.config.num_channels, *self.pixels)
        if x.ndim != 5 or x.shape[0] < 1 or tuple(x.shape[1:]) != wanted:
            form = ", ".join(map(str, wanted))
            raise InputError(f"{type(self).__name__}: videos are (B, {form}), not {describe(x)}")


class TubeEmbeddings(Module):
    """Boxes of pixels of several frames, each as one vector; `name`: of the filter in files."""

    def __init__(
        self, channels: int, width: int, frames: int, patch: tuple[int, int], name: str = "projection"
    ) -> None:  # fmt: skip
        super().__init__()
        self.name = name
        self.add_module(name, Conv3d(channels, width, (frames, *patch), stride=(frames, *patch)))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, frames, C, H, W) → (B, tubes, width): those of the first frames row by row, then those that follow."""
        project: Any = self._modules[self.name]
        y = project(x.transpose(1, 2))  # (B, width, T, rows, columns)
        return y.reshape(y.shape[0], y.shape[1], y.shape[2] * y.shape[3] * y.shape[4]).transpose(1, 2)


class VideoHead(VideoModel):
    """An encoder of videos under `name`, and a head: `read` makes the features (B, F) of the encoder's output, after
    `norm` if there is one (of this name in files), the layer `classifier` the logits of the labels.
    """

    def __init__(
        self, name: str, encoder: VideoModel, features: int, labels: int,
        read: Callable[[Tensor], Tensor] = first_token, norm: tuple[str, Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.name, self.config, self.read = name, encoder.config, read
        self.add_module(name, encoder)
        self.norm_name = None if norm is None else norm[0]
        if norm is not None:
            self.add_module(*norm)
        self.classifier = Linear(features, labels)

    @property
    def frames(self) -> int:
        encoder: Any = self._modules[self.name]
        found: int = encoder.frames
        return found

    @property
    def pixels(self) -> tuple[int, int]:
        encoder: Any = self._modules[self.name]
        found: tuple[int, int] = encoder.pixels
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → logits (B, labels)."""
        encoder: Any = self._modules[self.name]
        x = self.read(encoder(pixel_values))
        if self.norm_name is not None:
            norm: Any = self._modules[self.norm_name]
            x = norm(x)
        return self.classifier(x)
