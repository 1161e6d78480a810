"""NVIDIA's Canary 2 (Sekoyan et al. 2025, arXiv 2509.14128) and Cohere Transcribe (Cohere 2026): the encoder of
FastConformer (Rekesh et al. 2023, arXiv 2305.05084), and a decoder that writes what was said, or with Canary its
translation, as tokens at its beginning ask.

Parameters have the names of Hugging Face's library; those of Cohere's files are read too (`renamed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from pyapp.audio.processors.banks import StandardizedProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.fast_conformer import StandardizedConformer
from pyapp.nn.audio.speech_writer import Attention, SpeechWriter
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.positions.sinusoids import separate_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import FixedPositions, Memory

from .loading.config import (
    check_depth,
    check_fields,
    check_heads,
    check_padding,
    check_token,
    optional_object,
    read_config,
    require,
)
from .loading.fast_conformer_config import FastConformerConfig

MODEL_TYPES = ("canary", "cohere_asr")
BASE = "model"
IGNORED = r"(model\.)?decoder\.pos_emb\.positional_embedding|preprocessor\.featurizer\..*|.*\.num_batches_tracked"
PROCESSOR = StandardizedProcessor
# What an encoder_config leaves out, by the model_type.
ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "canary": {"num_hidden_layers": 32, "num_mel_bins": 128, "scale_input": False},
    "cohere_asr": {
        "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 48, "num_mel_bins": 128,
        "scale_input": False,
    },
}  # fmt: skip
# The names of Cohere's files, and those of the library.
OLDER_NAMES = (
    (r"^(model\.)?encoder\.pre_encode\.conv\.", r"encoder.subsampling.layers."),
    (r"^(model\.)?encoder\.pre_encode\.out\.", r"encoder.subsampling.linear."),
    (r"^(model\.)?transf_decoder\._embedding\.position_embedding\.pos_enc$", r"decoder.pos_emb.weight"),
    (r"^(model\.)?transf_decoder\._embedding\.token_embedding", r"decoder.embed_tokens"),
    (r"^(model\.)?transf_decoder\._embedding\.layer_norm", r"decoder.embedding_layernorm"),
    (r"^(model\.)?transf_decoder\._decoder\.final_layer_norm", r"decoder.norm"),
    (r"^(model\.)?transf_decoder\._decoder\.layers", r"decoder.layers"),
    (r"^(model\.)?encoder_decoder_proj\.", r"decoder.proj."),
    (r"^log_softmax\.mlp\.layer0\.", r"proj_out."),
    (r"\.self_attn\.linear_([qkv])\.", r".self_attn.\1_proj."),
    (r"\.self_attn\.linear_out\.", r".self_attn.o_proj."),
    (r"\.self_attn\.linear_pos\.", r".self_attn.relative_k_proj."),
    (r"\.self_attn\.pos_bias_([uv])$", r".self_attn.bias_\1"), (r"\.first_sub_layer\.", r".self_attn."),
    (r"\.second_sub_layer\.", r".encoder_attn."), (r"\.query_net\.", r".q_proj."), (r"\.key_net\.", r".k_proj."),
    (r"\.value_net\.", r".v_proj."), (r"\.out_projection\.", r".o_proj."),
    (r"\.third_sub_layer\.dense_in\.", r".mlp.fc1."), (r"\.third_sub_layer\.dense_out\.", r".mlp.fc2."),
    (r"\.layer_norm_1\.", r".input_layernorm."), (r"\.layer_norm_2\.", r".post_attention_layernorm."),
    (r"\.layer_norm_3\.", r".final_layernorm."), (r"\.conv\.batch_norm\.", r".conv.norm."),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in OLDER_NAMES:
        name = re.sub(old, new, name)
    return name


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json; those of Canary's decoder are in its decoder_config. `kind`: the model_type."""

    kind: str
    encoder: FastConformerConfig
    vocab_size: int = 16384
    hidden_size: int = 1024
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = 4096
    hidden_act: str = "relu"
    attention_bias: bool = True
    max_position_embeddings: int = 1024
    pad_token_id: int | None = 2
    eos_token_id: int = 3
    bos_token_id: int = 4
    decoder_start_token_id: int | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        heads = self.num_attention_heads
        keys = self.num_key_value_heads or heads
        require(keys == heads, f"num_key_value_heads is {keys}, expected the {heads} of the queries")
        check_heads(self.hidden_size, heads, keys, self.head_dim, self.max_position_embeddings)
        require(self.hidden_size % 2 == 0, f"hidden_size is {self.hidden_size}, expected an even number")
        check_padding(self.pad_token_id, self.vocab_size)
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)
        widths = self.encoder.hidden_size, self.hidden_size
        require(
            self.projects or widths[0] == widths[1], f"the encoder has {widths[0]} numbers, the decoder {widths[1]}"
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        kind = str(values.get("model_type", "canary"))
        encoder = FastConformerConfig.part_of(values, ENCODERS.get(kind, ENCODERS["canary"]))
        own: Any = {}
        if kind == "canary":
            own = {"head_dim": 128, **optional_object(values, "decoder_config")}
            usual = {"decoder_start_token_id": 7, "tie_word_embeddings": True}
        else:
            usual = {"tie_word_embeddings": False}
        own = {name: value for name, value in own.items() if name != "tie_word_embeddings"}
        return read_config(cls, {**usual, **values, **own, "encoder": encoder, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        kind, encoder = values.pop("kind"), values.pop("encoder")
        more = {"decoder_config": dict(values)} if kind == "canary" else {}
        return values | more | {"model_type": kind, "encoder_config": encoder}

    @property
    def projects(self) -> bool:
        """Whether the decoder reads what was heard through a projection, and has learnt positions."""
        return self.kind == "cohere_asr"

    @property
    def size(self) -> int:
        """The features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads


class DecoderLayer(Module):
    """Attention to the text, attention to the recording, and a feed-forward part, each after a norm and with a
    residual.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        sizes = width, config.num_attention_heads, config.size, bias, bias
        self.self_attn = Attention(*sizes)
        self.encoder_attn = Attention(*sizes)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.input_layernorm = LayerNorm(width)
        self.post_attention_layernorm = LayerNorm(width)
        self.final_layernorm = LayerNorm(width)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.self_attn.own(self.input_layernorm(x), x, memory, layer)
        x = self.encoder_attn.source(self.post_attention_layernorm(x), x, memory, layer)
        return self.mlp(self.final_layernorm(x), x)


class Decoder(Module):
    """The decoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        places, width = config.max_position_embeddings, config.hidden_size
        self.embed_tokens = Embedding(config.vocab_size, width, config.pad_token_id)
        self.layers = ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = LayerNorm(width)
        self.pos_emb: Module = (
            Embedding(places, width) if config.projects else FixedPositions(partial(separate_sinusoids, places, width))
        )
        self.embedding_layernorm = LayerNorm(width)
        self.proj = Linear(config.encoder.hidden_size, width) if config.projects else None

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x = self.embedding_layernorm(self.embed_tokens(tokens) + self.pos_emb(memory.positions(tokens)))
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i)
        return self.norm(x)


class Canary(SpeechWriter):
    """The model with its head over words. Its source is spectrograms (B, F, bins)."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, StandardizedConformer(config.encoder), Decoder(config), bias=True)

    @property
    def translates(self) -> bool:
        """Whether it writes translations, too."""
        return not self.config.projects

    def prompt_tokens(self, language: str | None, task: str) -> list[str]:
        """The tokens that ask for what is said in a language (None: English), with punctuation, or for its translation
        into English.
        """
        spoken = language or "en"
        written = "en" if task == "translate" else spoken
        names = (
            "startofcontext", "startoftranscript", "emo:undefined", spoken, written, "pnc", "noitn", "notimestamp",
            "nodiarize",
        )  # fmt: skip
        return [f"<|{name}|>" for name in names]

    def source_mask(self, mask: Tensor | None, source: Tensor, encoded: Tensor) -> Tensor | None:
        heard = self.encoder.heard(mask)
        return None if heard is None else heard[-1]

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Spectrograms (B, F, bins) → (B, S, D). attention_mask (B, F): 0 for padding, which stands at the end."""
        x = super().encode(ids, attention_mask)
        projection = self.model.decoder.proj
        return x if projection is None else projection(x)

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        bins = self.config.encoder.num_mel_bins
        if ids.ndim != 3 or not ids.dtype.is_floating_point or ids.shape[2] != bins or ids.shape[1] < 2:
            raise ArgumentError(f"Canary: spectrograms are (B, F, {bins}), two frames or more, not {describe(ids)}")
        if mask is not None and mask.shape != ids.shape[:2]:
            raise ArgumentError(f"Canary: attention_mask is {describe(mask)}, the spectrograms {describe(ids)}")


TASKS: Mapping[str, Callable[[Config], Module]] = {"speech-recognition": Canary}
