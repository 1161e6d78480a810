"""Transformers over the places of a picture and the tokens of a text (MMDiT, Esser et al. 2024, arXiv 2403.03206): both
have projections of their own, and attend to all.

The time of the step and a vector of the text choose scales and shifts of the norms, and how much each part adds
(Peebles and Xie 2022, arXiv 2212.09748). Parameters have the names of diffusers.
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
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.layers.joined import JoinedLinear

from ..loading.config import require
from .network import Network
from .unet import WIDEST, TimeEmbedding, waves

EPSILON = 1e-6  # of all norms
WAVES = 256  # numbers of a time
PER_UNIT = 1000  # times of a unit of guidance
DEEPEST = 256  # layers
GELU = activation_named("gelu_pytorch_tanh")


class Modulated(Module):
    """A norm without parameters, and vectors (B, 1, D) that the condition (B, D) chooses."""

    def __init__(self, width: int, count: int, epsilon: float = EPSILON, bias: bool = True) -> None:
        super().__init__()
        self.count = count
        self.linear = Linear(width, count * width, bias=bias)
        self.norm = LayerNorm(width, epsilon, elementwise_affine=False)

    def forward(self, x: Tensor, condition: Tensor) -> tuple[Tensor, list[Tensor]]:
        """x (B, T, D) → x normalised, and the vectors."""
        return self.norm(x), list(ops.chunk(self.linear(condition).unsqueeze(1), self.count, 2))


def moved(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x (B, T, D), scaled and shifted by vectors (B, 1, D)."""
    return x * (1 + scale) + shift


class LastNorm(Modulated):
    """A norm with a scale and a shift."""

    def __init__(self, width: int, epsilon: float = EPSILON, bias: bool = True) -> None:
        super().__init__(width, 2, epsilon, bias)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:  # type: ignore[override]
        """x (B, T, D) → (B, T, D)."""
        y, (scale, shift) = super().forward(x, condition)
        return moved(y, scale, shift)


class Projected(Module):
    """A linear layer and a GELU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj = Linear(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., inner)."""
        return activated(self.proj, x, GELU)


