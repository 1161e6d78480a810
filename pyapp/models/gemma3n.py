"""Gemma 3n, its language model (Gemma Team 2025, https://ai.google.dev/gemma/docs/gemma-3n): Gemma 3 with several
streams of which a layer computes one and guesses the others (AltUp, Baykal et al. 2023, arXiv 2301.13310), residuals of
low rank (Laurel, Menghani et al. 2024, arXiv 2411.07501), embeddings for each layer, sparse activations, and last
layers that attend to the keys and values of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import cat, stack, zeros
from pyapp.nn import Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import CausalLanguageModel, RotaryTable, Text, soft_capped
from pyapp.nn.decoders.layer_inputs import LayerInputsStack, SharedKeysAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import (
    LARGEST,
    LIMITS,
    LOCAL_BASE,
    DecoderConfig,
    check_positive,
    check_shared_keys,
    layer_types,
    require,
    rotary_of_windows,
    source_of_keys,
)  # fmt: skip
from .loading.gguf import HEAD_NORMS, KEYS, NAMES, WINDOW, Gguf, key_lengths, rows_in

MODEL_TYPES = ("gemma3n_text", "gemma3n")
# The tensors of a model that also sees and hears, and the keys and values that layers with those of others do not need.
IGNORED = (
    r"(model\.)?((vision_tower|audio_tower|embed_vision|embed_audio)\..*"
    r"|(language_model\.)?layers\.\d+\.self_attn\.(k_proj|v_proj|k_norm|v_norm)\..*"
    r"|blk\.\d+\.attn_(k|v|k_norm)\.weight)"
)
NESTED_DEFAULTS = {
    "vocab_size": 262_400, "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 35,
    "num_attention_heads": 8,
}  # fmt: skip
PATTERN, SPARSE_LAYERS, SPARSITY = 5, 10, 0.95  # where config.json says nothing
SMALLEST = 1e-5  # mean square of a stream


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. The last `num_kv_shared_layers` layers attend to the keys and values of the last layer
    of their kind before them. activation_sparsity_pattern: the share of features of each layer that become 0.
    """

    model_type = "gemma3n_text"
    defaults = {
        "max_position_embeddings": 32768, "head_dim": 256, "num_key_value_heads": 2, "tie_word_embeddings": True,
        "final_logit_softcapping": 30.0,
    }  # fmt: skip

    intermediate_size: list[int]
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    sliding_window: int = 512
    layer_types: list[str]
    final_logit_softcapping: float | None = None
    vocab_size_per_layer_input: int = 262_144
    hidden_size_per_layer_input: int = 256
    altup_active_idx: int = 0
    altup_coef_clip: float | None = 120.0
    altup_correct_scale: bool = True
    altup_num_inputs: int = 4
    num_kv_shared_layers: int = 0
    laurel_rank: int = 64
    activation_sparsity_pattern: list[float]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; of a model that also sees and hears, its `text_config`."""
        own = values.get("text_config")
        found: Config = super().from_dict(NESTED_DEFAULTS | own if isinstance(own, dict) else values)
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: all but every fifth slide; and with what each layer has."""
        kinds = layer_types(values, lambda layer: (layer + 1) % PATTERN != 0)
        inner, sparsity = values.get("intermediate_size"), values.get("activation_sparsity_pattern")
        if sparsity is None:
            sparse = SPARSE_LAYERS if len(kinds) > SPARSE_LAYERS else 0
            sparsity = [SPARSITY] * sparse + [0.0] * (len(kinds) - sparse)
        return values | {
            "layer_types": kinds, "rope_parameters": rotary_of_windows(values),
            "intermediate_size": [inner] * len(kinds) if type(inner) is int else inner,
            "activation_sparsity_pattern": [sparsity] * len(kinds) if type(sparsity) is float else sparsity,
            "num_kv_shared_layers": values.get("num_kv_shared_layers", 15),
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "final_logit_softcapping", "altup_coef_clip")
        layers, streams, active = self.num_hidden_layers, self.altup_num_inputs, self.altup_active_idx
        inner, shared = self.intermediate_size, self.num_kv_shared_layers
        fits = len(inner) == layers and all(type(n) is int and 1 <= n <= LIMITS["intermediate_size"] for n in inner)
        require(fits, f"intermediate_size is {inner!r:.60}, expected a size, or {layers} of them")
        pattern = self.activation_sparsity_pattern
        fits = len(pattern) == layers and all(type(x) in (int, float) and 0 <= x < 1 for x in pattern)
        require(fits, f"activation_sparsity_pattern is {pattern!r:.60}, expected {layers} numbers from 0 to below 1")
        require(2 <= streams <= 1 << 8, f"altup_num_inputs is {streams}, expected 2 to 256")
        require(active < streams, f"altup_active_idx is {active}, of {streams} streams")
        check_shared_keys(self.layer_types, shared)
        words = self.num_hidden_layers * self.hidden_size_per_layer_input * self.vocab_size_per_layer_input
        require(words <= LARGEST << 4, f"{words:,} numbers of the embeddings for each layer are too many")

    def source(self, layer: int) -> int:
        """The layer that computes the keys and values to which a layer attends."""
        return source_of_keys(self.layer_types, self.num_kv_shared_layers, layer)

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        window = self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
        return self.heads(window=window, scale=1.0)


