"""The Llama architecture of llama2.c (Touvron et al. 2023, arXiv 2307.09288;
https://github.com/karpathy/llama2.c): pre-norm transformer, rotary positions in neighbouring pairs, grouped heads,
SwiGLU, no biases.

Projections of the same input are one matrix: `wqkv` is [wq; wk; wv], `w13` is [w1; w3]. Training and inference use
the same module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from math import sqrt
from typing import TYPE_CHECKING, Any, Protocol

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, float32, no_grad, ops, quant
from pyapp.errors import ModelError
from pyapp.formats.llama2c import LIMITS
from pyapp.nn import Embedding, Linear, Module, ModuleList, Parameter, ResidualLinear, RMSNorm
from pyapp.nn.decoders.caches import BatchCache, KVCache, TextCache, decoder_cache, last_tokens
from pyapp.nn.heads import Heads
from pyapp.nn.init import normal_
from pyapp.nn.parameter import skip_initialization

if TYPE_CHECKING:
    from typing import Self

EPSILON = 1e-5
THETA = 10000.0
POSITIONS_LIMIT = 1 << 24  # angles and cosines of a model
FUSED = {
    "attention.wqkv.weight": ("attention.wq.weight", "attention.wk.weight", "attention.wv.weight"),
    "feed_forward.w13.weight": ("feed_forward.w1.weight", "feed_forward.w3.weight"),
}


@dataclass(frozen=True)
class Config:
    """The seven hyper-parameters of a llama2.c checkpoint, and whether the head is the embedding."""

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    max_seq_len: int
    tied: bool = True

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            value = getattr(self, name, 1)
            if type(value) is not int or not 1 <= value <= limit:
                raise ModelError(f"{name} is {value!r:.40}, expected a whole number from 1 to {limit:,}")
        if self.max_seq_len * (self.dim // self.n_heads) > POSITIONS_LIMIT:
            raise ModelError(f"{self.max_seq_len:,} positions of heads of {self.dim // self.n_heads:,} are too many")
        if self.dim % self.n_heads or self.n_heads % self.n_kv_heads or (self.dim // self.n_heads) % 2:
            raise ModelError(
                f"dim {self.dim}, n_heads {self.n_heads} and n_kv_heads {self.n_kv_heads} do not fit together",
                hint="Heads divide dim into even parts, and key/value heads divide the heads",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], tied: bool = True) -> Config:
        """From a checkpoint's config; other keys are ignored."""
        known = [field.name for field in fields(cls) if field.name != "tied"]
        return cls(**{key: values[key] for key in known}, tied=tied)

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads

    def to_dict(self) -> dict[str, int]:
        """The seven hyper-parameters."""
        return {key: value for key, value in asdict(self).items() if key != "tied"}


class Text(Protocol):
    """The attention among the tokens of a text: `attention(i, qkv)` rotates queries and keys and attends in layer i.

    qkv (..., T, (H + 2 KV) * D) = [q, k, v] → (..., T, H * D).
    """

    def attention(self, layer: int, qkv: Tensor) -> Tensor: ...


class WholeText:
    """A whole text (B, T), for training."""

    def __init__(self, config: Config, table: Tensor) -> None:
        self.heads, self.kv_heads, self.head_dim, self.table = (
            config.n_heads, config.n_kv_heads, config.head_dim, table
        )  # fmt: skip

    def attention(self, layer: int, qkv: Tensor) -> Tensor:
        heads, kv = self.heads, self.kv_heads
        lead = qkv.shape[:-1]
        qkv = qkv.reshape(*lead, heads + 2 * kv, self.head_dim)  # (B, T, H + 2 KV, D)
        qk = ops.rope(qkv.narrow(-2, 0, heads + kv), self.table)  # (B, T, H + KV, D)
        y = ops.attention(
            qk.narrow(-2, 0, heads), qk.narrow(-2, heads, kv), qkv.narrow(-2, heads + kv, kv)
        )  # (B, T, H, D)
        return y.reshape(*lead, heads * self.head_dim)


