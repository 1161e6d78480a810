"""T5 (Raffel et al. 2019, arXiv 1910.10683), T5 1.1 and FLAN-T5: an encoder and a decoder with biases by distance in
place of positions. Also mT5 (Xue et al. 2020, arXiv 2010.11934), and UMT5 (Chung et al. 2023, arXiv 2304.09151), of
which every layer has biases of its own.

Parameters have the names of Hugging Face's files. Scores of attention are not scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.engine.ops import cat
from pyapp.nn import Embedding, Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.encoders import Encoder, Words, as_bias, attend_joined, visible_keys
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.relative_positions import distance_bias, distance_buckets
from pyapp.nn.sequence_to_sequence import Memory, SequenceToSequence

from .loading.config import check_fields, check_padding, read_config, require
from .loading.gguf import LENGTHS, Gguf

MODEL_TYPES = ("t5", "mt5", "umt5")
BASE = "transformer"  # what some files put before the names
USUAL = 512  # tokens of the published models, for GGUF's key
MOST = 1 << 15  # tokens: the biases know no largest position


@dataclass(frozen=True)
class Config:
    """The hyper-parameters, by the names of config.json."""

    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int | None = None
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    dense_act_fn: str | None = None
    is_gated_act: bool | None = None
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int = 0
    kind: str = "t5"  # the model_type

    def __post_init__(self) -> None:
        check_fields(self)
        buckets = self.relative_attention_num_buckets
        require(
            4 <= buckets <= 1 << 16,
            f"relative_attention_num_buckets is {buckets}, expected 4 to 65,536: both directions need two or more",
        )
        require(
            self.feed_forward_proj.count("-") == 0 or self.feed_forward_proj.startswith("gated-"),
            f"feed_forward_proj {self.feed_forward_proj!r:.60} is not known",
        )
        require(max(self.num_layers, self.decoder_layers) <= 1 << 10, "a model of more than 1,024 layers")
        check_padding(self.pad_token_id, self.vocab_size)
        activation_named(self.activation)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        kind = values.get("model_type", MODEL_TYPES[0])
        usual = {} if kind == "t5" else {"feed_forward_proj": "gated-gelu"}
        return read_config(cls, {**usual, **values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {"model_type": values.pop("kind")} | values

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def gated(self) -> bool:
        """Whether the feed-forward parts have a gate."""
        return self.feed_forward_proj.startswith("gated-") if self.is_gated_act is None else self.is_gated_act

    @property
    def activation(self) -> str:
        """The activation of the feed-forward parts. transformers writes it beside the name of both, and believes it."""
        if self.dense_act_fn is not None:
            return self.dense_act_fn
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else name

    @property
    def biased_layers(self) -> int:
        """How many layers, from the first, have biases by distance. Layers without have those of the first."""
        return max(self.num_layers, self.decoder_layers) if self.kind == "umt5" else 1

    @property
    def scaled(self) -> bool:
        """Whether the head reads the decoder's output divided by the root of d_model: where it is the embedding, but
        never in mT5.
        """
        if self.scale_decoder_outputs is None:
            return self.tie_word_embeddings and self.kind != "mt5"
        return self.scale_decoder_outputs


def adapted(settings: Mapping[str, Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors: a file with a head of its own has it, one without is tied."""
    tied = settings.get("tie_word_embeddings") is not False
    scaled = settings.get("scale_decoder_outputs", tied and settings.get("model_type") != "mt5")
    own = "lm_head.weight" in names and not (tied and scaled)
    return {**settings, "tie_word_embeddings": not own, "scale_decoder_outputs": scaled}


class Attention(Module):
    """The projections of attention, without biases."""

    def __init__(self, config: Config, biased: bool = False) -> None:
        super().__init__()
        inner, self.heads, self.size = config.num_heads * config.d_kv, config.num_heads, config.d_kv
        self.q = Linear(config.d_model, inner, bias=False)
        self.k = Linear(config.d_model, inner, bias=False)
        self.v = Linear(config.d_model, inner, bias=False)
        self.o = ResidualLinear(inner, config.d_model, bias=False)
        self.qkv = JoinedLinear("q", "k", "v")
        if biased:
            self.relative_attention_bias = Embedding(config.relative_attention_num_buckets, config.num_heads)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D) of a source (B, S, d_model)."""
        k, v = (part(encoded).reshape(*encoded.shape[:2], self.heads, self.size) for part in (self.k, self.v))
        return k, v


class SelfAttention(Module):
    """Attention of a text to itself, after a norm."""

    def __init__(self, config: Config, biased: bool) -> None:
        super().__init__()
        self.SelfAttention = Attention(config, biased)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def encode(self, x: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, d_model), bias (B or 1, H, T, T) → (B, T, d_model)."""
        own = self.SelfAttention
        return own.o(attend_joined(own.qkv(own, self.layer_norm(x)), own.heads, bias, 1.0), x)

    def decode(self, x: Tensor, memory: Memory, layer: int, bias: Tensor) -> Tensor:
        """x (R, T, d_model), bias (1, H, T, length) → (R, T, d_model)."""
        own = self.SelfAttention
        parts = own.qkv(own, self.layer_norm(x)).reshape(*x.shape[:2], 3 * own.heads, own.size)
        q, k, v = (parts.narrow(2, i * own.heads, own.heads) for i in range(3))  # (R, T, H, D)
        return own.o(memory.own(layer, q, k, v, bias, 1.0), x)


