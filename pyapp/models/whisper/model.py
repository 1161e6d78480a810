"""Whisper (Radford et al. 2022, arXiv 2212.04356; https://github.com/openai/whisper): two convolutions and a
transformer over a log-mel spectrogram, and a transformer decoder that attends to what they give.

Projections that read the same input are one matrix: `qkv` is [query; key; value], `kv` is [key; value]. Keys have no
bias. Training and inference are the same module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import log, sqrt
from typing import Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.op import describe
from pyapp.engine.packed import PackedSequence, attends_in_int8
from pyapp.errors import ModelError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers import _parameter, initialize_normal, skip_initialization

from .session import DecoderSession, SessionPool

EPSILON = 1e-5
MAX_TIMESCALE = 10000.0
# Far above every Whisper model, far below what would exhaust memory; by the last word of a number's name.
LIMITS = {"layer": 1 << 8, "head": 1 << 8, "ctx": 1 << 15, "vocab": 1 << 20, "mels": 1 << 10}
WIDEST = 1 << 14  # of the state
KERNEL = 3  # width of both convolutions, padded by one on either side
WARM_UP, WARM_UP_RUNS = 64, 4  # positions of the audio, and how often the first block reads them


@dataclass(frozen=True)
class Config:
    """The numbers of a Whisper model, by openai's names (whisper.model.ModelDimensions)."""

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
                hint="The decoder reads what the encoder gives: both have one width",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From openai's names; other keys are left alone. ModelError for one that is missing or no number."""
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


def sinusoids(length: int, channels: int) -> Tensor:
    """The encoder's positions (length, channels): sines, then cosines, of timescales from 1 to MAX_TIMESCALE."""
    steps = np.exp(np.arange(channels // 2, dtype=np.float32) * np.float32(-_log_step(channels)))
    angles = np.arange(length, dtype=np.float32)[:, None] * steps.astype(np.float32)[None, :]
    return ops.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32))


