"""V-JEPA 2 (Assran et al. 2025, arXiv 2506.09985): a Vision Transformer over boxes of pixels of a video, whose
attention is rotated by frame, row and column; a token that attends to all of them is read for labels.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Attention as PlainAttention
from pyapp.nn.vision.video import TubeEmbeddings, VideoModel
from pyapp.nn.vision.vision import token

from .loading.config import require
from .loading.video_config import VideoConfig

MODEL_TYPES = ("vjepa2",)
IMAGE_PROCESSOR = "VJEPA2"  # of files that name none
BASE = "vjepa2"  # the encoder's name in files with a head
IGNORED = r"(vjepa2\.)?predictor\..*"  # of the first training
THETA = 10000
POOLED = 4  # times the width: the feed-forward parts after the encoder


@dataclass(frozen=True, kw_only=True)
class Config(VideoConfig):
    """The hyper-parameters, by the names of config.json, but for image_size (crop_size there) and num_frames
    (frames_per_clip).
    """

    model_type = MODEL_TYPES[0]
    image = 256

    num_frames: int = 64
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    layer_norm_eps: float = 1e-6
    mlp_ratio: float = 4.0
    tubelet_size: int = 2
    num_pooler_layers: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        size = self.hidden_size // self.num_attention_heads
        require(size % 2 == 0 and size >= 6, f"heads of {size} features cannot be rotated in pairs, three ways")
        require(self.grid[0] == self.grid[1], f"crop_size {self.image_size} is not a square")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        other = (("crop_size", "image_size"), ("frames_per_clip", "num_frames"), ("in_chans", "num_channels"))
        named = {own: values[name] for name, own in other if values.get(name) is not None}
        return super().from_dict({**values, **named})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        more = {"frames_per_clip": self.num_frames, "crop_size": self.image_size[0], "in_chans": self.num_channels}
        return super().to_dict() | more

    @property
    def tubelet(self) -> int:
        return self.tubelet_size


def rotation(config: Config) -> tuple[Tensor, Tensor]:
    """The cosines and sines (tubes, 1, size of a head) of the angles of tubes. A third of a head turns by frame, row
    and column each; what is left does not turn.
    """
    side, size = config.grid[0], config.hidden_size // config.num_attention_heads
    part = size // 3 // 2 * 2
    numbers = np.arange(config.tubes)
    speeds = (1.0 / THETA ** (np.arange(part // 2, dtype=np.float32) / np.float32(part / 2))).astype(np.float32)
    angles = np.zeros((config.tubes, size), np.float32)
    for i, places in enumerate((numbers // (side * side), numbers % (side * side) // side, numbers % side)):
        # The two of a pair turn by different angles in the published weights.
        angles[:, i * part : (i + 1) * part] = np.tile(places[:, None].astype(np.float32) * speeds, 2)
    return ops.from_numpy(np.cos(angles)[:, None]), ops.from_numpy(np.sin(angles)[:, None])


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """x (B, T, H, size) at its places."""
    pairs = x.reshape(*x.shape[:3], x.shape[3] // 2, 2)
    across = ops.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(*x.shape)
    return x * cosines + across * sines


class Attention(Module):
    """Attention of the tubes to one another."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.query = Linear(width, width, config.qkv_bias)
        self.key = Linear(width, width, config.qkv_bias)
        self.value = Linear(width, width, config.qkv_bias)
        self.proj = ResidualLinear(width, width)

    def forward(self, x: Tensor, residual: Tensor, places: tuple[Tensor, Tensor]) -> Tensor:
        """x and residual (B, T, D) → (B, T, D)."""
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (part(x).reshape(*shape) for part in (self.query, self.key, self.value))
        return self.proj(attend(turned(q, *places), turned(k, *places), v, None), residual)


class Dense(Module):
    """The feed-forward part."""

    def __init__(self, config: Config, inner: int) -> None:
        super().__init__()
        self.fc1 = Linear(config.hidden_size, inner)
        self.fc2 = ResidualLinear(inner, config.hidden_size)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → (B, T, D)."""
        return self.fc2(self.activation(self.fc1(x)), residual)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = Attention(config)
        self.norm2 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = Dense(config, int(config.hidden_size * config.mlp_ratio))

    def forward(self, x: Tensor, places: tuple[Tensor, Tensor]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(self.norm1(x), x, places)
        return self.mlp(self.norm2(x), x)


class VJEPA2(VideoModel):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Module()
        self.encoder.embeddings = Module()
        self.encoder.embeddings.patch_embeddings = TubeEmbeddings(
            config.num_channels, config.hidden_size, config.tubelet_size, config.patch_size, "proj"
        )
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.encoder.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → hidden states (B, tubes, D)."""
        self.check(pixel_values)
        x = self.encoder.embeddings.patch_embeddings(pixel_values)
        cosines, sines = (part.to(x.device) for part in rotation(self.config))
        for layer in self.encoder.layer:
            x = layer(x, (cosines, sines))
        found: Tensor = self.encoder.layernorm(x)
        return found


class PoolerLayer(Module):
    """A layer after the encoder, of attention to itself, or of a token to all tubes, which has no projection after
    it; `name`: of its attention.
    """

    def __init__(self, config: Config, name: str) -> None:
        super().__init__()
        self.name, own = name, PlainAttention(config.hidden_size, config.num_attention_heads)
        if name == "cross_attn":
            del own.out_proj
        self.layer_norm1 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.add_module(name, own)
        self.layer_norm2 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = Dense(config, POOLED * config.hidden_size)

    def forward(self, x: Tensor, query: Tensor | None = None) -> Tensor:
        """x (B, T, D), query (B, 1, D) → (B, T or 1, D)."""
        own: Any = self._modules[self.name]
        normed = self.layer_norm1(x)
        asked = normed if query is None else query
        q, k, v = (
            part(given).reshape(*given.shape[:2], own.heads, given.shape[2] // own.heads)
            for part, given in ((own.q_proj, asked), (own.k_proj, normed), (own.v_proj, normed))
        )
        seen = attend(q, k, v, None)
        x = own.out_proj(seen, x) if query is None else query + seen
        return self.mlp(self.layer_norm2(x), x)


class Classifier(VideoModel):
    """The encoder, layers after it, and a head for labels, read at a token of its own."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.vjepa2 = VJEPA2(config)
        self.pooler = Module()
        self.pooler.query_tokens = token(config.hidden_size)
        self.pooler.cross_attention_layer = PoolerLayer(config, "cross_attn")
        layers = (PoolerLayer(config, "self_attn") for _ in range(config.num_pooler_layers))
        self.pooler.self_attention_layers = ModuleList(layers)
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → logits (B, labels)."""
        x = self.vjepa2(pixel_values)
        for layer in self.pooler.self_attention_layers:
            x = layer(x)
        query = self.pooler.query_tokens.expand(x.shape[0], 1, x.shape[2])
        return self.classifier(self.pooler.cross_attention_layer(x, query).squeeze(1))


TASKS: Mapping[str, Callable[[Config], Module]] = {"video-classification": Classifier}
