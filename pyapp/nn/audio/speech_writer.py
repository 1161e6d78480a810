"""The common parts of models which write the text of what an encoder has heard, as Moonshine (Jeffries et al. 2024,
arXiv 2410.15608): attention with rotary positions in neighbouring pairs, or without, and a decoder with gated
feed-forward parts.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..decoders.decoder import RotaryTable
from ..encoders.encoders import Words, attend
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence


class Attention(Module):
    """Multi-head attention of heads with `size` features. `output_bias`: whether the last projection has a bias."""

    def __init__(self, width: int, heads: int, size: int, bias: bool, output_bias: bool = False) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.q_proj = Linear(width, heads * size, bias)
        self.k_proj = Linear(width, heads * size, bias)
        self.v_proj = Linear(width, heads * size, bias)
        self.o_proj = ResidualLinear(heads * size, width, output_bias)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) → its queries, keys and values (B, T, H, size)."""
        parts = self.qkv(self, x).reshape(*x.shape[:2], 3 * self.heads, self.size)
        q, k, v = (parts.narrow(2, i * self.heads, self.heads) for i in range(3))
        return q, k, v

    def encode(self, x: Tensor, residual: Tensor, mask: Tensor | None, table: Tensor | None = None) -> Tensor:
        """x and residual (B, T, D), mask for `attend`, table of ops.rope or None → residual + attention of each
        recording to itself (B, T, D).
        """
        q, k, v = self.split(x)
        if table is not None:
            q, k = ops.rope(q, table), ops.rope(k, table)
        return self.o_proj(attend(q, k, v, mask), residual)

    def own(
        self, x: Tensor, residual: Tensor, memory: Memory, layer: int, table: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """x and residual (R, T, D), table of ops.rope or None, places (T,) int32 → residual + attention to the text so
        far (R, T, D).
        """
        q, k, v = self.split(x)
        if table is not None:
            q, k = ops.rope(q, table, places), ops.rope(k, table, places)
        return self.o_proj(memory.own(layer, q, k, v), residual)

    def source(self, x: Tensor, residual: Tensor, memory: Memory, layer: int) -> Tensor:
        """x and residual (R, T, D) → residual + attention to the recording (R, T, D)."""
        q = self.q_proj(x).reshape(*x.shape[:2], self.heads, self.size)  # (R, T, H, size)
        return self.o_proj(memory.source(layer, q, self.project), residual)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, size) of a recording (B, S, D)."""
        k, v = (part(encoded).reshape(*encoded.shape[:2], self.heads, self.size) for part in (self.k_proj, self.v_proj))
        return k, v


class ValueGatedFeedForward(Module):
    """fc2(activation(gate) * value), where fc1 gives [value, gate]."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.activation = activation_named(activation)
        self.fc1 = Linear(width, 2 * inner)
        self.fc2 = ResidualLinear(inner, width)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., width) → residual + feed-forward (..., width)."""
        y = self.fc1(x)
        inner = y.shape[-1] // 2
        return self.fc2(self.activation(y.narrow(-1, inner, inner)) * y.narrow(-1, 0, inner), residual)


class DecoderLayer(Module):
    """Attention to the text, attention to the recording, and a feed-forward part, each after a norm and with a
    residual.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, sizes = config.hidden_size, (config.num_attention_heads, config.head_size, config.attention_bias)
        self.self_attn = Attention(width, *sizes)
        self.encoder_attn = Attention(width, *sizes)
        self.mlp = ValueGatedFeedForward(width, config.intermediate_size, config.hidden_act)
        self.input_layernorm = LayerNorm(width, bias=False)
        self.post_attention_layernorm = LayerNorm(width, bias=False)
        self.final_layernorm = LayerNorm(width, bias=False)

    def forward(self, x: Tensor, memory: Memory, layer: int, table: Tensor, places: Tensor) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.self_attn.own(self.input_layernorm(x), x, memory, layer, table, places)
        x = self.encoder_attn.source(self.post_attention_layernorm(x), x, memory, layer)
        return self.mlp(self.final_layernorm(x), x)


class Decoder(Module):
    """The decoder. `config` has the numbers of its layers as `num_hidden_layers` …, and `rotary`, the settings of
    RotaryTable.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = LayerNorm(config.hidden_size, bias=False)
        self.rotary, self.most = RotaryTable(config.rotary), config.max_position_embeddings

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x, places = self.embed_tokens(tokens), memory.positions(tokens)
        table = self.rotary.upto(self.most, x.device)
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i, table, places)
        return self.norm(x)


class SampleEncoder(Module):
    """What hears samples. `shortest`: the samples of one moment."""

    shortest: int

    def moments(self, samples: int) -> int:
        """The moments T of `samples` samples; 0 if they are too few for one."""
        raise NotImplementedError

    def heard(self, mask: Tensor | None, moments: int) -> Tensor | None:
        """mask (B, N), 0 for padding → (B, T), 0 (or False) for moments of padding."""
        raise NotImplementedError

    def forward(self, samples: Tensor, mask: Tensor | None = None) -> Tensor:
        """samples (B, N), mask (B, N) → (B, T, D)."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Hears a moment of silence, so that the first recording starts sooner."""
        with no_grad():
            self(ops.zeros(1, self.shortest, device=next(self.parameters()).device))


class SpeechWriter(SequenceToSequence):
    """A model that writes the text of a recording: its source is samples (B, N). `bias`: of the head."""

    def __init__(self, config: Any, encoder: Module, decoder: Any, bias: bool = False) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        self.model = Module()
        self.model.encoder = encoder
        self.model.decoder = decoder
        table = decoder.embed_tokens if config.tie_word_embeddings else None
        self.proj_out = Words(config.hidden_size, config.vocab_size, table, bias=bias)

    @property
    def encoder(self) -> Any:
        """What hears."""
        return self.model.encoder

    @property
    def device(self) -> Device:
        found: Device = self.model.decoder.embed_tokens.weight.device
        return found

    def source_mask(self, mask: Tensor | None, source: Tensor, encoded: Tensor) -> Tensor | None:
        found: Tensor | None = self.encoder.heard(mask, encoded.shape[1])
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Samples (B, N) → (B, S, D). attention_mask (B, N): 0 for padding, which stands at the end."""
        found: Tensor = self.encoder(ids, attention_mask)
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.proj_out(self.model.decoder(tokens, memory))

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        kind = type(self).__name__
        if ids.ndim != 2 or not ids.dtype.is_floating_point or self.encoder.moments(ids.shape[1]) < 1:
            raise ArgumentError(f"{kind}: samples are (B, N), enough for a moment, not {describe(ids)}")
        if mask is not None and mask.shape != ids.shape:
            raise ArgumentError(f"{kind}: attention_mask is {describe(mask)}, the samples {describe(ids)}")
