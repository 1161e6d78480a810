"""A diffusion transformer (Peebles and Xie 2023, arXiv 2212.09748) that makes a spectrogram of codes and of a voice, by
flow matching (Lipman et al. 2023, arXiv 2210.02747): the one of Qwen2.5-Omni (Xu et al. 2025, arXiv 2503.20215).
`config` has the fields of its dit_config.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, log, pi
from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..decoders.decoder import RotaryTable
from ..encoders.encoders import attend
from ..layers.activation import GELU, SiLU
from ..layers.containers import ModuleList
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from .ecapa_tdnn import EcapaTdnn

EPSILON = 1e-6
FREQUENCIES = 256  # of a time
POINTS, GUIDANCE, SWAY = 10, 0.5, -1.0  # as its authors draw: points of time, guidance, and how far these lean to 0


class TimeLayers(Module):
    """A time from 0 to 1 as a vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time_mlp = ModuleList([Linear(FREQUENCIES, width), SiLU(), Linear(width, width)])

    def forward(self, time: float) -> Tensor:
        """A time → (1, D)."""
        half = FREQUENCIES // 2
        steps = np.exp(np.arange(half, dtype=np.float32) * np.float32(-log(10000) / (half - 1)))
        angles = np.float32(1000) * np.float32(time) * steps
        waves = np.concatenate([np.sin(angles), np.cos(angles)]).astype(np.float32)[None]
        first, activation, second = self.time_mlp
        return second(activation(first(ops.from_numpy(waves).to(first.weight.device))))


