"""T5Gemma (Zhang et al. 2025, arXiv 2504.06225): an encoder and a decoder of Gemma 2's layers. The encoder's tokens see
those after them, within the windows of half of its layers; each layer of the decoder attends to the source, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Embedding, Module, ModuleList
from pyapp.nn.decoders.decoder import RotaryTable, soft_capped
from pyapp.nn.encoders.encoders import Words, visible_keys
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.sequence_to_sequence.shared_heads import SharedHeadsAttention

from .loading.gemma_config import GEMMA2_NESTED_DEFAULTS, Gemma2Config
from .loading.gemma_pairs import GemmaPairConfig

MODEL_TYPES = ("t5gemma",)
BASE = "model"  # the name of encoder and decoder in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(GemmaPairConfig):
    """The fields of config.json: the settings of the encoder and of the decoder, each as those of Gemma 2."""

    model_type = "t5gemma"

    @classmethod
    def part(cls, name: str, values: dict[str, Any]) -> Gemma2Config:
        """As those of Gemma 2."""
        found: Gemma2Config = Gemma2Config.from_dict({**GEMMA2_NESTED_DEFAULTS, **values, "model_type": "gemma2"})
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        parts = {name: getattr(self, name).to_dict() | {"model_type": "t5_gemma_module"} for name in (
            "encoder", "decoder")}  # fmt: skip
        return super().to_dict() | parts


class Attention(SharedHeadsAttention):
    """Gemma 2's attention. `layer` counts the layers of its part; `source_width`: that of what it attends to, None: to
    its own text.
    """

    def __init__(self, config: Gemma2Config, layer: int, source_width: int | None = None) -> None:
        heads = config.attention(layer)
        heads = heads if source_width is None else replace(heads, window=None)
        super().__init__(layer, heads, config.hidden_size, source_width, config.attention_bias)


class Layer(Module):
    """Attention and feed-forward, each between two norms, with a residual around it; in a decoder's layer attention to
    the source between them. `source_width`: None in an encoder's.
    """

    def __init__(self, config: Gemma2Config, layer: int, source_width: int | None = None) -> None:
        super().__init__()
        size = config.hidden_size
        norm = partial(OffsetRMSNorm, size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.pre_self_attn_layernorm, self.post_self_attn_layernorm = norm(), norm()
        if source_width is not None:
            self.cross_attn = Attention(config, layer, source_width)
            self.pre_cross_attn_layernorm, self.post_cross_attn_layernorm = norm(), norm()
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_activation)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(), norm()

    def encode(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D)."""
        y = self.self_attn.encode(self.pre_self_attn_layernorm(x), mask, table)
        return self._feed_forward(x + self.post_self_attn_layernorm(y))

    def decode(self, x: Tensor, memory: Memory, table: Tensor, places: Tensor) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        y = self.self_attn.own(self.pre_self_attn_layernorm(x), memory, table, places)
        x = x + self.post_self_attn_layernorm(y)
        y = self.cross_attn.source(self.pre_cross_attn_layernorm(x), memory)
        return self._feed_forward(x + self.post_cross_attn_layernorm(y))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Stack(Module):
    """The encoder or, with a `source_width`, the decoder: its words, layers and last norm."""

    def __init__(self, config: Gemma2Config, source_width: int | None = None) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(Layer(config, layer, source_width) for layer in range(config.num_hidden_layers))
        self.norm = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary, self.scale = RotaryTable(config.to_dict()), sqrt(config.hidden_size)

    def encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        x, table = self.embed_tokens(ids) * self.scale, self.rotary.upto(ids.shape[1], ids.device)
        for layer in self.layers:
            x = layer.encode(x, mask, table)
        return self.norm(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x, places = self.embed_tokens(tokens) * self.scale, memory.positions(tokens)
        table = self.rotary.upto(memory.length, x.device)
        for layer in self.layers:
            x = layer.decode(x, memory, table, places)
        return self.norm(x)


class T5Gemma(SequenceToSequence):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = min(config.encoder.max_position_embeddings, config.decoder.max_position_embeddings)
        self.model = Module()
        self.model.encoder = Stack(config.encoder)
        self.model.decoder = Stack(config.decoder, config.encoder.hidden_size)
        table = self.model.decoder.embed_tokens if config.tie_word_embeddings else None
        self.lm_head = Module()
        self.lm_head.out_proj = Words(config.decoder.hidden_size, config.decoder.vocab_size, table, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.model.decoder.embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.encoder.encode(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        logits = self.lm_head.out_proj(self.model.decoder.decode(tokens, memory))  # (R, T, V)
        return soft_capped(logits, self.config.decoder.final_logit_softcapping)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": T5Gemma}
