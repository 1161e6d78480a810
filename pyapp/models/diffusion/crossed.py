"""What transformers share whose places read the text by attention of their own to it (Chen et al. 2023, arXiv
2310.00426): the time of the step chooses scales and shifts for all blocks at once, to which each adds a table.

Parameters have the names of diffusers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.parameter import new_parameter

from ..loading.config import require
from .joint import DEEPEST, EPSILON, WAVES, Projected
from .network import Network
from .unet import WIDEST, TimeEmbedding, waves

HEAD_EPSILON = 1e-5  # of the norms of queries and keys


class TimeOfAll(Module):
    """The vectors that the time chooses for all blocks, and the time's own one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.emb = Module()
        self.emb.timestep_embedder = TimeEmbedding(WAVES, width)
        self.linear = Linear(width, 6 * width)

    def forward(self, time: Tensor) -> tuple[Tensor, Tensor]:
        """time (B,) or (1,) → (B or 1, 6, D), and (B or 1, 1, D)."""
        own: Tensor = self.emb.timestep_embedder(waves(time, WAVES))
        return self.linear(ops.silu(own)).reshape(own.shape[0], 6, -1), own.unsqueeze(1)


class TextProjection(Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = Projected(inputs, width).proj, Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, S, inputs) → (B, S, width)."""
        return self.linear_2(ops.gelu(self.linear_1(x), "tanh"))


class Patches(Module):
    """Patches of latents. base: of how many rows a square has the positions that the training had; None: there are no
    positions.
    """

    def __init__(self, channels: int, width: int, side: int, base: int | None, stretch: float) -> None:
        super().__init__()
        self.base, self.stretch = base, stretch
        self.proj = BlockConv2d(channels, width, side, side)
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size alone

    def _table(self, rows: int, columns: int, like: Tensor) -> Tensor:
        """The positions (T, D), those of columns before those of rows."""
        base, width = self.base or 1, like.shape[2]
        key = rows, columns, like.device
        if key not in self._tables:
            speeds = 10000.0 ** -(np.arange(width // 4) / (width / 4))
            parts = []
            for axis, count in ((1, columns), (0, rows)):
                places = np.arange(count, dtype="float32") / (count / base) / self.stretch
                places = np.repeat(places, columns) if axis == 0 else np.tile(places, rows)
                angles = np.outer(places, speeds)
                parts += [np.sin(angles), np.cos(angles)]
            table = np.concatenate(parts, 1).astype("float32")
            self._tables = {key: ops.from_numpy(table).to(like.device)}
        return self._tables[key]

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W) → (B, T, D)."""
        x = self.proj(latents)  # (B, D, rows, columns)
        rows, columns = x.shape[2:]
        x = x.flatten(2).transpose(1, 2)
        return x if self.base is None else x + self._table(rows, columns, x)


class Attention(Module):
    """Attention of places to each other, or to a text of the width `source`, with `inner` features in all heads."""

    def __init__(
        self, width: int, heads: int, inner: int, source: int | None = None, bias: bool = True, normed: bool = False,
        output_bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads = heads
        self.to_q = Linear(width, inner, bias=bias)
        self.to_k, self.to_v = (Linear(source or width, inner, bias=bias) for _ in range(2))
        self.norm_q, self.norm_k = (RMSNorm(inner, HEAD_EPSILON) if normed else None for _ in range(2))
        self.to_out = ModuleList([Linear(inner, width, bias=output_bias)])

    def parts(self, x: Tensor, source: Tensor) -> list[Tensor]:
        """The queries of x (B, T, D), the keys and values of source (B, S, D'): each (B, T or S, H, D / H)."""
        q, k, v = self.to_q(x), self.to_k(source), self.to_v(source)
        q = q if self.norm_q is None else self.norm_q(q)
        k = k if self.norm_k is None else self.norm_k(k)
        return [y.reshape(*y.shape[:2], self.heads, -1) for y in (q, k, v)]

    def forward(self, x: Tensor, source: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), source (B, S, D'), mask bool (B, 1, 1, S) → (B, T, D)."""
        q, k, v = self.parts(x, x if source is None else source)
        return self.to_out[0](attend(q, k, v, mask))


class CrossedNetwork(Network):
    """A transformer of this kind. A subclass has `channels` of the latents and `text_width`, and calls `last`."""

    channels: int
    text_width: int

    def last(self, width: int, outputs: int) -> None:
        """Adds what follows the blocks."""
        self.norm_out = LayerNorm(width, EPSILON, elementwise_affine=False)
        self.scale_shift_table = new_parameter(ops.zeros, 2, width)
        self.proj_out = Linear(width, self.multiple**2 * outputs)

    def check(self, latents: Tensor, text: Tensor, lengths: Tensor) -> None:
        """ArgumentError for latents and texts of another form."""
        name, side = type(self).__name__, self.multiple
        if latents.ndim != 4 or latents.shape[1] != self.channels or any(n < 1 or n % side for n in latents.shape[2:]):
            raise ArgumentError(
                f"{name}: latents are (B, {self.channels}, H, W) with sides of multiples of {side}, "
                f"not {describe(latents)}"
            )
        if text.ndim != 3 or text.shape[2] != self.text_width:
            raise ArgumentError(f"{name}: the text is (B, S, {self.text_width}), not {describe(text)}")
        if lengths.ndim != 1 or len({lengths.shape[0], text.shape[0], latents.shape[0]}) != 1:
            raise ArgumentError(f"{name}: the lengths of texts are (B,), not {describe(lengths)}")

    def ended(self, x: Tensor, own: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, T, D) and the time's vector (B, 1, D) → what is found (B, C, H, W), without what is learnt of its
        deviation.
        """
        shift, scale = ops.chunk(self.scale_shift_table + own, 2, 1)
        side, channels = self.multiple, self.channels
        x = self.proj_out(self._modules["norm_out"](x) * (1 + scale) + shift)
        x = x.reshape(x.shape[0], rows, columns, side, side, -1).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(x.shape[0], -1, rows * side, columns * side).narrow(1, 0, channels)


def mask_of(lengths: Tensor, tokens: int) -> Tensor | None:
    """Which of `tokens` tokens are those of texts of these lengths (B,): bool (B, 1, 1, tokens); None: all."""
    counts = lengths.tolist()
    if min(counts) >= tokens:
        return None
    seen = np.arange(tokens) < np.array(counts)[:, None]
    return ops.from_numpy(seen.reshape(len(counts), 1, 1, tokens)).to(lengths.device)


def check_crossed(config: Any, widths: Sequence[str]) -> None:
    """ModelError for implausible fields that all networks of this kind have."""
    width = config.num_attention_heads * config.attention_head_dim
    require(width <= WIDEST, f"{config.num_attention_heads:,} heads of {config.attention_head_dim:,} features")
    require(width % 4 == 0, f"{config.num_attention_heads:,} heads of {config.attention_head_dim:,} features")
    require(config.num_layers <= DEEPEST, f"{config.num_layers:,} layers")
    for name in widths:
        value = getattr(config, name)
        require(value is None or value <= WIDEST, f"{name} is {value:,}")
    require(config.patch_size <= 16, f"patch_size is {config.patch_size:,}")
    require(config.sample_size <= 1 << 12, f"sample_size is {config.sample_size:,}")
    stretch = config.interpolation_scale
    require(stretch is None or 0 < stretch < 1e4, f"interpolation_scale is {stretch}")
    made = config.in_channels if config.out_channels is None else config.out_channels
    require(
        made in (config.in_channels, 2 * config.in_channels),
        f"a network of {config.in_channels} to {made} channels is not supported",
    )