class Modulation(Module):
    """`count` vectors that depend on the time."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.linear = Linear(width, count * width)
        self.norm = LayerNorm(width, EPSILON, elementwise_affine=False)

    def forward(self, time: Tensor) -> tuple[Tensor, ...]:
        """time (1, D) → (1, D) each."""
        return self.linear(ops.silu(time)).chunk(self.count, 1)


class Attention(Module):
    """Attention; queries and keys of the first head have rotary positions."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.heads, self.size = config.num_attention_heads, config.head_dim
        width, inner = config.hidden_size, config.num_attention_heads * config.head_dim
        self.to_q, self.to_k, self.to_v = (Linear(width, inner) for _ in range(3))
        self.to_out = ModuleList([Linear(inner, width), Dropout(0.0)])

    def forward(self, x: Tensor, table: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (1, 1, T, T) bool → (B, T, D)."""
        parts = (part(x).reshape(*x.shape[:2], self.heads, self.size) for part in (self.to_q, self.to_k, self.to_v))
        q, k, v = parts  # (B, T, H, size)
        return self.to_out[0](attend(self._turned(q, table), self._turned(k, table), v, mask))

    def _turned(self, x: Tensor, table: Tensor) -> Tensor:
        first = ops.rope(x.narrow(2, 0, 1), table, interleaved=True)
        return ops.cat([first, x.narrow(2, 1, self.heads - 1)], 2) if self.heads > 1 else first


class FeedForward(Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.ff = ModuleList([Linear(width, inner), GELU("tanh"), Dropout(0.0), Linear(inner, width)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        first, activation, _, second = self.ff
        return second(activation(first(x)))


class Layer(Module):
    """Attention and a feed-forward part; shifts, scales and gates depend on the time. A moment attends to those of its
    own stretch, and where the layer's number says so to those of the stretch before or after it.
    """

    def __init__(self, config: Any, number: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.ahead, self.behind = number in config.look_ahead_layers, number in config.look_backward_layers
        self.attn_norm = Modulation(width, 6)
        self.attn = Attention(config)
        self.ff_norm = LayerNorm(width, EPSILON, elementwise_affine=False)
        self.ff = FeedForward(width, config.ff_mult * width)

    def forward(self, x: Tensor, time: Tensor, table: Tensor, apart: Tensor) -> Tensor:
        """x (B, T, D), time (1, D), apart (T, T): by how many stretches moments are apart → (B, T, D)."""
        shift, scale, gate, shift_ff, scale_ff, gate_ff = self.attn_norm(time)
        mask = (apart >= -int(self.behind)).logical_and(apart <= int(self.ahead)).reshape(1, 1, *apart.shape)
        x = x + gate * self.attn(self.attn_norm.norm(x) * (scale + 1.0) + shift, table, mask)
        return x + gate_ff * self.ff(self.ff_norm(x) * (scale_ff + 1.0) + shift_ff)


class CodeEmbedding(Module):
    """Codes as vectors, each for several frames."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.repeats = config.repeats
        self.codec_embed = Embedding(config.num_embeds + 1, config.emb_dim)

    def forward(self, codes: Tensor) -> Tensor:
        """codes (B, T) → (B, T * repeats, D)."""
        return self.codec_embed(codes).repeat_interleave(self.repeats, dim=1)


class InputLayers(Module):
    """What the layers read: frames beside what is known of them."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        known = config.enc_dim + config.emb_dim + config.enc_emb_dim
        self.proj = Linear(config.mel_dim + known, config.hidden_size)
        self.spk_encoder = EcapaTdnn(config)


class CodeFlow(Module):
    """The transformer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.time_embed = TimeLayers(width)
        self.text_embed = CodeEmbedding(config)
        self.input_embed = InputLayers(config)
        self.transformer_blocks = ModuleList(Layer(config, number) for number in range(config.num_hidden_layers))
        self.norm_out = Modulation(width, 2)
        self.proj_out = Linear(width, config.mel_dim)
        self.rotary = RotaryTable.of_heads(config.head_dim, config.max_position_embeddings, config.rope_parameters)

    def known(self, codes: Tensor, voice: Tensor, recording: Tensor) -> Tensor:
        """What is known of the frames (2, T * repeats, K), and what is where nothing is known of voice and codes (1, T)
        int. voice (1, enc_emb_dim) and recording (1, frames, mel_dim) are those of a speaker.
        """
        frames = codes.shape[1] * self.config.repeats
        voices = ops.cat([voice, ops.zeros_like(voice)])
        heard = self.input_embed.spk_encoder(ops.cat([recording, ops.zeros_like(recording)]))
        said = self.text_embed(ops.cat([codes, ops.zeros_like(codes)]))
        spread = (part.unsqueeze(1).expand(2, frames, part.shape[1]) for part in (heard, voices))
        heard, voices = spread
        return ops.cat([heard, said, voices], 2)

    def forward(self, x: Tensor, known: Tensor, time: float) -> Tensor:
        """Frames x (1, T, mel_dim), `known` (2, T, K) → where they go at a time, (2, T, mel_dim): with what is known of
        them, and with nothing.
        """
        x = self.input_embed.proj(ops.cat([x.expand(2, *x.shape[1:]), known], 2))
        stretches = ops.div(ops.arange(x.shape[1], device=x.device), self.config.block_size, rounding_mode="floor")
        apart, table = stretches.unsqueeze(0) - stretches.unsqueeze(1), self.rotary.upto(x.shape[1], x.device)
        vector = self.time_embed(time)
        for layer in self.transformer_blocks:
            x = layer(x, vector, table, apart)
        scale, shift = self.norm_out(vector)
        return self.proj_out(self.norm_out.norm(x) * (scale + 1.0) + shift)

    def drawn(self, codes: Tensor, voice: Tensor, recording: Tensor, noise: Tensor) -> Iterator[Tensor | None]:
        """The spectrogram (1, mel_dim, T * repeats) of codes (1, T) in a voice, as of `known`, from noise (1, T *
        repeats, mel_dim): Runge and Kutta's steps, with the rule of three eighths; None after each but the last.
        """
        known, x = self.known(codes, voice, recording), noise

        def way(time: float, x: Tensor) -> Tensor:
            towards, unknown = self(x, known, time).chunk(2)
            return towards + (towards - unknown) * GUIDANCE

        even = [number / (POINTS - 1) for number in range(POINTS)]
        times = [time + SWAY * (cos(pi / 2 * time) - 1 + time) for time in even]
        for start, end in zip(times, times[1:], strict=False):
            step = end - start
            first = way(start, x)
            yield None
            second = way(start + step / 3, x + first * (step / 3))
            yield None
            third = way(start + step * 2 / 3, x + (second - first * (1 / 3)) * step)
            yield None
            fourth = way(end, x + (first - second + third) * step)
            yield None
            x = x + (first + (second + third) * 3 + fourth) * (step / 8)
        yield x.transpose(1, 2)
