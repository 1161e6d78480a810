"""T5Gemma 2 (Zhang et al. 2025, arXiv 2512.14856): an encoder and a decoder of Gemma 3's layers, with one table of
words. The encoder's tokens see those after them, too; in each layer of the decoder, the tokens of its own text and
those of the source share the weights of one attention. This module reads texts, not pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.nn import Embedding, Linear, Module, ModuleList, Parameter, ResidualLinear
from pyapp.nn.decoders.decoder import RotaryTable, normalized_heads, soft_capped
from pyapp.nn.encoders.encoders import Words, visible_keys
from pyapp.nn.heads import split_heads
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence

from .loading.config import optional_object, require
from .loading.gemma_config import Gemma3Config
from .loading.gemma_pairs import GemmaPairConfig

MODEL_TYPES = ("t5gemma2",)
BASE = "model"  # the name of encoder and decoder in files with a head
# The tensors of the part that sees pictures.
IGNORED = r"(model\.)?encoder\.(vision_tower|multi_modal_projector)\..*"
PICTURE_END = 256_000


@dataclass(frozen=True, kw_only=True)
class Config(GemmaPairConfig):
    """The fields of config.json: the settings of the encoder's language model and of the decoder, each as those of
    Gemma 3. eoi_token_index: the token after a picture, which has a vector of its own.
    """

    model_type = "t5gemma2"

    eoi_token_index: int = PICTURE_END

    def __post_init__(self) -> None:
        sizes = {(part.vocab_size, part.hidden_size) for part in (self.encoder, self.decoder)}
        require(len(sizes) == 1, "encoder and decoder differ in vocab_size or hidden_size")
        require(self.tie_word_embeddings, "tie_word_embeddings is false, expected one table of words")

    @classmethod
    def part(cls, name: str, values: dict[str, Any]) -> Gemma3Config:
        """As those of Gemma 3."""
        own = optional_object(values, "text_config") if name == "encoder" else values
        return Gemma3Config.from_dict({"text_config": own})

    @classmethod
    def further(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The token after a picture."""
        encoder = values.get("encoder") or {}
        found = values.get("eoi_token_index") or encoder.get("eoi_token_index", PICTURE_END)
        require(type(found) is int and found >= 0, f"eoi_token_index is {found!r:.40}, expected a token")
        return {"eoi_token_index": found}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        ends = {"eoi_token_index": self.eoi_token_index}
        text = self.encoder.to_dict() | {"model_type": "t5gemma2_text"}
        encoder = {"model_type": "t5gemma2_encoder", "text_config": text} | ends
        decoder = self.decoder.to_dict() | {"model_type": "t5gemma2_decoder"}
        return super().to_dict() | ends | {"encoder": encoder, "decoder": decoder}


class WordTable(Embedding):
    """The words, scaled by the root of their size, and the token after a picture."""

    def __init__(self, config: Config) -> None:
        size = config.encoder.hidden_size
        super().__init__(config.encoder.vocab_size, size)
        self.end, self.scale = config.eoi_token_index, sqrt(size)
        self.eoi_embedding = Parameter(ops.zeros(size))

    def scaled(self, ids: Tensor) -> Tensor:
        """ids (B, T) → (B, T, D)."""
        return ops.where((ids == self.end).unsqueeze(-1), self.eoi_embedding, self(ids) * self.scale)


