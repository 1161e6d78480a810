"""Whisper's encoder and decoder (Radford et al. 2022, arXiv 2212.04356; https://github.com/openai/whisper): two
convolutions and a transformer over a log-mel spectrogram, and a transformer decoder that attends to the result.

Projections of the same input are one matrix: `qkv` is [query; key; value], `kv` is [key; value]. Keys have no bias.
Training and inference use the same modules: a decoder block reads the text and the audio through a `Memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from math import log
from typing import Any, Protocol

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.dtype import float32
from pyapp.engine.grad_mode import STATE
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ModelError
from pyapp.nn import Embedding, Int8CrossCache, LayerNorm, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.decoders.caches import activation_dtype, attends_in_int8
from pyapp.nn.parameter import new_parameter

EPSILON = 1e-5
MAX_TIMESCALE = 10000.0
# Far above every Whisper model, far below sizes that exhaust memory; by the last word of a hyper-parameter's name.
LIMITS = {"layer": 1 << 8, "head": 1 << 8, "ctx": 1 << 15, "vocab": 1 << 20, "mels": 1 << 10}
WIDEST = 1 << 14  # of the state
KERNEL = 3  # width of both convolutions, padded by one on each side
WARM_UP, WARM_UP_RUNS = 64, 4  # positions of the audio, and the number of times that the first block reads them


@dataclass(frozen=True)
class Config:
    """The hyper-parameters of a Whisper model, by openai's names (whisper.model.ModelDimensions)."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            limit = LIMITS.get(name[2:].rpartition("_")[2], WIDEST)
            if not 1 <= value <= limit:
                raise ModelError(f"{name} is {value!r:.20}, expected 1 to {limit:,} in a Whisper model")
        for part in ("audio", "text"):
            state, heads = getattr(self, f"n_{part}_state"), getattr(self, f"n_{part}_head")
            if state % heads or state % 2:
                raise ModelError(
                    f"n_{part}_state {state} and n_{part}_head {heads} do not fit together",
                    hint="Heads divide the state, and the state is even",
                )
        if self.n_audio_state != self.n_text_state:
            raise ModelError(
                f"n_audio_state {self.n_audio_state} and n_text_state {self.n_text_state} differ",
                hint="The decoder reads the encoder's output: both must have the same width",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From openai's names; other keys are ignored. ModelError for a missing hyper-parameter and for one that is not
        a number.
        """
        found = {}
        for name in (field.name for field in fields(cls)):
            value = values.get(name)
            if isinstance(value, bool) or not isinstance(value, int):
                problem = "is missing" if value is None else f"is {value!r:.60}, not a whole number"
                raise ModelError(f"{name} {problem}", hint="Give the configuration of a Whisper model")
            found[name] = value
        return cls(**found)

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @property
    def vocab_size(self) -> int:
        """n_vocab, by the name that other models' configurations have for it."""
        return self.n_vocab


def sinusoids(length: int, channels: int) -> Tensor:
    """The encoder's positions (length, channels): sines, then cosines, of timescales from 1 to MAX_TIMESCALE."""
    steps = np.exp(np.arange(channels // 2, dtype=np.float32) * np.float32(-_log_step(channels)))
    angles = np.arange(length, dtype=np.float32)[:, None] * steps.astype(np.float32)[None, :]
    return ops.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32))


def _log_step(channels: int) -> float:
    return log(MAX_TIMESCALE) / max(channels // 2 - 1, 1)


class Convolution(Module):
    """x (B, C, L) → (B, O, L / stride): a convolution of width three, padded with zeros."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.shape = (outputs, channels, KERNEL)
        self.weight = new_parameter(ops.zeros, *self.shape)
        self.bias = new_parameter(ops.zeros, outputs)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = (p.to(x.dtype) for p in (self.weight, self.bias))
        return ops.conv1d(x, weight, bias, stride=self.stride, padding=1)


class Projections(Linear):
    """Several projections of one input in one matrix; the rows `keys` have no bias."""

    def __init__(self, inputs: int, count: int, keys: int) -> None:
        super().__init__(inputs, count * inputs)
        self.keys = slice(keys * inputs, (keys + 1) * inputs)

    def forward(self, x: Tensor) -> Tensor:
        bias = self.bias
        assert bias is not None
        if bias.requires_grad:  # the bias of keys is not a parameter of the model: it gets no gradient
            mask = ops.ones(bias.shape[0], dtype=bias.dtype, device=bias.device)
            mask[self.keys] = 0.0
            bias = bias * mask
        return ops.linear(x, self.weight, bias)


class SelfAttention(Module):
    """Multi-head attention of a sequence to itself."""

    tensor_parallel = {"qkv": ("outputs", "queries", "keys", "keys"), "out": ("inputs", "queries")}

    def __init__(self, state: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = Projections(state, 3, keys=1)
        self.out = ResidualLinear(state, state)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, state) → residual + attention (B, T, state)."""
        return self.out(self.attend(self.qkv(x)), residual)

    def attend(self, qkv: Tensor) -> Tensor:
        """qkv (B, T, 3 state) of a whole sequence → (B, T, state)."""
        batch, tokens, width = qkv.shape
        state = width // 3
        qkv = qkv.reshape(batch, tokens, 3 * self.heads, state // self.heads)
        dtype = qkv.dtype
        if dtype is float32 and not qkv.requires_grad:
            qkv = qkv.to(activation_dtype(self.qkv.weight))
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D)
        y = _int8_attention(q, k, v) if self._in_int8(qkv) else ops.attention(q, k, v, self.causal)
        return y.reshape(batch, tokens, state).to(dtype)

    def _in_int8(self, qkv: Tensor) -> bool:
        if self.causal or qkv.requires_grad or STATE.traced:  # what is written down has no operator for it
            return False
        return attends_in_int8(self.qkv.weight, qkv.shape[3])


def _int8_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q, k, v (B, T, H, D) → (B, T, H, D)."""
    length, heads, columns = k.shape[1:]
    cache = Int8CrossCache(length, heads, columns, k.device)
    parts = []
    for i in range(q.shape[0]):
        cache.write(k.narrow(0, i, 1).squeeze(0), v.narrow(0, i, 1).squeeze(0))
        parts.append(cache.attend(q.narrow(0, i, 1).squeeze(0)).unsqueeze(0))
    return parts[0] if len(parts) == 1 else ops.cat(parts)


class CrossAttention(Module):
    """The projections of multi-head attention of the text to the audio."""

    tensor_parallel = {
        "query": ("outputs", "queries"), "kv": ("outputs", "keys", "keys"), "out": ("inputs", "queries"),
    }  # fmt: skip

    def __init__(self, state: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(state, state)
        self.kv = Projections(state, 2, keys=0)
        self.out = ResidualLinear(state, state)

    def attend(self, q: Tensor, audio: Tensor) -> Tensor:
        """q (B, T, state), audio (B, S, state) → (B, T, state)."""
        k, v = self.keys_and_values(audio)
        y = ops.attention(q.reshape(*q.shape[:2], self.heads, k.shape[3]), k, v, causal=False)  # (B, T, H, D)
        return y.reshape(q.shape)

    def keys_and_values(self, audio: Tensor) -> tuple[Tensor, Tensor]:
        """audio (B, S, state) → two of (B, S, H, D)."""
        batch, length, _ = audio.shape
        kv = self.kv(audio).reshape(batch, length, 2 * self.heads, -1)
        return kv.narrow(2, 0, self.heads), kv.narrow(2, self.heads, self.heads)


class FeedForward(Module):
    """Two linear layers with a GELU between them, four times as wide inside."""

    tensor_parallel = {"up": ("outputs", "inner"), "down": ("inputs", "inner")}

    def __init__(self, state: int) -> None:
        super().__init__()
        self.up = Linear(state, 4 * state)
        self.down = ResidualLinear(4 * state, state)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., T, state) → residual + feed-forward (..., T, state)."""
        return self.down(ops.gelu(self.up(x)), residual)


class EncoderBlock(Module):
    """Self-attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, state: int, heads: int) -> None:
        super().__init__()
        self.attn = SelfAttention(state, heads, causal=False)
        self.attn_ln = LayerNorm(state, EPSILON)
        self.mlp = FeedForward(state)
        self.mlp_ln = LayerNorm(state, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, state) → (B, T, state)."""
        x = self.attn(self.attn_ln(x), x)
        return self.mlp(self.mlp_ln(x), x)


class Memory(Protocol):
    """The inputs that the blocks of a decoder attend to: the tokens of the text, and the audio. `layer` counts the
    blocks.
    """

    def self_attention(self, layer: int, qkv: Tensor) -> Tensor:
        """qkv (..., 3 state) = [query, key, value] → (..., state): each token attends to itself and those before."""
        ...

    def cross_attention(self, layer: int, q: Tensor) -> Tensor:
        """q (..., state) → (..., state): each token attends to all of the audio."""
        ...


class DecoderBlock(Module):
    """Attention to the text and to the audio and a feed-forward part, each with a norm before it and a residual around
    it.
    """

    def __init__(self, state: int, heads: int) -> None:
        super().__init__()
        self.attn = SelfAttention(state, heads, causal=True)
        self.attn_ln = LayerNorm(state, EPSILON)
        self.cross_attn = CrossAttention(state, heads)
        self.cross_attn_ln = LayerNorm(state, EPSILON)
        self.mlp = FeedForward(state)
        self.mlp_ln = LayerNorm(state, EPSILON)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (..., state) → (..., state), as layer `layer` of `memory`."""
        y = memory.self_attention(layer, self.attn.qkv(self.attn_ln(x)))
        x = self.attn.out(y, x)
        y = memory.cross_attention(layer, self.cross_attn.query(self.cross_attn_ln(x)))
        x = self.cross_attn.out(y, x)
        return self.mlp(self.mlp_ln(x), x)


class WholeMemory:
    """Whole texts (B, T) and their audio (B, S, state), for training."""

    def __init__(self, blocks: ModuleList, audio: Tensor) -> None:
        self.blocks, self.audio = blocks, audio

    def self_attention(self, layer: int, qkv: Tensor) -> Tensor:
        y: Tensor = self.blocks[layer].attn.attend(qkv)
        return y

    def cross_attention(self, layer: int, q: Tensor) -> Tensor:
        y: Tensor = self.blocks[layer].cross_attn.attend(q, self.audio)
        return y


class Encoder(Module):
    """Log-mel spectrogram (B, n_mels, 2 t) → (B, t, state), t at most n_audio_ctx."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.context, self.mels = config.n_audio_ctx, config.n_mels
        state = config.n_audio_state
        self.conv1 = Convolution(config.n_mels, state, stride=1)
        self.conv2 = Convolution(state, state, stride=2)
        self.blocks = ModuleList(EncoderBlock(state, config.n_audio_head) for _ in range(config.n_audio_layer))
        self.ln_post = LayerNorm(state, EPSILON)
        self.positions: Tensor | None = None  # constant; computed on first use, unless read from a file

    def positional_embedding(self) -> Tensor:
        """(n_audio_ctx, state), on the encoder's device."""
        if self.positions is None:
            self.positions = sinusoids(self.context, self.conv2.shape[0])
        device = self.conv1.weight.device
        if self.positions.device is not device:
            self.positions = self.positions.to(device)
        return self.positions

    def forward(self, mel: Tensor) -> Tensor:
        if mel.ndim != 3 or mel.shape[1] != self.mels or mel.shape[2] % 2 or not 2 <= mel.shape[2] <= 2 * self.context:
            raise ValueError(
                f"encode: takes (B, {self.mels}, F) with an even number of frames F up to {2 * self.context}, "
                f"got {describe(mel)}"
            )
        x = self._convolve(mel)  # (B, F / 2, state)
        x = x + self.positional_embedding().narrow(0, 0, x.shape[1]).to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)

    def _convolve(self, mel: Tensor) -> Tensor:
        dtype = mel.dtype
        if dtype is float32 and not self.conv1.weight.requires_grad:
            mel = mel.to(activation_dtype(self.blocks[0].attn.qkv.weight))
        x = ops.gelu(self.conv1(mel))  # (B, state, F)
        return ops.gelu(self.conv2(x)).permute(0, 2, 1).contiguous().to(dtype)  # (B, F / 2, state)

    def warm_up(self) -> None:
        """Runs each kernel for a millisecond or two.

        Browsers recompile code that has run for a while, on another core, and make it several times faster. A call in
        progress does not become faster.
        """
        with no_grad():
            mel = ops.zeros(1, self.mels, 2 * min(self.context, WARM_UP), device=self.conv1.weight.device)
            x = self._convolve(mel)
            for _ in range(WARM_UP_RUNS):
                self.blocks[0](x)


class Decoder(Module):
    """Tokens (B, T) and audio (B, S, state) → logits (B, T, V); the head is the embedding."""

    tensor_parallel = {"token_embedding": ("vocabulary",)}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.context = config.n_text_ctx
        state = config.n_text_state
        self.token_embedding = Embedding(config.n_vocab, state)
        self.positional_embedding = new_parameter(ops.zeros, config.n_text_ctx, state)
        self.blocks = ModuleList(DecoderBlock(state, config.n_text_head) for _ in range(config.n_text_layer))
        self.ln = LayerNorm(state, EPSILON)

    def forward(self, tokens: Tensor, audio: Tensor) -> Tensor:
        return self.head(self.hidden(tokens, audio))

    def hidden(self, tokens: Tensor, audio: Tensor) -> Tensor:
        """tokens (B, T) integers, audio (B, S, state) → what the head reads (B, T, state)."""
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.context or tokens.shape[0] != audio.shape[0]:
            raise ValueError(
                f"decode: takes tokens (B, T) with T from 1 to {self.context} and audio (B, S, state), "
                f"got {describe(tokens)} and {describe(audio)}"
            )
        x = self.token_embedding(tokens) + self.positional_embedding.narrow(0, 0, tokens.shape[1])
        return self.read(x, WholeMemory(self.blocks, audio))

    @property
    def device(self) -> Device:
        """The device on which the decoder computes."""
        return self.token_embedding.weight.device

    def read(self, x: Tensor, memory: Memory) -> Tensor:
        """Applies all blocks to x (..., state), tokens with their positions → (..., state)."""
        for i, block in enumerate(self.blocks):
            x = block(x, memory, i)
        return x

    def head(self, x: Tensor) -> Tensor:
        """Logits (..., V) of x (..., state)."""
        return self.token_embedding.logits(self.ln(x))

    @property
    def heads(self) -> int:
        """The heads that this process computes: all of them, unless several compute the model together."""
        found: int = self.blocks[0].attn.heads
        return found