class FeedForward(Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = ModuleList([Projected(width, 4 * width), Module(), Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.net[2](self.net[0](x))


def normed_head(width: int, heads: int, epsilon: float) -> RMSNorm:
    """The norm of each head's queries, or keys."""
    return RMSNorm(width // heads, epsilon)


def patches(latents: Tensor, side: int) -> Tensor:
    """latents (B, C, H, W) → the numbers (B, T, C * side²) of each place, which is a square of latents."""
    batch, channels, height, width = latents.shape
    rows, columns = height // side, width // side
    x = latents.reshape(batch, channels, rows, side, columns, side).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(batch, rows * columns, channels * side**2)


def whole(x: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """As `patches`, the other way: x (B, T, C * side²) of the rows and columns of `grid` → (B, C, H, W)."""
    rows, columns = grid
    x = x.reshape(x.shape[0], rows, columns, -1, side, side).permute(0, 3, 1, 4, 2, 5)
    return x.reshape(x.shape[0], -1, rows * side, columns * side)


class JointAttention(Module):
    """Attention of the places of a picture, with `text` also of the tokens of a text, to all of them. normed: queries
    and keys have a norm. outputs: which of the two have a projection after it.
    """

    def __init__(
        self, width: int, heads: int, normed: bool, text: bool = False, outputs: tuple[bool, bool] = (True, True),
        bias: bool = True, epsilon: float = EPSILON,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.text = heads, text

        def norm() -> Module | None:
            return normed_head(width, heads, epsilon) if normed else None

        self.norm_q, self.norm_k = norm(), norm()
        self.to_q, self.to_k, self.to_v = (Linear(width, width, bias=bias) for _ in range(3))
        self.qkv = JoinedLinear("to_q", "to_k", "to_v")
        self.to_out = ModuleList([Linear(width, width, bias=bias)]) if outputs[0] else None
        if text:
            self.norm_added_q, self.norm_added_k = norm(), norm()
            self.add_q_proj, self.add_k_proj, self.add_v_proj = (Linear(width, width, bias=bias) for _ in range(3))
            self.added = JoinedLinear("add_q_proj", "add_k_proj", "add_v_proj")
            self.to_add_out = Linear(width, width, bias=bias) if outputs[1] else None

    def _heads(self, joined: Tensor, norm_q: Any, norm_k: Any) -> list[Tensor]:
        """[q, k, v] (B, T, 3 * D) → each (B, T, H, D / H)."""
        batch, tokens, width = joined.shape
        parts = joined.reshape(batch, tokens, 3 * self.heads, width // (3 * self.heads))
        q, k, v = (parts.narrow(2, i * self.heads, self.heads) for i in range(3))
        return [q if norm_q is None else norm_q(q), k if norm_k is None else norm_k(k), v]

    def forward(
        self, x: Tensor, text: Tensor | None = None, table: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """x (B, T, D), text (B, S, D) → both of the same shapes (text empty if there is none). table: the rotations
        (S + T, D / H / 2, 2) of the tokens of the text, then of the places. mask: bool (B, 1, 1, S + T), which of them
        are seen.
        """
        parts = self._heads(self.qkv(self, x), self.norm_q, self.norm_k)
        tokens = 0 if text is None else text.shape[1]
        if text is not None:
            own = self._heads(self.added(self, text), self.norm_added_q, self.norm_added_k)
            parts = [ops.cat([of_text, of_picture], 1) for of_text, of_picture in zip(own, parts, strict=True)]
        q, k, v = parts  # (B, S + T, H, D / H)
        if table is not None:
            q, k = ops.rope(q, table), ops.rope(k, table)
        y = attend(q, k, v, mask)  # (B, S + T, D)
        before, y = y.narrow(1, 0, tokens), y.narrow(1, tokens, x.shape[1])
        if self.text and self.to_add_out is not None:
            before = self.to_add_out(before)
        return y if self.to_out is None else self.to_out[0](y), before


class JointBlock(Module):
    """Attention and feed-forward parts of two streams. last: nothing reads the text after it. dual: the picture also
    attends to itself alone.
    """

    def __init__(self, width: int, heads: int, normed: bool, last: bool = False, dual: bool = False) -> None:
        super().__init__()
        self.last = last
        self.norm1 = Modulated(width, 9 if dual else 6)
        self.norm1_context = LastNorm(width) if last else Modulated(width, 6)
        self.attn = JointAttention(width, heads, normed, True, (True, not last))
        self.attn2 = JointAttention(width, heads, normed) if dual else None
        self.norm2 = LayerNorm(width, EPSILON, elementwise_affine=False)
        self.ff = FeedForward(width)
        self.ff_context = None if last else FeedForward(width)

    def forward(
        self, x: Tensor, text: Tensor, condition: Tensor, table: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """x (B, T, D), text (B, S, D), condition (B, D) → x and text of the same shapes."""
        y, (shift, scale, gate, shift2, scale2, gate2, *dual) = self.norm1(x, condition)
        if self.last:
            z, of_text = self.norm1_context(text, condition), []
        else:
            z, of_text = self.norm1_context(text, condition)
            z = moved(z, of_text[1], of_text[0])
        found, found_text = self.attn(moved(y, scale, shift), z, table)
        x = x + found * gate
        if self.attn2 is not None:
            x = x + self.attn2(moved(y, dual[1], dual[0]))[0] * dual[2]
        x = x + self.ff(moved(self.norm2(x), scale2, shift2)) * gate2
        if self.ff_context is None:
            return x, text
        text = text + found_text * of_text[2]
        return x, text + self.ff_context(moved(self.norm2(text), of_text[4], of_text[3])) * of_text[5]


class Condition(Module):
    """The time, the vector of the text, and with `guided` the guidance, as one vector."""

    def __init__(self, width: int, pooled: int, guided: bool = False) -> None:
        super().__init__()
        self.timestep_embedder = TimeEmbedding(WAVES, width)
        self.guidance_embedder = TimeEmbedding(WAVES, width) if guided else None
        self.text_embedder = TimeEmbedding(pooled, width)

    def forward(self, time: Tensor, pooled: Tensor, guidance: Tensor | None = None) -> Tensor:
        """time and guidance (B,) or (1,), pooled (B, P) → (B, D), after the activation that all readers begin with."""
        x = self.timestep_embedder(waves(time, WAVES)) + self.text_embedder(pooled)
        if self.guidance_embedder is not None:
            if guidance is None:
                raise ArgumentError("this network needs the guidance")
            x = x + self.guidance_embedder(waves(guidance * PER_UNIT, WAVES))
        return ops.silu(x)


class JointNetwork(Network):
    """What transformers over pictures and texts share. A subclass has `config` and `channels` of the latents."""

    flow = True
    channels: int

    def check_latents(self, latents: Tensor) -> None:
        """ArgumentError for latents of another form."""
        name, multiple = type(self).__name__, self.multiple
        if (
            latents.ndim != 4
            or latents.shape[1] != self.channels
            or any(n < 1 or n % multiple for n in latents.shape[2:])
        ):
            raise ArgumentError(
                f"{name}: latents are (B, {self.channels}, H, W) with sides of multiples of {multiple}, "
                f"not {describe(latents)}"
            )
        if self.most is not None and max(latents.shape[2:]) > self.most:
            raise ArgumentError(f"{name}: latents have sides of at most {self.most}, not {describe(latents)}")

    def check(self, latents: Tensor, text: Tensor, pooled: Tensor) -> None:
        """ArgumentError for latents and texts of another form."""
        self.check_latents(latents)
        name, config = type(self).__name__, self.config
        if text.ndim != 3 or text.shape[2] != config.joint_attention_dim:
            raise ArgumentError(f"{name}: the text is (B, S, {config.joint_attention_dim}), not {describe(text)}")
        if pooled.ndim != 2 or pooled.shape[1] != config.pooled_projection_dim:
            raise ArgumentError(
                f"{name}: the vectors of texts are (B, {config.pooled_projection_dim}), not {describe(pooled)}"
            )


def axes_table(places: Any, sizes: Sequence[int], theta: float) -> Any:
    """The rotations float32 (T, R / 2, 2), cosine and sine, of places (T, axes). sizes: how many of the R features of a
    head each axis has.
    """
    angles = [
        places[:, axis, None] * theta ** -(np.arange(0, size, 2) / max(size, 1)) for axis, size in enumerate(sizes)
    ]
    joined = np.concatenate(angles, 1)
    return np.stack([np.cos(joined), np.sin(joined)], 2).astype("float32")


def check_joint(config: Any, layers: int) -> None:
    """ModelError for implausible fields that both kinds of networks have."""
    width = config.num_attention_heads * config.attention_head_dim
    require(width <= WIDEST, f"{config.num_attention_heads:,} heads of {config.attention_head_dim:,} features")
    require(layers <= DEEPEST, f"{layers:,} layers")
    for name in ("joint_attention_dim", "pooled_projection_dim", "in_channels"):
        require(getattr(config, name) <= WIDEST, f"{name} is {getattr(config, name):,}")