class Attention(Module):
    """Gemma 3's attention: queries and keys are normalised. `layer` counts the layers of its part."""

    def __init__(self, config: Gemma3Config, layer: int) -> None:
        super().__init__()
        self.layer, self.heads = layer, config.attention(layer)
        width, biased, size = config.hidden_size, config.attention_bias, self.heads.head_dim
        inner, kv = self.heads.heads * size, self.heads.kv_heads * size
        self.q_proj = Linear(width, inner, bias=biased)
        self.k_proj = Linear(width, kv, bias=biased)
        self.v_proj = Linear(width, kv, bias=biased)
        self.o_proj = ResidualLinear(inner, width, bias=biased)
        self.q_norm, self.k_norm = (OffsetRMSNorm(size, config.rms_norm_eps) for _ in range(2))
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) → queries (B, T, H, size), keys and values (B, T, KV, size)."""
        return split_heads(normalized_heads(self.qkv(self, x), self.heads, self.q_norm, self.k_norm), self.heads)

    def encode(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """Attention of each text to itself in both directions: x (B, T, D) → (B, T, D). A window is half as wide to
        each side.
        """
        q, k, v = self.projected(x)
        q, k = (ops.rope(part, table, interleaved=False) for part in (q, k))
        wide = self.heads.window
        window = None if wide is None else ((wide + 1) // 2 - 1, wide // 2)
        y = ops.attention(q, k, v, False, self.heads.scale, window, mask=mask)
        return self.o_proj(y.reshape(*x.shape[:2], -1))

    def decode(self, x: Tensor, memory: Memory, table: Tensor, places: Tensor) -> Tensor:
        """Attention to the source and to the text so far: x (R, T, D), places (T,) int32 → (R, T, D)."""
        q, k, v = self.projected(x)
        q, k = (ops.rope(part, table, places, interleaved=False) for part in (q, k))
        return self.o_proj(memory.joint(self.layer, q, k, v, self.project, self.heads))

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, size) of a source (B, S, D), which have no positions."""
        kv, size = self.heads.kv_heads, self.heads.head_dim
        k, v = (part(encoded).reshape(*encoded.shape[:2], kv, size) for part in (self.k_proj, self.v_proj))
        return self.k_norm(k), v


class Layer(Module):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    def __init__(self, config: Gemma3Config, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        norm = partial(OffsetRMSNorm, size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.pre_self_attn_layernorm, self.post_self_attn_layernorm = norm(), norm()
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_activation)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(), norm()

    def forward(self, x: Tensor, attention: Callable[[Tensor], Tensor]) -> Tensor:
        """x (R, T, D) → (R, T, D). attention: that of this layer, with what it attends to."""
        x = x + self.post_self_attn_layernorm(attention(self.pre_self_attn_layernorm(x)))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Stack(Module):
    """The encoder or the decoder: the words, its layers and its last norm."""

    def __init__(self, config: Gemma3Config, words: WordTable) -> None:
        super().__init__()
        self.embed_tokens = words
        self.layers = ModuleList(Layer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.kinds = config.layer_types
        self.rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*self.kinds}}

    def encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        x = self.embed_tokens.scaled(ids)
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            table = self.rotary[kind].upto(ids.shape[1], ids.device)
            x = layer(x, partial(layer.self_attn.encode, mask=mask, table=table))
        return self.norm(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x, places = self.embed_tokens.scaled(tokens), memory.positions(tokens)
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            table = self.rotary[kind].upto(memory.length, x.device)
            x = layer(x, partial(layer.self_attn.decode, memory=memory, table=table, places=places))
        return self.norm(x)


class T5Gemma2(SequenceToSequence):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = min(config.encoder.max_position_embeddings, config.decoder.max_position_embeddings)
        words = WordTable(config)
        self.model = Module()
        self.model.encoder = Module()
        self.model.encoder.text_model = Stack(config.encoder, words)
        self.model.decoder = Stack(config.decoder, words)
        self.lm_head = Module()
        self.lm_head.out_proj = Words(config.decoder.hidden_size, config.decoder.vocab_size, words, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.model.decoder.embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.encoder.text_model.encode(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        logits = self.lm_head.out_proj(self.model.decoder.decode(tokens, memory))  # (R, T, V)
        return soft_capped(logits, self.config.decoder.final_logit_softcapping)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: files call the encoder's language model the encoder."""
    return re.sub(r"^((?:model\.)?encoder\.)(embed_tokens|layers|norm)\.", r"\1text_model.\2.", name)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": T5Gemma2}
