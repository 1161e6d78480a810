"""What decoder-only language models share: attention within whole texts and cached ones, and the protocol of
text.generate.LanguageModel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..engine import Device, Tensor, ops, quant
from ..engine.device import cpu
from ..engine.ops import cat
from ..errors import ArgumentError
from .caches import KVCache, TextCache
from .module import Module
from .parameter import Parameter

__all__ = ["CausalLanguageModel", "Heads", "RotaryTable", "split_heads"]

FIRST_POSITIONS = 256  # of a rotary table


@dataclass(frozen=True, eq=False)
class Heads:
    """The attention of one layer: H = `heads` queries and KV = `kv_heads` keys and values of D = `head_dim` features.

    scale: of the scores, 1 / sqrt(D) by default. window: each token attends to the last `window` tokens, itself
    included (Beltagy et al. 2020, arXiv 2004.05150). softcap c: scores become c tanh(score / c) (Gemma 2, arXiv
    2408.00118). slopes (H,) float32: of the linear biases (ALiBi, Press et al. 2021, arXiv 2108.12409). interleaved:
    rotary pairs are neighbours, else halves.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    slopes: Tensor | None = None
    interleaved: bool = False

    @property
    def width(self) -> int:
        """Columns of the joined projection [q, k, v]."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


class Text(Protocol):
    """The tokens of a text. `attention(layer, qkv, heads, table)` rotates queries and keys by `table` (None: not) and
    attends in a layer: qkv (..., T, (H + 2 KV) * D) = [q, k, v] → (..., T, H * D).
    """

    def attention(self, layer: int, qkv: Tensor, heads: Heads, table: Tensor | None) -> Tensor: ...

    def positions(self, tokens: Tensor) -> Tensor:
        """The positions (T,) int32 of the tokens, for tables of positions."""
        ...

    @property
    def length(self) -> int:
        """The number of positions that a table of this text needs."""
        ...


def split_heads(qkv: Tensor, heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """(..., (H + 2 KV) * D) → q (..., H, D), k and v (..., KV, D): views."""
    count, kv = heads.heads, heads.kv_heads
    x = qkv.reshape(*qkv.shape[:-1], count + 2 * kv, heads.head_dim)
    return x.narrow(-2, 0, count), x.narrow(-2, count, kv), x.narrow(-2, count + kv, kv)


class WholeText:
    """Whole texts (B, T), for training. `mask` (B, T) is not 0 where a token belongs to its text; None: everywhere."""

    def __init__(self, tokens: int, mask: Tensor | None = None) -> None:
        self.length = tokens
        self.mask = None if mask is None else (mask != 0).reshape(mask.shape[0], 1, 1, mask.shape[1])

    def positions(self, tokens: Tensor) -> Tensor:
        return ops.arange(tokens.shape[-1], dtype="int32", device=tokens.device)

    def attention(self, layer: int, qkv: Tensor, heads: Heads, table: Tensor | None) -> Tensor:
        q, k, v = split_heads(qkv, heads)  # (B, T, H, D), (B, T, KV, D)
        if table is not None:
            q, k = (ops.rope(x, table, interleaved=heads.interleaved) for x in (q, k))
        if self.mask is None and heads.window is None and heads.softcap is None and heads.slopes is None:
            y = ops.attention(q, k, v, scale=heads.scale)
        else:
            y = ops.scaled_dot_product_attention(
                *(x.transpose(1, 2) for x in (q, k, v)), self._bias(heads), scale=heads.scale, enable_gqa=True,
                softcap=heads.softcap, window=((heads.window or self.length) - 1, 0),
            ).transpose(1, 2)  # fmt: skip
        return y.reshape(*qkv.shape[:-1], heads.heads * heads.head_dim)

    def _bias(self, heads: Heads) -> Tensor | None:
        """The mask, with the linear biases."""
        if heads.slopes is None:
            return self.mask
        place = ops.arange(self.length, device=heads.slopes.device).to("float32")
        bias = heads.slopes.reshape(1, -1, 1, 1) * place.reshape(1, 1, 1, -1)  # (1, H, 1, T)
        bias = bias - heads.slopes.reshape(1, -1, 1, 1) * place.reshape(1, 1, -1, 1)  # (1, H, T, T)
        return bias if self.mask is None else ops.where(self.mask, bias, float("-inf"))


class CachedText:
    """The tokens (T,) at position[0] … of a text, with the earlier tokens in a cache."""

    def __init__(self, position: Tensor, cache: TextCache) -> None:
        self.position, self.layers = position, cache.layers
        self.length: int = cache.capacity  # type: ignore[attr-defined]

    def positions(self, tokens: Tensor) -> Tensor:
        return ops.arange(tokens.shape[-1], dtype="int32", device=tokens.device) + self.position

    def attention(self, layer: int, qkv: Tensor, heads: Heads, table: Tensor | None) -> Tensor:
        q, k, v = split_heads(qkv, heads)  # (T, H, D), (T, KV, D)
        if table is not None:
            q, k = (ops.rope(x, table, self.position, interleaved=heads.interleaved) for x in (q, k))
        own = self.layers[layer]
        own.write(k, v, self.position)
        y = ops.cached_attention(q, own.keys, own.values, self.position, heads.scale)  # type: ignore[attr-defined]
        return y.reshape(*qkv.shape[:-1], heads.heads * heads.head_dim)


class RotaryTable:
    """A rotary table that grows with the longest text. `make(positions)` makes a table (P, D / 2, 2); `most` is the
    largest number of positions.
    """

    def __init__(self, make: Callable[[int], Tensor], most: int) -> None:
        self.make, self.most = make, most
        self._tables: dict[Device, Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"make": self.make, "most": self.most, "_tables": {}}

    def upto(self, positions: int, device: Device = cpu) -> Tensor:
        """A table of at least `positions` rows on a device."""
        found = self._tables.get(device)
        if found is None or found.shape[0] < positions:
            rows = FIRST_POSITIONS
            while rows < positions:
                rows *= 2
            found = self._tables[device] = self.make(max(min(rows, self.most), positions)).to(device)
        return found


class CausalLanguageModel(Module):
    """A decoder-only language model. A subclass sets `config` (with vocab_size and max_seq_len), and writes `hidden`,
    `head` and `new_cache`; `embedding` is its table of tokens.
    """

    config: Any
    base_model_prefix = "model"  # the first part of the names of all tensors but the head's

    def hidden(self, tokens: Tensor, text: Text) -> Tensor:
        """tokens (..., T) → the last layer's output (..., T, dim)."""
        raise NotImplementedError

    def head(self, x: Tensor) -> Tensor:
        """x (..., dim) → logits (..., V)."""
        raise NotImplementedError

    @property
    def embedding(self) -> Module:
        """The table of tokens."""
        raise NotImplementedError

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """An empty cache for `capacity` tokens (max_seq_len by default)."""
        raise NotImplementedError

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.embedding.weight.device
        return found

    def dequantize(self) -> None:
        """Converts block-quantised weights to float32, so that activations need no int8."""
        made: dict[int, Tensor] = {}
        for module in self.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter.dtype.is_quantized:
                    if id(parameter) not in made:
                        made[id(parameter)] = Parameter(quant.dequantize(parameter), requires_grad=False)
                    setattr(module, name, made[id(parameter)])

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) integers → logits (B, T, V). attention_mask (B, T): 0 where a token is padding, which no other
        token attends to.
        """
        most = self.config.max_seq_len
        if tokens.ndim != 2 or tokens.shape[1] > most:
            raise ArgumentError(f"tokens are (B, T) with T at most {most}, not {tuple(tokens.shape)}")
        if attention_mask is not None and attention_mask.shape != tokens.shape:
            raise ArgumentError(f"attention_mask is {tuple(attention_mask.shape)}, the tokens {tuple(tokens.shape)}")
        return self.head(self.hidden(tokens, WholeText(tokens.shape[1], attention_mask)))

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: TextCache, last_only: bool = True) -> Tensor:
        """tokens (T,) int32 at position[0] … → logits (1, V) of the last, or (T, V) of all. `position` is int32 (1,).

        The keys and values of the tokens are written to `cache`, which has a cache per layer (new_cache, or another of
        nn.caches).
        """
        x = self.hidden(tokens, CachedText(position, cache))  # (T, dim)
        if last_only and x.shape[0] > 1:
            x = x.narrow(0, x.shape[0] - 1, 1)
        return self.head(x)


def normalized_heads(qkv: Tensor, heads: Heads, q_norm: Module, k_norm: Module) -> Tensor:
    """[q, k, v] (..., (H + 2 KV) * D) with each head's query and key normalised (Dehghani et al. 2023, arXiv
    2302.05442).
    """
    q, k, v = split_heads(qkv, heads)
    return cat([q_norm(q), k_norm(k), v], -2).reshape(qkv.shape)