class FeedForward(Module):
    """down_proj(activation(gate_proj x) * up_proj x), of whose gates the share `sparsity` becomes 0, if they are spread
    normally.
    """

    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        "gate_proj": ("outputs", "inner"), "up_proj": ("outputs", "inner"), "down_proj": ("inputs", "inner"),
    }  # fmt: skip

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, inner, sparsity = config.hidden_size, config.intermediate_size[layer], config.activation_sparsity_pattern
        self.gate_proj = Linear(size, inner, bias=False)
        self.up_proj = Linear(size, inner, bias=False)
        self.down_proj = ResidualLinear(inner, size, bias=False)
        self.activation = activation_named(config.hidden_activation)
        share = float(sparsity[layer])
        self.deviations = ops.tensor(2 * share - 1).erfinv().item() * sqrt(2) if share else None
        if self.deviations is not None:  # the mean of a part of the gates is another than that of all
            self.tensor_parallel = dict.fromkeys(self.tensor_parallel, ("whole",))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        gate = self.gate_proj(x)
        if self.deviations is not None:
            mean = gate.mean(-1, True)
            spread = (gate - mean).square().mean(-1, True).sqrt()
            gate = ops.relu(gate - (mean + spread * self.deviations))
        return self.down_proj(self.activation(gate) * self.up_proj(x))


class AltUp(Module):
    """Guesses all streams x (..., n, hidden_size) of a layer, and corrects them by the one that it computed."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, streams = config.hidden_size, config.altup_num_inputs
        self.streams, self.active, self.limit = streams, config.altup_active_idx, config.altup_coef_clip
        self.correct_output_scale = new_parameter(zeros, size)
        self.correction_coefs = Linear(streams, streams, bias=False)
        self.prediction_coefs = Linear(streams, streams * streams, bias=False)
        self.modality_router = Linear(size, streams, bias=False)
        self.router_norm = RMSNorm(size, config.rms_norm_eps)

    def _coefficients(self, layer: Linear, x: Tensor) -> Tensor:
        """Those of a layer for a stream x (..., hidden_size)."""
        routed = self.modality_router(self.router_norm(x) * (1 / x.shape[-1])).tanh()  # (..., n)
        if self.training and self.limit is not None and type(layer) is Linear:
            return ops.linear(routed, layer.weight.clamp(-self.limit, self.limit))
        return layer(routed)

    def predict(self, x: Tensor) -> Tensor:
        """(..., n, hidden_size) → (..., n, hidden_size)."""
        found = self._coefficients(self.prediction_coefs, x.select(-2, self.active))
        return x + found.reshape(*x.shape[:-2], self.streams, self.streams) @ x

    def correct(self, x: Tensor, computed: Tensor) -> Tensor:
        """Guesses x (..., n, hidden_size) and the computed stream (..., hidden_size) → (..., n, hidden_size)."""
        found = self._coefficients(self.correction_coefs, computed) + 1  # (..., n)
        return x + (computed - x.select(-2, self.active)).unsqueeze(-2) * found.unsqueeze(-1)


class Laurel(Module):
    """A residual with a part of low rank."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear_left = Linear(config.hidden_size, config.laurel_rank, bias=False)
        self.linear_right = Linear(config.laurel_rank, config.hidden_size, bias=False)
        self.post_laurel_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        return x + self.post_laurel_norm(self.linear_right(self.linear_left(x)))


