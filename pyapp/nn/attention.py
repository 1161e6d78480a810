"""Multi-head attention in torch's parameter names (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from math import sqrt

from ..engine import Tensor, ops
from ..engine.op import describe
from ..engine.ops import empty, zeros
from .dropout import dropout as drop
from .init import xavier_normal_, xavier_uniform_
from .layers import Linear, _Initialization, _parameter
from .module import Module


def additive(mask: Tensor, name: str) -> Tensor:
    """A mask to add to scores: -inf where a boolean mask is True; a floating-point mask is one already."""
    if mask.dtype.is_floating_point:
        return mask
    if mask.dtype.name != "bool":
        raise TypeError(f"MultiheadAttention: {name} must be boolean or floating-point, got {describe(mask)}")
    return ops.where(mask, float("-inf"), zeros(mask.shape))


def subsequent_mask(size: int) -> Tensor:
    """(size, size), True above the diagonal: what a causal model must not see."""
    positions = ops.arange(size)
    return positions.unsqueeze(0) > positions.unsqueeze(1)


class MultiheadAttention(Module):
    """query (L, B, embed_dim), key (S, B, kdim), value (S, B, vdim), or batch first, or without B → the result in the
    query's shape, and the weights (B, L, S), averaged over the heads or (B, heads, L, S); None unless `need_weights`.

    `attn_mask` (L, S) or (B * heads, L, S) and `key_padding_mask` (B, S): boolean, True where one must not look, or
    added to the scores. `is_causal` without a mask makes the causal one.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._same = self.kdim == self.vdim == embed_dim
        if self._same:
            self.in_proj_weight = _parameter(empty, 3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = _parameter(empty, embed_dim, embed_dim)
            self.k_proj_weight = _parameter(empty, embed_dim, self.kdim)
            self.v_proj_weight = _parameter(empty, embed_dim, self.vdim)
        self.in_proj_bias = _parameter(zeros, 3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        self.bias_k = _parameter(empty, 1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = _parameter(empty, 1, 1, embed_dim) if add_bias_kv else None
        if _Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's uniform for the projections, normal for bias_k and bias_v, zeros for the biases, as torch."""
        for name, parameter in self._parameters.items():
            if name.endswith("weight"):
                xavier_uniform_(parameter)
            elif name in ("bias_k", "bias_v"):
                xavier_normal_(parameter)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                bias.detach().zero_()

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Each (B, rows, embed_dim)."""
        size = self.embed_dim
        if self._same:
            weights = [self.in_proj_weight[i * size : (i + 1) * size] for i in range(3)]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if self._same and query is key and key is value:
            whole = ops.linear(query, self.in_proj_weight, self.in_proj_bias)
            return [whole[..., i * size : (i + 1) * size] for i in range(3)]
        biases = [None if self.in_proj_bias is None else self.in_proj_bias[i * size : (i + 1) * size] for i in range(3)]
        return [
            ops.linear(x, weight.contiguous(), None if bias is None else bias.contiguous())
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        ]

    def _mask(
        self, attn_mask: Tensor | None, padding: Tensor | None, batch: int, rows: int, keys: int
    ) -> Tensor | None:
        """What is added to the scores (B, heads, L, S): broadcast to them; None for nothing."""
        whole = None
        if attn_mask is not None:
            whole = additive(attn_mask, "attn_mask")
            if whole.shape == (batch * self.num_heads, rows, keys):
                whole = whole.reshape(batch, self.num_heads, rows, keys)
            elif whole.shape != (rows, keys):
                raise ValueError(
                    f"MultiheadAttention: attn_mask must be [{rows}, {keys}] or "
                    f"[{batch * self.num_heads}, {rows}, {keys}], got {describe(attn_mask)}"
                )
        if padding is not None:
            if padding.shape != (batch, keys):
                raise ValueError(
                    f"MultiheadAttention: key_padding_mask must be [{batch}, {keys}], got {describe(padding)}"
                )
            added = additive(padding, "key_padding_mask").reshape(batch, 1, 1, keys)
            whole = added if whole is None else whole + added
        return whole

    def _heads(self, x: Tensor) -> Tensor:
        """(B, T, embed_dim) → (B, heads, T, head_dim)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        sizes = (self.embed_dim, self.kdim, self.vdim)
        fits = all(x.shape[-1] == size for x, size in zip((query, key, value), sizes, strict=True))
        ranks = query.ndim in (2, 3) and query.ndim == key.ndim == value.ndim
        if not ranks or not fits or key.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                f"MultiheadAttention of sizes {sizes}: query {describe(query)}, key {describe(key)} and value "
                f"{describe(value)} do not fit"
            )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._check(query, key, value)
        batched = query.ndim == 3
        one = query is key and key is value
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.reshape(1, -1)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if one:
            key = value = query
        q, k, v = self._project(query, key, value)
        if is_causal and attn_mask is None:
            if q.shape[1] != k.shape[1]:
                raise ValueError("MultiheadAttention: is_causal needs as many keys as queries, or a mask of your own")
            attn_mask = subsequent_mask(q.shape[1])
        mask = self._mask(attn_mask, key_padding_mask, q.shape[0], q.shape[1], k.shape[1])
        k, v, mask = self._extended(k, v, mask)
        scores = self._heads(q * (1 / sqrt(self.head_dim))) @ self._heads(k).transpose(-1, -2)
        weights = drop((scores if mask is None else scores + mask).softmax(-1), self.dropout, self.training)
        joined = (weights @ self._heads(v)).transpose(1, 2).reshape(query.shape)
        output = self.out_proj(joined)
        output = output.squeeze(0) if not batched else output if self.batch_first else output.transpose(0, 1)
        if not need_weights:
            return output, None
        weights = weights.mean(1) if average_attn_weights else weights
        return output, weights if batched else weights.squeeze(0)

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with the learned row and the row of zeros, if they are wanted; both may always be seen."""
        batch, added = k.shape[0], 0
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (ops.cat([x, b.expand(batch, 1, -1)], 1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
            added += 1
        if self.add_zero_attn:
            row = zeros((batch, 1, self.embed_dim), dtype=k.dtype)
            k, v = ops.cat([k, row], 1), ops.cat([v, row], 1)
            added += 1
        if mask is not None and added:
            mask = ops.cat([mask, zeros((*mask.shape[:-1], added), dtype=mask.dtype)], -1)
        return k, v, mask

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"