class CachedText:
    """The tokens (T,) at position[0] … of a text, with the earlier tokens in a cache."""

    def __init__(self, config: Config, table: Tensor, position: Tensor, cache: TextCache) -> None:
        self.heads = Heads(config.n_heads, config.n_kv_heads, config.head_dim, interleaved=True)
        self.table, self.position, self.layers = table, position, cache.layers

    def attention(self, layer: int, qkv: Tensor) -> Tensor:
        return self.layers[layer].rotary_attention(qkv, self.heads, self.table, self.position)


class Attention(Module):
    """Causal self-attention with rotary positions and grouped heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.wqkv = Linear(config.dim, (config.n_heads + 2 * config.n_kv_heads) * config.head_dim, bias=False)
        self.wo = ResidualLinear(config.dim, config.dim, bias=False)

    def forward(self, x: Tensor, residual: Tensor, text: Text, layer: int) -> Tensor:
        """x and residual (..., T, dim) → residual + attention (..., T, dim)."""
        return self.wo(text.attention(layer, self.wqkv(x)), residual)


class FeedForward(Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.w13 = Linear(config.dim, 2 * config.hidden_dim, bias=False)
        self.w2 = ResidualLinear(config.hidden_dim, config.dim, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., T, dim) → residual + feed-forward (..., T, dim)."""
        return self.w2(ops.silu_mul(self.w13(x)), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_norm = RMSNorm(config.dim, EPSILON)
        self.ffn_norm = RMSNorm(config.dim, EPSILON)

    def forward(self, x: Tensor, text: Text, layer: int) -> Tensor:
        """x (..., T, dim) → (..., T, dim), as layer `layer` of `text`."""
        x = self.attention(self.attention_norm(x), x, text, layer)
        return self.feed_forward(self.ffn_norm(x), x)


class Llama2c(Module):
    """The model. Its tensors have the checkpoint's names, except the fused projections (FUSED)."""

    table: Tensor  # the rotary angles (max_seq_len, D / 2, 2)

    def __init__(self, config: Config, initialize: bool = True, generator: Any = None) -> None:
        super().__init__()
        self.config = config
        self.tok_embeddings = Embedding(config.vocab_size, config.dim)
        self.tok_embeddings.float32_rows = True
        self.layers = ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.dim, EPSILON)
        self.output: Linear | None = None if config.tied else Linear(config.dim, config.vocab_size, bias=False)
        table = ops.rope_table(config.max_seq_len, config.head_dim, THETA).to(self.device)
        self.register_buffer("table", table, persistent=False)
        if initialize:
            self.initialize(generator)

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(change, recurse)
        if self.table.dtype is not float32:  # the angles stay exact, whatever the parameters are
            self.table = ops.rope_table(self.config.max_seq_len, self.config.head_dim, THETA).to(self.table.device)
        return self

    def initialize(self, generator: Any = None) -> None:
        """Normal with deviation 0.02, and 0.02 / sqrt(2 layers) for the projections that add to the residual stream."""
        residual = 0.02 / sqrt(2 * self.config.n_layers)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                normal_(parameter, 0.0, residual if name.endswith(("wo.weight", "w2.weight")) else 0.02, generator)

    def head(self, x: Tensor) -> Tensor:
        """Logits (..., V) of x (..., dim)."""
        x = self.norm(x)
        return ops.linear(x, self.tok_embeddings.weight) if self.output is None else self.output(x)

    def hidden(self, tokens: Tensor) -> Tensor:
        """tokens (B, T) integers → what the head reads (B, T, dim)."""
        if tokens.ndim != 2 or tokens.shape[1] > self.config.max_seq_len:
            raise ValueError(f"tokens must be (B, T) with T at most {self.config.max_seq_len}, got {tokens.shape}")
        x = self.tok_embeddings(tokens)  # (B, T, dim)
        text = WholeText(self.config, self.table)
        for i, layer in enumerate(self.layers):
            x = layer(x, text, i)
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, T) integers → logits (B, T, V)."""
        return self.head(self.hidden(tokens))

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.tok_embeddings.weight.device

    def new_cache(
        self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None
    ) -> KVCache | BatchCache:
        """As CausalLanguageModel.new_cache."""
        config = self.config
        capacity = capacity or config.max_seq_len
        return decoder_cache(texts, config.n_layers, config.n_kv_heads, capacity, config.head_dim, self.device, dtype)

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: TextCache, last_only: bool = True) -> Tensor:
        """tokens (T,) int32 at position[0] … → logits (1, V) of the last, or (T, V) of all. `position` is int32 (1,).

        The keys and values of the tokens are written to `cache`, which has a cache per layer (new_cache, or another of
        nn.decoders.caches).
        """
        x = self.tok_embeddings(tokens)  # (T, dim)
        text = CachedText(self.config, self.table, position, cache)
        for i, layer in enumerate(self.layers):
            x = layer(x, text, i)
        return self.head(last_tokens(x, cache) if last_only else x)

    # -- checkpoints

    @classmethod
    def empty(cls, config: Config) -> Llama2c:
        """A model with empty parameters, to be replaced by the caller."""
        with skip_initialization():
            return cls(config, initialize=False)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Any,
        progress: Callable[[int, int], None] | None = None,
        device: Device | str | None = None,
    ) -> Llama2c:
        """From an open llama2.c checkpoint, or safetensors with its names; the weights are read to `device` (None: the
        CPU). `progress(bytes done, bytes in all)` is called after each tensor.

        Quantised tensors stay quantised. The parameters need no gradients: call `requires_grad_()` to train the model.
        ModelError for missing or misshapen tensors and for NaN or infinite weights.
        """
        config = Config.from_dict(checkpoint.config, tied="output.weight" not in checkpoint.tensors)
        model = cls.empty(config)
        total = sum(info.nbytes for info in checkpoint.tensors.values())
        done = 0
        for name, owner, shape in model.slots():
            sources = [name.replace(*pair) for pair in _sources(name)]
            missing = [source for source in sources if source not in checkpoint.tensors]
            if missing:
                raise ModelError(
                    f"the checkpoint has no tensor {missing[0]!r}", where=getattr(checkpoint.source, "name", None)
                )
            parts = [checkpoint.read(source, finite=True, device=device) for source in sources]
            value = quant.concatenate(parts) if len(parts) > 1 else parts[0]
            if value.shape != shape:
                raise ModelError(f"{name} has the shape {value.shape}, the configuration asks for {shape}")
            owner.weight = Parameter(value, requires_grad=False)
            done += sum(checkpoint.tensors[source].nbytes for source in sources)
            if progress is not None:
                progress(done, total)
        model.table = model.table.to(model.device)  # new tensors may be made elsewhere
        return model

    def slots(self) -> Iterator[tuple[str, Module, tuple[int, ...]]]:
        """(name, module that owns `weight`, shape) of every parameter."""
        for path, module in self.named_modules():
            shape = _weight_shape(module)
            if shape is not None:
                yield f"{path}.weight", module, shape

    def dequantize(self) -> None:
        """Converts block-quantised weights to float32, so that activations need no int8."""
        for _, owner, _ in self.slots():
            owner.weight = Parameter(quant.dequantize(owner.weight), requires_grad=False)

    def export_tensors(self) -> dict[str, Tensor]:
        """Tensors by llama2.c's names, float32, fused projections split, for formats.write_llama2c."""
        config, size = self.config, self.config.head_dim
        rows = {
            "attention.wqkv.weight": [config.dim, config.n_kv_heads * size, config.n_kv_heads * size],
            "feed_forward.w13.weight": [config.hidden_dim] * 2,
        }
        result = {}
        with no_grad():
            for name, parameter in self.named_parameters():
                value = quant.dequantize(parameter.detach())
                for fused, parts in FUSED.items():
                    if name.endswith(fused):
                        for part, piece in zip(parts, value.split(rows[fused]), strict=True):
                            result[name.replace(fused, part)] = piece
                        break
                else:
                    result[name] = value
        return result


def _sources(name: str) -> list[tuple[str, str]]:
    """(old, new) replacements that turn a parameter's name into the checkpoint's names."""
    for fused, parts in FUSED.items():
        if name.endswith(fused):
            return [(fused, part) for part in parts]
    return [("", "")]


def _weight_shape(module: Module) -> tuple[int, ...] | None:
    if isinstance(module, Linear):
        return (module.out_features, module.in_features)
    if isinstance(module, Embedding):
        return (module.num_embeddings, module.embedding_dim)
    return module.normalized_shape if isinstance(module, RMSNorm) else None