def _log_step(channels: int) -> float:
    return log(MAX_TIMESCALE) / max(channels // 2 - 1, 1)


class Convolution(Module):
    """x (B, C, L) → (B, O, L / stride): a window of three, zeros beyond the ends."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.shape = (outputs, channels, KERNEL)
        self.weight = _parameter(ops.zeros, *self.shape)
        self.bias = _parameter(ops.zeros, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return ops.conv1d(x, self.weight, self.bias, stride=self.stride, padding=1)


class Projections(Linear):
    """Several projections of one input in one matrix; the rows `keys` have no bias."""

    def __init__(self, inputs: int, count: int, keys: int) -> None:
        super().__init__(inputs, count * inputs)
        self.keys = slice(keys * inputs, (keys + 1) * inputs)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        bias = self.bias
        assert bias is not None
        if bias.requires_grad:  # training must not move what is no parameter of the model
            mask = ops.ones(bias.shape[0])
            mask[self.keys] = 0.0
            bias = bias * mask
        return ops.linear(x, self.weight, bias, residual)


class SelfAttention(Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, state: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = Projections(state, 3, keys=1)
        self.out = Linear(state, state)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, state) → residual + attention (B, T, state)."""
        batch, tokens, state = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3 * self.heads, state // self.heads)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D)
        y = _packed_attention(q, k, v) if self._in_int8(x) else ops.attention(q, k, v, self.causal)
        return self.out(y.reshape(x.shape), residual)

    def _in_int8(self, x: Tensor) -> bool:
        return not self.causal and not x.requires_grad and attends_in_int8(self.qkv.weight, x.shape[2] // self.heads)


def _packed_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q, k, v (B, T, H, D) → (B, T, H, D)."""
    sequence = PackedSequence(*k.shape[1:])
    parts = []
    for i in range(q.shape[0]):
        sequence.write(k.narrow(0, i, 1).squeeze(0), v.narrow(0, i, 1).squeeze(0))
        parts.append(sequence.attention(q.narrow(0, i, 1).squeeze(0)).unsqueeze(0))
    return parts[0] if len(parts) == 1 else ops.cat(parts)


class CrossAttention(Module):
    """Multi-head attention of the text to the audio."""

    def __init__(self, state: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(state, state)
        self.kv = Projections(state, 2, keys=0)
        self.out = Linear(state, state)

    def forward(self, x: Tensor, audio: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, state), audio (B, S, state) → residual + attention (B, T, state)."""
        size = x.shape[2] // self.heads
        q = self.query(x).reshape(*x.shape[:2], self.heads, size)  # (B, T, H, D)
        k, v = self.keys_and_values(audio)
        return self.out(ops.attention(q, k, v, causal=False).reshape(x.shape), residual)

    def keys_and_values(self, audio: Tensor) -> tuple[Tensor, Tensor]:
        """audio (B, S, state) → two of (B, S, H, D)."""
        batch, length, state = audio.shape
        kv = self.kv(audio).reshape(batch, length, 2 * self.heads, state // self.heads)
        return kv.narrow(2, 0, self.heads), kv.narrow(2, self.heads, self.heads)


class Block(Module):
    """Attention (to the audio too, in the decoder) and a feed-forward part, each behind a norm, around a residual."""

    def __init__(self, state: int, heads: int, decoder: bool) -> None:
        super().__init__()
        self.attn = SelfAttention(state, heads, causal=decoder)
        self.attn_ln = LayerNorm(state, EPSILON)
        self.cross_attn = CrossAttention(state, heads) if decoder else None
        self.cross_attn_ln = LayerNorm(state, EPSILON) if decoder else None
        self.mlp = FeedForward(state)
        self.mlp_ln = LayerNorm(state, EPSILON)

    def forward(self, x: Tensor, audio: Tensor | None = None) -> Tensor:
        x = self.attn(self.attn_ln(x), x)
        if self.cross_attn is not None and self.cross_attn_ln is not None:
            x = self.cross_attn(self.cross_attn_ln(x), audio, x)
        return self.mlp(self.mlp_ln(x), x)


class FeedForward(Module):
    """Four times as wide inside, with a GELU."""

    def __init__(self, state: int) -> None:
        super().__init__()
        self.up = Linear(state, 4 * state)
        self.down = Linear(4 * state, state)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.down(ops.gelu(self.up(x)), residual)


class Encoder(Module):
    """Log-mel spectrogram (B, n_mels, 2 t) → (B, t, state), t at most n_audio_ctx."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.context, self.mels = config.n_audio_ctx, config.n_mels
        state = config.n_audio_state
        self.conv1 = Convolution(config.n_mels, state, stride=1)
        self.conv2 = Convolution(state, state, stride=2)
        self.blocks = ModuleList(Block(state, config.n_audio_head, decoder=False) for _ in range(config.n_audio_layer))
        self.ln_post = LayerNorm(state, EPSILON)
        self.positions: Tensor | None = None  # fixed; made when first needed, unless a file brings them

    def positional_embedding(self) -> Tensor:
        """(n_audio_ctx, state)."""
        if self.positions is None:
            self.positions = sinusoids(self.context, self.conv2.shape[0])
        return self.positions

    def forward(self, mel: Tensor) -> Tensor:
        if mel.ndim != 3 or mel.shape[1] != self.mels or mel.shape[2] % 2 or not 2 <= mel.shape[2] <= 2 * self.context:
            raise ValueError(
                f"encode: takes (B, {self.mels}, F) with an even number of frames F up to {2 * self.context}, "
                f"got {describe(mel)}"
            )
        x = self._convolve(mel)  # (B, F / 2, state)
        x = x + self.positional_embedding().narrow(0, 0, x.shape[1])
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)

    def _convolve(self, mel: Tensor) -> Tensor:
        x = ops.gelu(self.conv1(mel))  # (B, state, F)
        return ops.gelu(self.conv2(x)).permute(0, 2, 1).contiguous()  # (B, F / 2, state)

    def warm_up(self) -> None:
        """Runs each kernel for a millisecond or two. Browsers compile what has run for a while once more, on another
        core and for several times the speed; a call that has begun does not gain by it.
        """
        with no_grad():
            x = self._convolve(ops.zeros(1, self.mels, 2 * min(self.context, WARM_UP)))
            for _ in range(WARM_UP_RUNS):
                self.blocks[0](x)


class Decoder(Module):
    """Tokens (B, T) and audio (B, S, state) → logits (B, T, V); the head is the embedding."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.context = config.n_text_ctx
        state = config.n_text_state
        self.token_embedding = Embedding(config.n_vocab, state)
        self.positional_embedding = _parameter(ops.zeros, config.n_text_ctx, state)
        self.blocks = ModuleList(Block(state, config.n_text_head, decoder=True) for _ in range(config.n_text_layer))
        self.ln = LayerNorm(state, EPSILON)

    def forward(self, tokens: Tensor, audio: Tensor) -> Tensor:
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.context or tokens.shape[0] != audio.shape[0]:
            raise ValueError(
                f"decode: takes tokens (B, T) with T from 1 to {self.context} and audio (B, S, state), "
                f"got {describe(tokens)} and {describe(audio)}"
            )
        x = self.token_embedding(tokens) + self.positional_embedding.narrow(0, 0, tokens.shape[1])
        for block in self.blocks:
            x = block(x, audio)
        return self.head(x)

    def head(self, x: Tensor) -> Tensor:
        """Logits (..., V) of x (..., state)."""
        return ops.linear(self.ln(x), self.token_embedding.weight)


class Whisper(Module):
    """The model. `alignment_heads` are the (layer, head) whose attention follows the audio in time, for word times;
    None: all heads of the upper half of the decoder.
    """

    def __init__(self, config: Config, initialize: bool = True, generator: Any = None) -> None:
        super().__init__()
        self.config = config
        self.alignment_heads: list[tuple[int, int]] | None = None
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self._pool = SessionPool()
        if initialize:
            self.initialize(generator)

    @classmethod
    def empty(cls, config: Config) -> Whisper:
        """A model without values, whose parameters are about to be replaced."""
        with skip_initialization():
            return cls(config, initialize=False)

    def initialize(self, generator: Any = None) -> None:
        """Normal with deviation 0.02, less for what writes into the residual stream; convolutions by their inputs."""
        layers = {"encoder": self.config.n_audio_layer, "decoder": self.config.n_text_layer}
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                initialize_normal(parameter, 0.02 / sqrt(2 * layers[name.split(".")[0]]), generator)
            elif parameter.ndim == 3:
                initialize_normal(parameter, 1 / sqrt(parameter.shape[1] * KERNEL), generator)
            elif parameter.ndim == 2:
                initialize_normal(parameter, 0.02, generator)
            elif name.endswith("bias"):
                with no_grad():
                    parameter.zero_()

    def encode(self, mel: Tensor) -> Tensor:
        """mel (B, n_mels, 2 t) float32 → audio (B, t, state), t at most n_audio_ctx."""
        return self.encoder(mel)

    def decode(self, tokens: Tensor, audio: Tensor) -> Tensor:
        """tokens (B, T) integers, audio (B, S, state) → logits (B, T, V)."""
        return self.decoder(tokens, audio)

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        """mel (B, n_mels, 2 t), tokens (B, T) integers → logits (B, T, V)."""
        return self.decode(tokens, self.encode(mel))

    # -- with caches

    def new_session(self, audio: Tensor, rows: int = 1, eager: bool = False) -> DecoderSession:
        """A text of `rows` hypotheses at its beginning, over one window `audio` (S, state) or (1, S, state)."""
        return self._pool.session(self, audio, rows, eager)

    def cross_attention(self, tokens: Sequence[int], audio: Tensor) -> tuple[Any, Any]:
        """How the heads look at the audio while `tokens` (T) are read: float32 logits (T, V) and scores (layers, heads,
        T, S) before the softmax, as NumPy arrays.
        """
        layers, heads = self.config.n_text_layer, self.config.n_text_head
        with self.new_session(audio) as session:
            every = [(layer, head) for layer in range(layers) for head in range(heads)]
            logits, scores = session.watch(tokens, every)
        return logits, scores.reshape(layers, heads, *scores.shape[1:])
