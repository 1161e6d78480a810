"""A reader of printed lines: convolutions over the picture of a line, and for each place the probabilities of
characters, trained with connectionist temporal classification (Graves et al. 2006,
https://doi.org/10.1145/1143844.1143891).

The picture's height becomes channels (Shi et al. 2015, arXiv 1507.05717); the layers along the line are those of
ConvNeXt (Liu et al. 2022, arXiv 2201.03545) with the norm of batches, which is part of the filters in files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.nn import Conv1d, Conv2d, Module, ModuleList
from pyapp.nn.layers.channel_normalization import BatchNorm1d, BatchNorm2d
from pyapp.nn.vision.vision import check_pictures

from .loading.config import FileConfig, read_config, require

MODEL_TYPES = ("ctc_reader",)
BASE = ""
BLANK = 0  # characters count from 1
STRIDE = 4  # columns of the picture that share a place of the hidden states
PLACES = 2  # of each hidden state, which the head predicts
CHANNEL_LIMIT = 1 << 12
ALPHABET_LIMIT = 1 << 16


@dataclass(frozen=True)
class Config(FileConfig):
    """`alphabet`: the characters, from class 1 on; class 0 is the blank. `height`: of pictures. `channels`: of the
    four stages of filters. `width`, `layers`, `expansion`, `kernel`: of the layers along the line. `normalized`:
    whether norms of batches stand after the filters, as in training; otherwise filters have biases.
    """

    model_type = "ctc_reader"

    alphabet: str
    height: int = 32
    channels: tuple[int, ...] = (24, 32, 64, 96)
    width: int = 192
    layers: int = 4
    expansion: int = 2
    kernel: int = 9
    normalized: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < len(self.alphabet) <= ALPHABET_LIMIT, f"alphabet has {len(self.alphabet):,} characters")
        require(len(set(self.alphabet)) == len(self.alphabet), "alphabet has a character twice")
        require(len(self.channels) == 4, f"channels are {len(self.channels)} numbers, expected 4")
        for number in (*self.channels, self.width, self.expansion, self.layers):
            require(0 < number <= CHANNEL_LIMIT, f"{number:,} channels or layers, expected at most {CHANNEL_LIMIT:,}")
        require(self.height % 8 == 0 and 8 <= self.height <= 512, f"height is {self.height}, expected 8 times a number")
        require(self.kernel % 2 == 1 and self.kernel < 256, f"kernel is {self.kernel}, expected an odd number")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        channels = values.get("channels", cls.channels)
        plausible = isinstance(channels, list | tuple) and all(type(number) is int for number in channels)
        require(plausible, f"channels is {channels!r:.60}, expected four numbers")
        return read_config(cls, {**values, "channels": tuple(channels)})

    @property
    def classes(self) -> int:
        """The characters and the blank."""
        return len(self.alphabet) + 1


class Filter(Module):
    """A two-dimensional filter, its norm in training, and ReLU."""

    def __init__(self, before: int, width: int, kernel: Any, stride: Any, padding: Any, normalized: bool) -> None:
        super().__init__()
        self.convolution = Conv2d(before, width, kernel, stride, padding, bias=not normalized)
        self.normalization = BatchNorm2d(width) if normalized else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride)."""
        x = self.convolution(x)
        if self.normalization is not None:
            x = self.normalization(x)
        return ops.relu(x)


class Layer(Module):
    """A filter of each channel along the line, its norm in training, wider, narrower; added to its input."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.width, config.width * config.expansion
        self.convolution = Conv1d(
            width, width, config.kernel, padding=config.kernel // 2, groups=width, bias=not config.normalized
        )
        self.normalization = BatchNorm1d(width) if config.normalized else None
        self.up = Conv1d(width, inner, 1)
        self.down = Conv1d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, T) → (B, D, T)."""
        y = self.convolution(x)
        if self.normalization is not None:
            y = self.normalization(y)
        return x + self.down(ops.gelu(self.up(y)))


class CtcReader(Module):
    """The network. `config` is a Config."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        one, two, three, four = config.channels
        norm = config.normalized
        self.stages = ModuleList([
            Filter(1, one, 3, 2, 1, norm),  # (B, one, H / 2, W / 2)
            Filter(one, two, 3, (2, 1), 1, norm),  # (B, two, H / 4, W / 2)
            Filter(two, three, 3, (1, 2), 1, norm),  # (B, three, H / 4, W / 4)
            Filter(three, four, 3, (2, 1), 1, norm),  # (B, four, H / 8, W / 4)
        ])  # fmt: skip
        self.residual = Filter(four, four, 3, 1, 1, norm)
        self.columns = Filter(four, config.width, (config.height // 8, 1), 1, 0, norm)
        self.layers = ModuleList([Layer(config) for _ in range(config.layers)])
        self.head = Conv1d(config.width, PLACES * config.classes, 1)

    @property
    def device(self) -> Any:
        """The device on which the model computes."""
        return self.head.weight.device

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 1, height, W): 0 paper, 1 ink → scores of the classes (B, T, classes); T is W / 2, where
        STRIDE divides W.
        """
        check_pictures("CtcReader", pixel_values, 1)
        x = pixel_values
        for stage in self.stages:
            x = stage(x)
        x = x + self.residual(x)
        x = self.columns(x).squeeze(2)  # (B, D, W / 4)
        for layer in self.layers:
            x = layer(x)
        x = self.head(x)  # (B, PLACES * classes, W / 4)
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2] * PLACES, self.config.classes)

    def folded(self) -> CtcReader:
        """The same function in evaluation, with the norms as part of the filters."""
        if not self.config.normalized:
            return self
        found = CtcReader(Config(**{**asdict(self.config), "normalized": False}))
        own = dict(self.named_modules())
        with no_grad():
            for name, module in found.named_modules():
                if not isinstance(module, Conv1d | Conv2d):
                    continue
                source, norm = own[name], getattr(own[name.rpartition(".")[0]], "normalization", None)
                weight, bias = source.weight, source.bias
                if norm is not None and name.endswith("convolution"):
                    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
                    weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
                    bias = norm.bias - norm.running_mean * scale
                assert module.bias is not None  # the config is not normalized
                module.weight.copy_(weight)
                module.bias.copy_(bias)
        return found.eval()


TASKS: Mapping[str, Callable[[Config], Module]] = {"line-reading": CtcReader}
