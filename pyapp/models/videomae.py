"""VideoMAE (Tong et al. 2022, arXiv 2203.12602): the Vision Transformer over boxes of pixels of a video.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module
from pyapp.nn.encoders.encoders import first_token
from pyapp.nn.positions.sinusoids import paired_sinusoids
from pyapp.nn.vision.video import TubeEmbeddings, VideoHead, VideoModel
from pyapp.nn.vision.vision import PatchLayers, mean_of_patches

from .loading.config import require
from .loading.video_config import VideoConfig

MODEL_TYPES = ("videomae",)
IMAGE_PROCESSOR = "VideoMAE"  # of files that name none
BASE = "videomae"  # the encoder's name in files with a head
IGNORED = r"(decoder|encoder_to_decoder|mask_token).*"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(VideoConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    tubelet_size: int = 2
    use_mean_pooling: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden_size % 2 == 0, f"hidden_size {self.hidden_size} is odd: positions come in pairs")

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Config:
        """From the object of a config.json, where queries and values may have a field of their own."""
        bias = values.get("qv_bias", values.get("qkv_bias", True))
        found: Config = super().from_dict({**values, "qkv_bias": bias})
        return found

    @property
    def tubelet(self) -> int:
        return self.tubelet_size


def renamed(name: str) -> str:
    """The name of a parameter here: biases had names of their own in older files."""
    for short, part in (("q_bias", "query"), ("v_bias", "value")):
        if name.endswith(f"attention.attention.{short}"):
            return f"{name.removesuffix(short)}{part}.bias"
    return name


class VideoMAE(VideoModel):
    """The encoder. Keys have no biases."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Module()
        self.embeddings.patch_embeddings = TubeEmbeddings(
            config.num_channels, config.hidden_size, config.tubelet_size, config.patch_size
        )
        self.encoder = PatchLayers(
            config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size,
            config.hidden_act, config.layer_norm_eps, config.qkv_bias, key_bias=False,
        )  # fmt: skip
        mean = config.use_mean_pooling
        self.layernorm = None if mean else LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → hidden states (B, tubes, D)."""
        self.check(pixel_values)
        tubes, width = self.config.tubes, self.config.hidden_size
        places = paired_sinusoids(tubes, width)  # all sines, then all cosines: here they stand by turns
        places = places.reshape(tubes, 2, width // 2).transpose(1, 2).reshape(tubes, width)
        x = self.encoder(self.embeddings.patch_embeddings(pixel_values) + places.to(pixel_values.device))
        return x if self.layernorm is None else self.layernorm(x)


def video_classification(config: Config) -> VideoHead:
    """Scores of the labels of a video, read at the mean of its tubes, or at the first."""
    encoder, labels = VideoMAE(config), len(config.labels)
    if not config.use_mean_pooling:
        return VideoHead(BASE, encoder, config.hidden_size, labels, first_token)
    norm = LayerNorm(config.hidden_size)
    return VideoHead(BASE, encoder, config.hidden_size, labels, mean_of_patches, ("fc_norm", norm))


TASKS: Mapping[str, Callable[[Config], Module]] = {"video-classification": video_classification}
