"""RepVGG (Ding et al. 2021, arXiv 2101.03697) and MobileOne (Vasu et al. 2022, arXiv 2206.04040): filters one after the
other, each trained as a sum of several.

The configuration describes each block, as "rep_r2_k3_s2_g4_c96_se0.0625": two of 3 x 3 pixels, the first with a stride
of 2, of 4 groups, with 96 channels, and squeezed attention of a sixteenth of them; "one_r1_k3_s2_each_b4_c48" is one of
MobileOne's, of single channels, with 4 large filters. Parameters have the names of timm's files; those of
reparameterised networks are read, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Linear, Module, Sequential
from pyapp.nn.vision.reparameterized import Branches
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import DEEPEST, require
from .loading.pictures_config import WIDEST, PictureConfig

MODEL_TYPES = ("repvgg",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
BLOCK = re.compile(
    r"(?P<kind>rep|one)_r(?P<repeats>\d{1,3})_k(?P<kernel>\d{1,2})_s(?P<stride>[12])(_g(?P<groups>\d{1,4})|_(?P<each>each))?"
    r"(_b(?P<branches>\d))?_c(?P<width>\d{1,5})(_se(?P<squeeze>[01](\.\d{1,6})?))?"
)


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: the blocks of each stage, the first of which is the only one of the stem; fused: each block
    is one filter.
    """

    model_type = MODEL_TYPES[0]

    blocks: tuple[tuple[str, ...], ...]
    fused: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        shaped = 2 <= len(self.blocks) <= 16 and all(isinstance(stage, list | tuple) and stage for stage in self.blocks)
        require(shaped, f"blocks is {self.blocks!r:.60}, expected the blocks of 2 to 16 stages")
        self.parsed()

    def parsed(self) -> list[list[Mapping[str, Any]]]:
        """The arguments of the blocks of each stage. ModelError for descriptions that cannot be."""
        stages: list[list[Mapping[str, Any]]] = []
        before, count = self.num_channels, 0
        for stage in self.blocks:
            own: list[Mapping[str, Any]] = []
            for text in stage:
                found = BLOCK.fullmatch(text) if isinstance(text, str) else None
                require(found is not None, f"the block {text!r:.60} is not known", "Blocks are rep_r2_k3_s2_c96")
                assert found is not None
                width, kernel, repeats = (int(found[name]) for name in ("width", "kernel", "repeats"))
                plausible = 1 <= width <= WIDEST and kernel % 2 == 1 and repeats >= 1
                count += repeats
                require(count <= DEEPEST, f"there are over {DEEPEST:,} blocks")
                for i in range(repeats):
                    groups = before if found["each"] else int(found["groups"] or 1)
                    plausible = plausible and groups >= 1 and before % groups == 0 and width % groups == 0
                    require(plausible, f"the block {text!r:.60} has numbers that cannot be")
                    branches = int(found["branches"] or 1) if found["kind"] == "one" else 0
                    own.append({
                        "before": before, "width": width, "kernel": kernel, "groups": groups, "branches": branches,
                        "stride": int(found["stride"]) if i == 0 else 1,
                        "squeezed": max(1, round(width * float(found["squeeze"]))) if found["squeeze"] else 0,
                    })  # fmt: skip
                    before = width
            stages.append(own)
        require(len(stages[0]) == 1, "the first stage has more blocks than one")
        return stages


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Mapping[str, Any]:
    """The settings of a file, which says by its tensors whether the network is reparameterised."""
    fused = any(name.endswith(".reparam_conv.weight") for name in tensors)
    return {**settings, "fused": fused} if tensors else settings


class RepVGG(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        (stem,), *stages = config.parsed()
        self.stem = Branches(**stem, fused=config.fused)
        self.stages = Sequential(
            *(Sequential(*(Branches(**block, fused=config.fused) for block in stage)) for stage in stages)
        )
        self.width = int(stages[-1][-1]["width"])

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("RepVGG", pixel_values, self.config.num_channels)
        return self.stages(self.stem(pixel_values))


class RepVGGClassifier(RepVGG):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Module()
        self.head.fc = Linear(self.width, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head.fc(mean_of_places(super().forward(pixel_values)))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": RepVGG,
    "image-classification": RepVGGClassifier,
}
