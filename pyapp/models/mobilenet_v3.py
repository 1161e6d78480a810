"""MobileNetV3 (Howard et al. 2019, arXiv 1905.02244), and networks of such blocks: MobileNetV4 (Qin et al. 2024, arXiv
2404.10518), and timm's MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381), EfficientNet (Tan and Le 2019, arXiv
1905.11946) and EfficientNetV2 (2021, arXiv 2104.00298).

The configuration describes each block as MnasNet's authors do (arXiv 1807.11626): "ir_r2_k5_s2_e6_c40_se0.25" is two
inverted residuals with filters of 5 x 5 pixels, the first of which has a stride of 2, that have 6 times the channels
inside, 40 outside, and squeezed attention. Parameters have the names of timm's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.mobile import BLOCKS, ActivatedNorm, Block, Filter, Style
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("mobilenet_v3",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
BLOCK = re.compile(
    r"(?P<kind>[a-z]+)_r(?P<repeats>\d{1,3})(_a(?P<first>\d{1,2}))?_k(?P<kernel>\d{1,2})(_h(?P<heads>\d{1,3}))?"
    r"_s(?P<stride>[12])(_v(?P<reduction>[1-8]))?(_d(?P<head>\d{1,4}))?(_e(?P<expansion>\d{1,2}(\.\d{1,6})?))?"
    r"_c(?P<width>\d{1,5})(_se(?P<squeeze>[01](\.\d{1,6})?))?(_n(?P<activation>[a-z]{2}))?(_(?P<skip>noskip|skip))?"
)
ACTIVATIONS = {"re": "relu", "r6": "relu6", "hs": "hardswish", "sw": "silu"}
HEADS = ("before", "after", "normed")  # where the last filter stands: before the mean, after it, after it with a norm


def renamed(name: str) -> str:
    """The name of a tensor here: what others' old files call gamma is a weight, but not here."""
    return name.replace(".layer_scale.weight", ".layer_scale.gamma")


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: `blocks` of each stage, the channels of the first and the last filter, which stands where
    `head` says, and how filters are padded and squeezed attention computed.
    """

    model_type = MODEL_TYPES[0]

    blocks: tuple[tuple[str, ...], ...]
    stem_size: int = 16
    head_size: int = 1280
    head: str = "after"
    hidden_act: str = "hardswish"
    layer_norm_eps: float = 1e-5
    tf_padding: bool = False
    hard_squeeze: bool = True
    layer_scale: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head in HEADS, f"head is {self.head!r:.60}, expected one of {', '.join(HEADS)}")
        check_numbers("stem_size and head_size", (self.stem_size, self.head_size), WIDEST, count=2)
        activation_named(self.hidden_act)
        shaped = 1 <= len(self.blocks) <= 32 and all(isinstance(stage, list | tuple) and stage for stage in self.blocks)
        require(shaped, f"blocks is {self.blocks!r:.60}, expected the blocks of up to 32 stages, at least one each")
        require(sum(map(len, self.blocks)) <= DEEPEST, "a network of more than 1,024 kinds of blocks")
        require(sum(map(len, self.stages)) <= DEEPEST, "a network of more than 1,024 blocks")

    @property
    def stages(self) -> list[list[Block]]:
        """The blocks of each stage. ModelError for a description that is none."""
        return [
            [block for i, text in enumerate(stage) for block in self._described(text, i == 0)] for stage in self.blocks
        ]

    def _described(self, text: object, first: bool) -> list[Block]:
        """The blocks of a description. Only the first of a stage has a stride."""
        found = BLOCK.fullmatch(text) if isinstance(text, str) else None
        hint = f"Blocks are {', '.join(BLOCKS)}: ir_r2_k5_s2_e6_c40_se0.25"
        if found is None or found["kind"] not in BLOCKS or found["activation"] not in (None, *ACTIVATIONS):
            require(False, f"the block {text!r:.60} is not known", hint)
        assert found is not None
        width, repeats, expansion = int(found["width"]), int(found["repeats"]), float(found["expansion"] or 1)
        kernels = [int(found[name] or 0) for name in ("kernel", "first")]
        odd = all(kernel % 2 == 1 or (kernel == 0 and found["kind"] == "uir") for kernel in kernels[:1])
        odd = odd and (kernels[1] % 2 == 1 or kernels[1] == 0)
        heads, head = int(found["heads"] or 1), int(found["head"] or 64)
        plausible = 1 <= width <= WIDEST and repeats >= 1 and 0 < expansion <= 32 and odd and min(heads, head) >= 1
        require(plausible, f"the block {text!r:.60} has numbers that cannot be", hint)
        strided = max(kernels) > 0 or found["stride"] == "1"
        require(strided, f"the block {text!r:.60} has a stride, but no filter", hint)
        kind, activation = found["kind"], found["activation"]
        skips = found["skip"] == "skip" if kind == "cn" else found["skip"] != "noskip"
        return [
            Block(
                kind=kind, width=width, kernel=kernels[0], first_kernel=kernels[1],
                stride=int(found["stride"]) if first and i == 0 else 1, expansion=expansion,
                squeeze=float(found["squeeze"] or 0),
                activation=self.hidden_act if activation is None else ACTIVATIONS[activation], skips=skips,
                heads=heads, head_width=head, reduction=int(found["reduction"] or 1),
            )
            for i in range(repeats)
        ]  # fmt: skip


class MobileNetV3(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        style = Style(
            epsilon=config.layer_norm_eps, tensorflow=config.tf_padding, hard=config.hard_squeeze,
            scaled=config.layer_scale,
        )  # fmt: skip
        width = config.stem_size
        self.conv_stem = Filter(config.num_channels, width, 3, 2, tensorflow=config.tf_padding)
        self.bn1 = ActivatedNorm(width, config.layer_norm_eps, config.hidden_act)
        stages = []
        for described in config.stages:
            blocks = []
            for block in described:
                blocks.append(BLOCKS[block.kind](width, block, style))
                width = block.width
            stages.append(Sequential(*blocks))
        self.blocks = Sequential(*stages)
        self.width = width
        self.conv_head = self.bn2 = None
        if config.head == "before":
            self.conv_head = Filter(width, config.head_size)
            self.bn2 = ActivatedNorm(config.head_size, config.layer_norm_eps, config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("MobileNetV3", pixel_values, self.config.num_channels)
        x = self.blocks(self.bn1(self.conv_stem(pixel_values)))
        return x if self.conv_head is None or self.bn2 is None else self.bn2(self.conv_head(x))


class MobileNetV3Classifier(MobileNetV3):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.last = self.norm_head = None
        if config.head != "before":
            self.conv_head = Filter(self.width, config.head_size, bias=config.head == "after")
            self.last = activation_named(config.hidden_act)
        if config.head == "normed":
            self.norm_head = ActivatedNorm(config.head_size, config.layer_norm_eps)
        self.classifier = Linear(config.head_size, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        x = super().forward(pixel_values)
        if self.last is None:
            return self.classifier(mean_of_places(x))
        assert self.conv_head is not None
        x = self.conv_head(x.mean((2, 3), keepdim=True))  # (B, head_size, 1, 1)
        x = x if self.norm_head is None else self.norm_head(x)
        return self.classifier(self.last(x).reshape(x.shape[0], -1))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": MobileNetV3,
    "image-classification": MobileNetV3Classifier,
}
