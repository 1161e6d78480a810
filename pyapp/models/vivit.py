"""ViViT (Arnab et al. 2021, arXiv 2103.15691), its first model: the Vision Transformer over boxes of pixels of a video.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.video import TubeEmbeddings, VideoHead, VideoModel
from pyapp.nn.vision.vision import PatchLayers, token, with_tokens

from .loading.config import require
from .loading.video_config import VideoConfig

MODEL_TYPES = ("vivit",)
IMAGE_PROCESSOR = "Vivit"  # of files that name none
BASE = "vivit"  # the encoder's name in files with a head
IGNORED = r"(vivit\.)?pooler\..*"


@dataclass(frozen=True, kw_only=True)
class Config(VideoConfig):
    """The hyper-parameters, by the names of config.json. tubelet_size: frames, rows and columns of a box."""

    model_type = MODEL_TYPES[0]

    num_frames: int = 32
    tubelet_size: tuple[int, ...] = (2, 16, 16)
    hidden_act: str = "gelu_fast"
    layer_norm_eps: float = 1e-6

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        box = values.get("tubelet_size") or (2, 16, 16)
        plausible = isinstance(box, list | tuple) and len(box) == 3 and all(type(side) is int for side in box)
        require(plausible, f"tubelet_size is {box!r:.60}, expected frames, rows and columns")
        return super().from_dict({**values, "tubelet_size": tuple(box), "patch_size": list(box[1:])})

    @property
    def tubelet(self) -> int:
        return self.tubelet_size[0]


class PlacedTubes(Module):
    """The class token and the boxes, with their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = TubeEmbeddings(config.num_channels, width, config.tubelet, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.tubes + 1, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → (B, 1 + tubes, D)."""
        return with_tokens(self.patch_embeddings(pixel_values), self.cls_token) + self.position_embeddings


class ViViT(VideoModel):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PlacedTubes(config)
        self.encoder = PatchLayers(
            config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size,
            config.hidden_act, config.layer_norm_eps, config.qkv_bias,
        )  # fmt: skip
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → hidden states (B, 1 + tubes, D)."""
        self.check(pixel_values)
        return self.layernorm(self.encoder(self.embeddings(pixel_values)))


def video_classification(config: Config) -> VideoHead:
    """Scores of the labels of a video, read at the class token."""
    return VideoHead(BASE, ViViT(config), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {"video-classification": video_classification}
