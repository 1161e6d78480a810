"""BiT (Kolesnikov et al. 2019, arXiv 1912.11370): a ResNet (He et al. 2016, arXiv 1603.05027) whose filters have the
mean 0 and the deviation 1 (Qiao et al. 2019, arXiv 1903.10520), with norms of groups.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, Flatten, GroupNorm, Module, ModuleList, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.vision import ImageHead, ImageModel, check_pictures, divisible, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_stages

MODEL_TYPES = ("bit",)
IMAGE_PROCESSOR = "Bit"  # of files that name none
BASE = "bit"  # the network's name in files with a head
KINDS = ("preactivation", "bottleneck")
PADDINGS = (None, "SAME")  # with VALID no layer's output has the size of its input
EPSILON = 1e-8  # of the filters
LEAST = 32  # pixels of a side, so that each stage has a place


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    embedding_size: int = 64
    hidden_sizes: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (3, 4, 6, 3)
    layer_type: str = KINDS[0]
    hidden_act: str = "relu"
    global_padding: str | None = None
    num_groups: int = 32
    embedding_dynamic_padding: bool = False
    output_stride: int = 32
    width_factor: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths, None)
        require(
            self.layer_type in KINDS, f"layer_type {self.layer_type!r:.60} is not known", f"Known: {', '.join(KINDS)}"
        )
        require(self.padding in PADDINGS, f"global_padding is {self.global_padding!r:.60}, expected 'SAME' or null")
        require(self.width_factor == 1, f"width_factor is {self.width_factor}, only 1 is supported")
        before = self.embedding_size if self.layer_type == KINDS[1] else self.num_groups
        for width in (before, *self.hidden_sizes, *map(self.inner, self.hidden_sizes), self.embedding_size):
            require(width % self.num_groups == 0, f"num_groups {self.num_groups} does not divide {width} channels")
        for width in self.hidden_sizes:
            require(divisible(width, 8, 8) == width, f"hidden_sizes has {width}, expected multiples of 8")

    @property
    def padding(self) -> str | None:
        """The kind of padding, in capitals."""
        return None if self.global_padding is None else self.global_padding.upper()

    @staticmethod
    def inner(width: int) -> int:
        """The channels between the filters of a layer."""
        return divisible(width / 4, 8, 8)


def around(x: Tensor, kernel: int, stride: int) -> Tensor:
    """x (B, C, H, W) with zeros around, the larger half at the end, for H / stride places, rounded up."""
    sides = []
    for side in x.shape[:1:-1]:  # the width first
        missing = max(0, kernel - (side % stride or stride))
        sides += [missing // 2, missing - missing // 2]
    return ops.pad(x, sides) if any(sides) else x


class StandardConv2d(Conv2d):
    """A filter with the mean 0 and the deviation 1 for each channel that it makes."""

    def __init__(
        self, config: Config, before: int, width: int, kernel: int, stride: int = 1, dilation: int = 1
    ) -> None:
        self.same = config.padding == "SAME" and stride > 1
        padding = 0 if self.same else (stride - 1 + dilation * (kernel - 1)) // 2
        super().__init__(before, width, kernel, stride, padding, dilation, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, O, H', W')."""
        x = around(input, self.kernel_size[0], self.stride[0]) if self.same else input
        flat = self.weight.flatten(1)  # (O, N)
        flat = flat - flat.mean(1, keepdim=True)
        flat = flat / (flat.square().mean(1, keepdim=True) + EPSILON).sqrt()
        return ops.conv2d(x, flat.reshape(self.weight.shape), None, self.stride, self.padding, self.dilation)


class Norm(GroupNorm):
    """The norm of groups of channels, and an activation (None: none)."""

    def __init__(self, config: Config, width: int, activation: str | None) -> None:
        super().__init__(config.num_groups, width)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, C, H, W)."""
        x = super().forward(input)
        return x if self.activation is None else self.activation(x)


class Embeddings(Module):
    """A filter of 7 x 7 pixels and a pool; each halves the picture's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.embedding_size
        self.convolution = StandardConv2d(config, config.num_channels, width, 7, 2)
        self.norm = Norm(config, width, config.hidden_act) if config.layer_type == KINDS[1] else None
        self.padded, self.dynamic = config.padding != "SAME", config.embedding_dynamic_padding

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 4, W / 4)."""
        x = self.convolution(pixel_values)
        x = ops.pad(x, [1, 1, 1, 1]) if self.padded else x
        x = x if self.norm is None else self.norm(x)
        return ops.max_pool2d(around(x, 3, 2) if self.dynamic else x, 3, 2)


class Down(Module):
    """The input of a stage's first layer, with the channels and the size of its output."""

    def __init__(self, config: Config, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv = StandardConv2d(config, before, width, 1, stride)
        self.norm = Norm(config, width, None) if config.layer_type == KINDS[1] else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride)."""
        x = self.conv(x)
        return x if self.norm is None else self.norm(x)


class Layer(Module):
    """A filter of 3 x 3 between two of 1 x 1, with norms before them, or after them, and the sum with the input."""

    def __init__(
        self, config: Config, before: int, width: int, stride: int, dilation: int, first: bool
    ) -> None:  # fmt: skip
        super().__init__()
        inner, self.early = config.inner(width), config.layer_type == KINDS[0]
        self.downsample = Down(config, before, width, stride) if first else None
        self.conv1 = StandardConv2d(config, before, inner, 1)
        self.conv2 = StandardConv2d(config, inner, inner, 3, stride, 1 if self.early else dilation)
        self.conv3 = StandardConv2d(config, inner, width, 1)
        last = config.hidden_act if self.early else None
        widths = (before, inner, inner) if self.early else (inner, inner, width)
        self.norm1, self.norm2 = (Norm(config, own, config.hidden_act) for own in widths[:2])
        self.norm3 = Norm(config, widths[2], last)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        if self.early:
            y = self.norm1(x)
            shortcut = x if self.downsample is None else self.downsample(y)
            return self.conv3(self.norm3(self.conv2(self.norm2(self.conv1(y))))) + shortcut
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.norm2(self.conv2(self.norm1(self.conv1(x))))
        return self.activation(self.norm3(self.conv3(y)) + shortcut)


class Bit(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedder = Embeddings(config)
        self.encoder = Module()
        self.encoder.stages = ModuleList()
        before, reached, dilation = config.embedding_size, 4, 1
        for i, (width, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True)):
            stride = 1 if i == 0 else 2
            if reached >= config.output_stride:
                dilation, stride = dilation * stride, 1
            reached *= stride
            stage = Module()
            early = 1 if dilation in (1, 2) else 2
            stage.layers = Sequential(
                *(
                    Layer(config, width if j else before, width, 1 if j else stride, dilation if j else early, not j)
                    for j in range(depth)
                )
            )
            self.encoder.stages.append(stage)
            before = width
        self.norm = Norm(config, before, config.hidden_act) if config.layer_type == KINDS[0] else None

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("BiT", pixel_values, self.config.num_channels, least=LEAST)
        x = self.embedder(pixel_values)
        for stage in self.encoder.stages:
            x = stage.layers(x)
        return x if self.norm is None else self.norm(x)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    head = ImageHead(BASE, Bit(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)
    head.classifier = Sequential(Flatten(), head.classifier)  # as files number them
    return head


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Bit,
    "image-classification": image_classification,
}