class CrossAttention(Module):
    """Attention to the source, after a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.EncDecAttention = Attention(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, d_model) → (R, T, d_model)."""
        own = self.EncDecAttention
        q = own.q(self.layer_norm(x)).reshape(*x.shape[:2], own.heads, own.size)  # (R, T, H, D)
        return own.o(memory.source(layer, q, own.project, 1.0), x)


class Dense(Module):
    """wo(activation(wi x))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.activation)
        self.wi = Linear(config.d_model, config.d_ff, bias=False)
        self.wo = ResidualLinear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., d_model) → (..., d_model)."""
        return self.wo(self.activation(self.wi(x)), residual)


class GatedDense(Module):
    """wo(activation(wi_0 x) * wi_1 x)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.activation)
        self.wi_0 = Linear(config.d_model, config.d_ff, bias=False)
        self.wi_1 = Linear(config.d_model, config.d_ff, bias=False)
        self.wo = ResidualLinear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., d_model) → (..., d_model)."""
        return self.wo(self.activation(self.wi_0(x)) * self.wi_1(x), residual)


class FeedForward(Module):
    """The feed-forward part, after a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.DenseReluDense = GatedDense(config) if config.gated else Dense(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) → (..., d_model)."""
        return self.DenseReluDense(self.layer_norm(x), x)


class Block(Module):
    """The parts of a layer, in a list as the files have them."""

    def __init__(self, *parts: Module) -> None:
        super().__init__()
        self.layer = ModuleList(parts)


class Stack(Module):
    """The encoder or the decoder: its layers and the last norm."""

    def __init__(self, config: Config, table: Embedding, layers: int, decoder: bool) -> None:
        super().__init__()
        self.config, self.decoder = config, decoder
        self.embed_tokens = Embedding(config.vocab_size, config.d_model)
        self.embed_tokens.weight = table.weight
        more = [CrossAttention] if decoder else []
        self.block = ModuleList(
            Block(
                SelfAttention(config, i < config.biased_layers), *(part(config) for part in more), FeedForward(config)
            )
            for i in range(layers)
        )
        self.final_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def bias(self, tokens: int, keys: int) -> Tensor:
        """The biases (1, L H, T, S) of the last T of S tokens, of the heads of all L layers that have biases."""
        buckets = distance_buckets(
            tokens, keys, self.config.relative_attention_num_buckets, self.config.relative_attention_max_distance,
            not self.decoder, keys - tokens,
        )  # fmt: skip
        tables = [block.layer[0].SelfAttention.relative_attention_bias.weight for block in self._biased()]
        return distance_bias(tables[0] if len(tables) == 1 else cat(tables, 1), buckets)

    def _biased(self) -> list[Module]:
        return [block for i, block in enumerate(self.block) if i < self.config.biased_layers]

    def _own(self, bias: Tensor, layer: int) -> Tensor:
        """The biases (…, H, T, S) of a layer, of those of all."""
        heads = self.config.num_heads
        return bias if bias.shape[1] == heads else bias.narrow(1, layer * heads, heads)

    def encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, d_model)."""
        x = self.embed_tokens(ids)
        bias = as_bias(mask, self.bias(ids.shape[1], ids.shape[1]))  # (B or 1, L H, S, S)
        for i, block in enumerate(self.block):
            attention, dense = block.layer
            x = dense(attention.encode(x, self._own(bias, i)))
        return self.final_layer_norm(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, d_model)."""
        x = self.embed_tokens(tokens)
        bias = memory.distances(self.bias)
        for i, block in enumerate(self.block):
            attention, source, dense = block.layer
            x = dense(source(attention.decode(x, memory, i, self._own(bias, i)), memory, i))
        return self.final_layer_norm(x)