class Block(Module):
    """Attention and feed-forward of one stream, each between two norms; the others get the layer's embedding."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        size, own, epsilon = config.hidden_size, config.hidden_size_per_layer_input, config.rms_norm_eps
        heads, table = config.attention(layer), rotary[config.layer_types[layer]]
        self.self_attn = SharedKeysAttention(
            layer, config.source(layer), size, heads, table, epsilon, bias=config.attention_bias
        )
        self.mlp = FeedForward(config, layer)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.pre_feedforward_layernorm = RMSNorm(size, epsilon)
        self.post_feedforward_layernorm = RMSNorm(size, epsilon)
        self.altup = AltUp(config)
        self.laurel = Laurel(config)
        self.per_layer_input_gate = Linear(size, own, bias=False)
        self.per_layer_projection = Linear(own, size, bias=False)
        self.post_per_layer_input_norm = RMSNorm(size, epsilon)
        self.activation = activation_named(config.hidden_activation)
        self.scaled = config.altup_correct_scale

    def forward(self, x: Tensor, text: Text, own: Tensor, known: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., T, n, hidden_size), own (..., T, hidden_size_per_layer_input), known: as Attention.forward → (..., T,
        n, hidden_size), and the keys and values.
        """
        guesses = self.altup.predict(x)
        active = guesses.select(-2, self.altup.active)  # (..., T, hidden_size)
        normed = self.input_layernorm(active)
        attended, known = self.self_attn(normed, text, known)
        attended = active + self.post_attention_layernorm(attended)
        y = (attended + self.laurel(normed)) * sqrt(0.5)
        y = y + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(y)))
        x = self.altup.correct(guesses, y)
        first = x.select(-2, self.altup.active)
        if self.scaled:
            first = first * self.altup.correct_output_scale
        added = self.per_layer_projection(self.activation(self.per_layer_input_gate(first)) * own)
        added = self.post_per_layer_input_norm(added).unsqueeze(-2)
        return cat([x.narrow(-2, 0, 1), x.narrow(-2, 1, self.altup.streams - 1) + added], -2), known


class Gemma3nStack(LayerInputsStack):
    """The decoder of several streams, which begin as projections of the embedding and end in their mean."""

    def __init__(self, config: Config, layers: Iterable[Module]) -> None:
        super().__init__(config, layers)
        size, others = config.hidden_size, range(1, config.altup_num_inputs)
        self.altup_projections = ModuleList(Linear(size, size, bias=False) for _ in others)
        self.altup_unembed_projections = ModuleList(Linear(size, size, bias=False) for _ in others)

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        inputs = self.layer_inputs(tokens, x)
        size = x.square().mean(-1, True).sqrt()  # (..., T, 1)
        x = stack([x, *(_of_size(layer(x), size) for layer in self.altup_projections)], -2)  # (..., T, n, hidden_size)
        known: dict[int, Tensor] = {}  # the keys and values of each layer that computes some
        for i, layer in enumerate(self.layers):
            source = layer.self_attn.layer
            x, known[source] = layer(x, text, inputs.select(-2, i), known.get(source))
        first = x.select(-2, 0)
        size = first.square().mean(-1, True).sqrt()
        layers = enumerate(self.altup_unembed_projections, 1)
        return stack([first, *(_of_size(layer(x.select(-2, i)), size) for i, layer in layers)]).mean(0)


def _of_size(x: Tensor, size: Tensor) -> Tensor:
    """x (..., F) with the root mean square `size` (..., 1)."""
    return x * size / x.square().mean(-1, True).clamp(min=SMALLEST).sqrt()


