"""ResNet and ResNeXt (Xie et al. 2016, arXiv 1611.05431) below a pyramid of features (Lin et al. 2016, arXiv
1612.03144), under the names of detectron2's files. Of the pyramid, only the finest features are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..module import Module
from .vision import FrozenBatchNorm2d

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # of each stage, by the depth


class NormedConv(Conv2d):
    """A convolution without a bias, and the norm of its results."""

    def __init__(self, before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, width, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = FrozenBatchNorm2d(width)

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        return self.norm(super().forward(input))


class Bottleneck(Module):
    """Three convolutions, whose result is added to their input, or to its projection. stride_first: the first halves
    the sides, not the second.
    """

    def __init__(self, before: int, width: int, inner: int, stride: int, groups: int, stride_first: bool) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_first else (1, stride)
        self.shortcut = NormedConv(before, width, 1, stride) if before != width else None
        self.conv1 = NormedConv(before, inner, 1, first)
        self.conv2 = NormedConv(inner, inner, 3, second, groups)
        self.conv3 = NormedConv(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride)."""
        y = self.conv3(ops.relu(self.conv2(ops.relu(self.conv1(x)))))
        return ops.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class Stages(Module):
    """The stem and the stages. width: of the first stage's results; inner: of its convolutions; both double with each
    stage.
    """

    def __init__(
        self, depth: int, stem: int, width: int, inner: int, groups: int, stride_first: bool, channels: int = 3
    ) -> None:  # fmt: skip
        super().__init__()
        self.stem = Module()
        self.stem.conv1 = NormedConv(channels, stem, 7, 2)
        before = stem
        for stage, count in enumerate(BLOCKS[depth]):
            layers = []
            for block in range(count):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(before, width, inner, stride, groups, stride_first))
                before = width
            self.add_module(f"res{stage + 2}", ModuleList(layers))
            width, inner = 2 * width, 2 * inner

    def forward(self, x: Tensor) -> list[Tensor]:
        """x (B, 3, H, W) → the results of the stages (B, C, H / 4, W / 4) to (B, 8 C, H / 32, W / 32)."""
        x = ops.max_pool2d(ops.relu(self.stem.conv1(x)), 3, 2, 1)
        found = []
        for stage in range(2, 2 + len(BLOCKS[50])):
            for block in self._modules[f"res{stage}"]:
                x = block(x)
            found.append(x)
        return found


class Pyramid(Module):
    """The stages and the pyramid over them; outputs: of its features. The other arguments are those of the stages."""

    def __init__(self, outputs: int, depth: int, stem: int, width: int, *more: int) -> None:
        super().__init__()
        self.bottom_up = Stages(depth, stem, width, *more)  # type: ignore[arg-type]
        for stage in range(len(BLOCKS[depth])):
            self.add_module(f"fpn_lateral{stage + 2}", Conv2d(width << stage, outputs, 1))
        self.fpn_output2 = Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3, H, W), whose sides are multiples of 32 → (B, outputs, H / 4, W / 4)."""
        stages: Sequence[Tensor] = self.bottom_up(x)
        found: Tensor | None = None
        for number in range(len(stages) - 1, -1, -1):
            own = self._modules[f"fpn_lateral{number + 2}"](stages[number])
            found = own if found is None else own + ops.interpolate(found, scale_factor=2.0, mode="nearest")
        return self.fpn_output2(found)