class T5(SequenceToSequence):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = MOST
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, self.shared, config.num_layers, decoder=False)
        self.decoder = Stack(config, self.shared, config.decoder_layers, decoder=True)
        table = self.shared if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table, bias=False)

    @property
    def device(self) -> Device:
        return self.shared.weight.device

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.encoder.encode(ids, visible_keys(attention_mask))

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        x = self.decoder.decode(tokens, memory)  # (R, T, d_model)
        return self.lm_head(x * self.config.d_model**-0.5 if self.config.scaled else x)


class T5Encoder(Encoder):
    """The encoder alone, whose hidden states are embeddings (Sentence-T5, GTR)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = MOST
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, self.shared, config.num_layers, decoder=False)

    @property
    def word_embeddings(self) -> Embedding:
        return self.shared

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, d_model). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        return self.encoder.encode(ids, visible_keys(attention_mask))


LLAMA_CPP_DISTANCE = 128  # relative_attention_max_distance of every T5 in llama.cpp
_EPSILON = "attention.layer_norm_epsilon"


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    gated = "enc.blk.0.ffn_gate.weight" in values["tensors"]
    special = {f"{config}_token_id": values["special"][role] for config, role in (("pad", "padding"), ("eos", "eos"))}
    given = {name: number for name, number in special.items() if type(number) is int}
    own = "enc.blk.1.attn_rel_b.weight" in values["tensors"]  # biases in each layer
    return found | given | {
        "feed_forward_proj": "gated-gelu" if gated else "relu", "model_type": "umt5" if own else "t5",
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    plain = (
        (config.gated, config.activation) in ((False, "relu"), (True, "gelu_new"))
        and config.relative_attention_max_distance == LLAMA_CPP_DISTANCE
        and config.scaled == config.tie_word_embeddings
    )
    require(
        plain,
        f"llama.cpp has no T5 with feed_forward_proj {config.feed_forward_proj!r:.40} (dense_act_fn "
        f"{config.activation!r:.40}, is_gated_act {config.gated}), relative_attention_max_distance "
        f"{config.relative_attention_max_distance} and scale_decoder_outputs {config.scaled} "
        f"(tie_word_embeddings {config.tie_word_embeddings})",
        "Write safetensors",
    )
    return {
        "context_length": USUAL, _EPSILON: float(config.layer_norm_epsilon), LENGTHS[1]: config.d_kv,
        "decoder_block_count": config.decoder_layers,
    }  # fmt: skip


def _names() -> dict[str, str]:
    found = {"shared": "token_embd", "lm_head": "output"}
    for stack, short, last in (("encoder", "enc", 1), ("decoder", "dec", 2)):
        own, target = f"{stack}.block.{{}}.layer", f"{short}.blk.{{}}"
        found |= {f"{own}.0.SelfAttention.{part}": f"{target}.attn_{part}" for part in "qkvo"}
        found |= {
            f"{own}.0.SelfAttention.relative_attention_bias": f"{target}.attn_rel_b",
            f"{own}.0.layer_norm": f"{target}.attn_norm", f"{own}.{last}.layer_norm": f"{target}.ffn_norm",
            f"{own}.{last}.DenseReluDense.wi": f"{target}.ffn_up",
            f"{own}.{last}.DenseReluDense.wo": f"{target}.ffn_down",
            f"{own}.{last}.DenseReluDense.wi_0": f"{target}.ffn_gate",
            f"{own}.{last}.DenseReluDense.wi_1": f"{target}.ffn_up",
            f"{stack}.final_layer_norm": f"{short}.output_norm",
        }  # fmt: skip
    own, target = "decoder.block.{}.layer.1", "dec.blk.{}"
    found |= {f"{own}.EncDecAttention.{part}": f"{target}.cross_attn_{part}" for part in "qkvo"}
    return found | {f"{own}.layer_norm": f"{target}.cross_attn_norm"}


GGUF = Gguf(
    "t5",
    names=_names(),
    keys={
        "d_model": "embedding_length", "d_ff": "feed_forward_length", "num_layers": "block_count",
        "num_decoder_layers": "decoder_block_count", "num_heads": "attention.head_count", "d_kv": LENGTHS[0],
        "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
        "relative_attention_num_buckets": "attention.relative_buckets_count",
        "decoder_start_token_id": "decoder_start_token_id",
    },
    read=_from_gguf, write=_to_gguf,
    unsaid=("kind", "num_decoder_layers", "scale_decoder_outputs", "feed_forward_proj", "dense_act_fn", "is_gated_act"),
    encoder="t5encoder",
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": T5, "features": T5Encoder}