class Gemma3nForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in set(config.layer_types)}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, Gemma3nStack(config, blocks))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The cache of the layers that compute keys and values."""
        config = self.config
        layers = config.num_hidden_layers - config.num_kv_shared_layers
        return decoder_cache(texts, layers, self.kv_heads, capacity, config.head_dim, self.device, dtype)

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.final_logit_softcapping)


SPARSITY_KEY, PATTERN_KEY = "activation_sparsity_scale", "attention.sliding_window_pattern"


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary positions of both kinds of layers, and what the shapes of tensors say."""
    local = {"rope_type": "default", "rope_theta": values.get("rope.freq_base_swa", LOCAL_BASE)}
    found = found | {"rope_parameters": {"sliding_attention": local, "full_attention": found["rope_parameters"]}}
    scale, slides = values.get(SPARSITY_KEY), values.get(PATTERN_KEY)
    if isinstance(scale, list) and all(isinstance(x, float | int) for x in scale):
        found["activation_sparsity_pattern"] = [round(NormalDist().cdf(x), 6) if isfinite(x) else 0.0 for x in scale]
    if isinstance(slides, list):
        found["layer_types"] = ["sliding_attention" if one else "full_attention" for one in slides]
    for name, tensor in (("vocab_size_per_layer_input", "per_layer_token_embd"), ("laurel_rank", "blk.0.laurel_l")):
        rows = rows_in(values, f"{tensor}.weight")
        found |= {} if rows is None else {name: rows}
    return found


def _unused(config: Config) -> dict[str, tuple[int, ...]]:
    """The keys and values of layers with those of others, which llama.cpp does not read but expects."""
    size, layers = config.num_key_value_heads * config.head_dim, config.num_hidden_layers
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(layers - config.num_kv_shared_layers, layers):
        for part in ("k", "v"):
            found[f"blk.{layer}.attn_{part}.weight"] = size, config.hidden_size
        found[f"blk.{layer}.attn_k_norm.weight"] = (config.head_dim,)
    return found


def _to_gguf(config: Config) -> dict[str, Any]:
    base = config.rope_parameters["sliding_attention"].get("rope_theta", LOCAL_BASE)
    shares = config.activation_sparsity_pattern
    return key_lengths(config) | {
        SPARSITY_KEY: [NormalDist().inv_cdf(share) if share else float("-inf") for share in shares],
        PATTERN_KEY: [kind == "sliding_attention" for kind in config.layer_types],
    } | ({} if base == LOCAL_BASE else {"rope.freq_base_swa": float(base)})  # fmt: skip


_PARTS = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "altup.correction_coefs": "altup_correct_coef",
    "altup.correct_output_scale": "altup_correct_scale", "altup.prediction_coefs": "altup_predict_coef",
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm",
    "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm",
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
}  # fmt: skip
_STACKS = {"model.altup_projections": "altup_proj", "model.altup_unembed_projections": "altup_unembd_proj"}
# Files of llama.cpp's tools have four streams.
GGUF = Gguf(
    "gemma3n", read=_from_gguf, write=_to_gguf, unused=_unused,
    unsaid=("altup_coef_clip", "vocab_size_per_layer_input"),
    names=NAMES | HEAD_NORMS | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()}
    | {f"{ours}.{{}}": theirs for ours, theirs in _STACKS.items()} | {
        "model.embed_tokens_per_layer": "per_layer_token_embd",
        "model.per_layer_model_projection": "per_layer_model_proj",
        "model.per_layer_projection_norm": "per_layer_proj_norm",
    },
    stacked=tuple(tuple(f"{path}.{stream}" for stream in range(3)) for path in _STACKS),
    keys=KEYS | WINDOW | {
        "altup_active_idx": "altup.active_idx", "altup_num_inputs": "altup.num_inputs",
        "hidden_size_per_layer_input": "embedding_length_per_layer_input",
        "num_kv_shared_layers": "attention.shared_kv_layers",
    },
)  # fmt: skip
TASKS = {"causal-lm": Gemma3nForCausalLM}
