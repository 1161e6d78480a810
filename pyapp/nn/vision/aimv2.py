"""The Vision Transformer of AIMv2 (Fini et al. 2024, arXiv 2411.14402), and its layers, which read texts too.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..encoders.encoders import attend, attend_joined
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.embedding import Embedding
from ..layers.gated import GatedFeedForward
from ..layers.linear import Linear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..positions.sinusoids import MAX_TIMESCALE
from ..sequence_to_sequence.sequence_to_sequence import Attention
from .towers import first_rows
from .vision import ImageModel, as_sequence, check_pictures, token


class Aimv2Layer(Module):
    """Attention and a gated feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__()
        width, self.causal = config.hidden_size, causal
        self.attention = Attention(width, config.num_attention_heads, bias=config.qkv_bias)
        self.ffn = GatedFeedForward(width, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.rms_norm1, self.rms_norm2 = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        attention = self.attention
        y = attend_joined(attention.qkv(attention, self.rms_norm1(x)), attention.heads, None, causal=self.causal)
        x = attention.out_proj(y, x)
        return self.ffn(self.rms_norm2(x), x)


class Aimv2Layers(Module):
    """All layers, one after the other."""

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__()
        self.layers = ModuleList(Aimv2Layer(config, causal) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layers:
            x = layer(x)
        return x


def waves(rows: int, columns: int, width: int) -> Tensor:
    """Positions (rows * columns, width) float32 of patches: sines and cosines of the column, then those of the row."""
    speeds = MAX_TIMESCALE ** -(np.arange(width // 4) / (width // 4))
    down, along = (x.reshape(-1, 1) * speeds for x in np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"))
    parts = [np.sin(along), np.cos(along), np.sin(down), np.cos(down)]
    return ops.from_numpy(np.concatenate(parts, 1).astype(np.float32))


class Patches(Module):
    """Patches with a norm and positions: learned ones, or those of pictures of any size."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.patch_embed = Conv2d(config.num_channels, width, config.patch_size, config.patch_size)
        self.rms_norm = RMSNorm(width, config.rms_norm_eps)
        self.position_embedding = None if config.is_native else Embedding(config.patches, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, T, D)."""
        x = self.patch_embed(pixel_values)
        rows, columns = x.shape[2:]
        x = self.rms_norm(as_sequence(x))
        if self.position_embedding is None:
            return x + waves(rows, columns, x.shape[2]).to(x.device, x.dtype)
        return x + first_rows(self.position_embedding, x.shape[1])


class PoolingHead(Module):
    """The features of a picture: a learned query attends to its patches."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.k_proj, self.v_proj = (Linear(width, width, config.qkv_bias) for _ in range(2))
        self.cls_token = token(width)
        self.output_proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, D)."""
        query = self.cls_token.expand(x.shape[0], 1, x.shape[2])
        q, k, v = (y.reshape(*y.shape[:2], self.heads, -1) for y in (query, self.k_proj(x), self.v_proj(x)))
        return self.output_proj(attend(q, k, v, None).squeeze(1))


class Aimv2Vision(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Patches(config)
        self.encoder = Aimv2Layers(config, causal=False)
        self.rms_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.head = PoolingHead(config) if config.use_head else None

    @property
    def pixels(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = None if self.config.is_native else self.config.image_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, T, D)."""
        config = self.config
        check_pictures("AIMv2", pixel_values, config.num_channels, self.pixels, max(config.patch_size))
        return self.rms_norm(self.encoder(self.embeddings(pixel_values)))
