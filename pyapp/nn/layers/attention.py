"""Multi-head attention with torch's parameter names (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

from ...engine import Tensor, ops
from ...engine.ops import empty, zeros
from ...engine.user_errors import describe
from ...errors import ArgumentError, ArgumentTypeError, AssertedError
from ..init import xavier_normal_, xavier_uniform_
from ..module import Module
from ..parameter import Initialization, new_parameter
from .dropout import dropout as drop
from .linear import NonDynamicallyQuantizableLinear

__all__ = ["MultiheadAttention", "multi_head_attention_forward", "scaled_dot_product_attention"]

scaled_dot_product_attention = ops.scaled_dot_product_attention

_NAME = "MultiheadAttention"


def additive(mask: Tensor, name: str, dtype: Any) -> Tensor:
    """The mask to add to scores: -inf where a boolean mask is True; a floating-point mask unchanged."""
    if mask.dtype.is_floating_point:
        return mask.to(dtype)
    if mask.dtype.name != "bool":
        raise ArgumentTypeError(f"{_NAME}: {name} must be boolean or floating-point, got {describe(mask)}")
    return ops.where(mask, float("-inf"), zeros(mask.shape, dtype=dtype, device=mask.device))


def subsequent_mask(size: int, device: Any = None) -> Tensor:
    """(size, size), True above the diagonal: the keys that a causal model must not attend to."""
    positions = ops.arange(size, device=device)
    return positions.unsqueeze(0) > positions.unsqueeze(1)


class _Projections(NamedTuple):
    """The projections of attention: weights (E, E), (E, kdim), (E, vdim), or None and one weight (3 E, E) of
    all three.
    """

    heads: int
    whole: Tensor | None
    parts: tuple[Tensor | None, Tensor | None, Tensor | None]
    bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    add_zero_attn: bool
    output: tuple[Tensor, Tensor | None]

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """The projected query, key and value, each (B, rows, E)."""
        size = query.shape[-1]
        at = [slice(i * size, (i + 1) * size) for i in range(3)]
        if self.whole is not None and query is key and key is value:
            one = ops.linear(query, self.whole, self.bias)
            return [one[..., part] for part in at]
        weights: Any = self.parts if self.whole is None else [self.whole[part].contiguous() for part in at]
        biases = [None if self.bias is None else self.bias[part].contiguous() for part in at]
        return [ops.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    @property
    def adds_no_keys(self) -> bool:
        """Whether `extended` adds no rows."""
        return self.bias_k is None and self.bias_v is None and not self.add_zero_attn

    def extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with the learned row and the row of zeros, where configured. Neither row is ever masked."""
        batch, added = k.shape[0], 0
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (ops.cat([x, b.expand(batch, 1, -1)], 1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
            added += 1
        if self.add_zero_attn:
            row = k.new_zeros((batch, 1, k.shape[-1]))
            k, v = ops.cat([k, row], 1), ops.cat([v, row], 1)
            added += 1
        if mask is not None and added:
            mask = ops.cat([mask, mask.new_zeros((*mask.shape[:-1], added))], -1)
        return k, v, mask


def _joined_mask(
    attn_mask: Tensor | None, padding: Tensor | None, heads: int, queries: Tensor, keys: int
) -> Tensor | None:
    """The mask to add to the scores (B, heads, L, S), or a shape that broadcasts to them; None if there is none."""
    whole, (batch, rows) = None, queries.shape[:2]
    if attn_mask is not None:
        whole = additive(attn_mask, "attn_mask", queries.dtype)
        if whole.shape == (batch * heads, rows, keys):
            whole = whole.reshape(batch, heads, rows, keys)
        elif whole.shape != (rows, keys):
            raise ArgumentError(
                f"{_NAME}: The shape of the attn_mask is {list(attn_mask.shape)}, but should be ({rows}, {keys}): "
                f"attn_mask must be [{rows}, {keys}] or [{batch * heads}, {rows}, {keys}], got {describe(attn_mask)}"
            )
    if padding is not None:
        if padding.shape != (batch, keys):
            raise ArgumentError(f"{_NAME}: key_padding_mask must be [{batch}, {keys}], got {describe(padding)}")
        added = additive(padding, "key_padding_mask", queries.dtype).reshape(batch, 1, 1, keys)
        whole = added if whole is None else whole + added
    return whole


def _attend(
    made: _Projections, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, padding: Tensor | None,
    is_causal: bool, rate: float, need_weights: bool, given: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention with the batch first → (B, L, E), and the weights (B, heads, L, S), None if they are not needed.
    `given` keys and values: (B * heads, S, E / heads).
    """
    q, k, v = made.project(query, key, value)
    fixed = next((x for x in given if x is not None), None)
    fused = not need_weights and not rate
    causal = is_causal and attn_mask is None
    if causal and q.shape[1] != k.shape[1]:
        raise ArgumentError(f"{_NAME}: is_causal needs as many keys as queries, or a mask of your own")
    if causal and not (fused and padding is fixed is None and made.adds_no_keys):
        attn_mask, causal = subsequent_mask(q.shape[1], q.device), False
    mask = _joined_mask(attn_mask, padding, made.heads, q, k.shape[1] if fixed is None else fixed.shape[1])
    batch, rows, size = q.shape
    split = (made.heads, size // made.heads)
    if fixed is None:
        k, v, mask = made.extended(k, v, mask)
    queries = q.reshape(*q.shape[:2], *split).transpose(1, 2)  # (B, heads, L, E / heads)
    keys, values = (
        x.reshape(*x.shape[:2], *split).transpose(1, 2)
        if own is None
        else own.reshape(batch, made.heads, own.shape[1], split[-1])
        for x, own in zip((k, v), given, strict=True)
    )
    if fused:
        weights, mixed = None, scaled_dot_product_attention(queries, keys, values, mask, is_causal=causal)
    else:
        scores = queries * (1 / sqrt(split[-1])) @ keys.transpose(-1, -2)
        weights = drop((scores if mask is None else scores + mask).softmax(-1), rate)
        mixed = weights @ values
    return ops.linear(mixed.transpose(1, 2).reshape(batch, rows, size), *made.output), weights


def _check(query: Tensor, key: Tensor, value: Tensor, sizes: tuple[int, int, int]) -> None:
    fits = all(x.shape[-1] == size for x, size in zip((query, key, value), sizes, strict=True))
    ranks = query.ndim in (2, 3) and query.ndim == key.ndim == value.ndim
    if not ranks or not fits or key.shape[:-1] != value.shape[:-1]:
        told = (
            ""
            if query.shape[-1] == sizes[0]
            else f"expecting embedding dimension of {sizes[0]}, got {query.shape[-1]}: "
        )
        raise ArgumentError(
            f"{_NAME} of sizes {sizes}: {told}query {describe(query)}, key {describe(key)} and value {describe(value)} "
            "do not fit"
        )


def _arranged(
    made: _Projections, inputs: tuple[Tensor, Tensor, Tensor], batch_first: bool, padding: Tensor | None,
    need_weights: bool, average: bool, **settings: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """_attend for inputs without a batch, or with the batch as first or second dim."""
    query, key, value = inputs
    batched, batch = query.ndim == 3, 0 if batch_first else 1
    if batched and query.shape[batch] != key.shape[batch]:
        raise ArgumentError(
            f"{_NAME}: query {describe(query)} and key {describe(key)} are of several batches: with batch_first "
            f"{batch_first} the batch is dim {batch}"
        )
    if not batched:
        padding = None if padding is None else padding.reshape(1, -1)
    if not batched or not batch_first:
        turned = [x.transpose(0, 1) if batched else x.unsqueeze(0) for x in inputs]
        same = query is key and key is value
        query, key, value = (turned[0],) * 3 if same else turned
    output, weights = _attend(made, query, key, value, padding=padding, need_weights=need_weights, **settings)
    output = output.squeeze(0) if not batched else output if batch_first else output.transpose(0, 1).contiguous()
    if weights is None:
        return output, None
    weights = weights.mean(1) if average else weights
    return output, weights if batched else weights.squeeze(0)


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """MultiheadAttention with its parameters as arguments; the batch, if any, is the second dim.
    `static_k` and `static_v` (B * heads, S, E / heads) replace the keys and values.
    """
    size = embed_dim_to_check
    if query.shape[-1] != size or size % num_heads:
        raise ArgumentError(f"multi_head_attention_forward: {describe(query)} is not of {size} in {num_heads} heads")
    parts = (q_proj_weight, k_proj_weight, v_proj_weight)
    if use_separate_proj_weight and any(part is None for part in parts):
        raise ArgumentError(
            "multi_head_attention_forward: use_separate_proj_weight needs q_proj_weight, k_proj_weight, v_proj_weight"
        )
    made = _Projections(
        num_heads, None if use_separate_proj_weight else in_proj_weight, parts, in_proj_bias, bias_k, bias_v,
        add_zero_attn, (out_proj_weight, out_proj_bias),
    )  # fmt: skip
    return _arranged(
        made, (query, key, value), False, key_padding_mask, need_weights, average_attn_weights, attn_mask=attn_mask,
        is_causal=is_causal, rate=dropout_p if training else 0.0, given=(static_k, static_v),
    )  # fmt: skip


class MultiheadAttention(Module):
    """query (L, B, embed_dim), key (S, B, kdim), value (S, B, vdim), or batch first, or without B → (result, weights).

    The result has the query's shape. The weights are (B, L, S), averaged over the heads, or (B, heads, L, S); they are
    None unless `need_weights`. `attn_mask` (L, S) or (B * heads, L, S) and `key_padding_mask` (B, S) are boolean, True
    where attention is forbidden, or are added to the scores. `is_causal` without a mask uses the causal mask.
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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1:
            raise ArgumentError(f"{_NAME}: embed_dim {embed_dim} and num_heads {num_heads} must be above 0")
        if embed_dim % num_heads:
            raise AssertedError(
                f"{_NAME}: embed_dim must be divisible by num_heads: embed_dim {embed_dim} does not divide into "
                f"{num_heads} heads"
            )
        made = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        same = self.kdim == self.vdim == embed_dim
        self.in_proj_weight = new_parameter(empty, 3 * embed_dim, embed_dim, **made) if same else None
        self.q_proj_weight = None if same else new_parameter(empty, embed_dim, embed_dim, **made)
        self.k_proj_weight = None if same else new_parameter(empty, embed_dim, self.kdim, **made)
        self.v_proj_weight = None if same else new_parameter(empty, embed_dim, self.vdim, **made)
        self.in_proj_bias = new_parameter(zeros, 3 * embed_dim, **made) if bias else None
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **made)
        self.bias_k = new_parameter(empty, 1, 1, embed_dim, **made) if add_bias_kv else None
        self.bias_v = new_parameter(empty, 1, 1, embed_dim, **made) if add_bias_kv else None
        if Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's uniform initialisation for the projections, normal for bias_k and bias_v, zeros for the biases, as
        in torch.
        """
        for name, parameter in self._parameters.items():
            if name.endswith("weight"):
                xavier_uniform_(parameter)
            elif name in ("bias_k", "bias_v"):
                xavier_normal_(parameter)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                bias.detach().zero_()

    def _of_sequences(self, query: Any, key: Any, value: Any, masked: bool, need_weights: bool, is_causal: bool) -> Any:
        """Attention of nested tensors (B, j, embed_dim), within each sequence alone."""
        if not all(getattr(x, "is_nested", False) for x in (query, key, value)):
            raise ArgumentError(f"{_NAME}: query, key and value are nested tensors, or none of them is")
        if not self.batch_first:
            raise ArgumentError(f"{_NAME}: nested tensors have the batch first: give batch_first=True")
        if masked:
            raise ArgumentError(
                f"{_NAME}: nested tensors have no padding, and take no key_padding_mask and no attn_mask; "
                "is_causal=True masks what follows"
            )
        if need_weights:
            raise ArgumentError(f"{_NAME}: of nested tensors there are no weights: give need_weights=False")
        if self.bias_k is not None or self.add_zero_attn:
            raise ArgumentError(f"{_NAME}: add_bias_kv and add_zero_attn are not there for nested tensors")
        whole = self.in_proj_weight
        weights = whole.chunk(3) if whole is not None else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        heads = (self.num_heads, self.head_dim)
        q, k, v = (
            x.matmul(w.mT).unflatten(-1, heads).transpose(1, 2)
            if b is None
            else (x.matmul(w.mT) + b).unflatten(-1, heads).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )  # (B, heads, j, head_dim) each
        attended = q.attend(k, v, self.dropout if self.training else 0.0, is_causal)
        return self.out_proj(attended.transpose(1, 2).flatten(-2))

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
        if any(getattr(x, "is_nested", False) for x in (query, key, value)):
            masked = key_padding_mask is not None or attn_mask is not None
            return self._of_sequences(query, key, value, masked, need_weights, is_causal), None
        _check(query, key, value, (self.embed_dim, self.kdim, self.vdim))
        made = _Projections(
            self.num_heads, self.in_proj_weight, (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight),
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, (self.out_proj.weight, self.out_proj.bias),
        )  # fmt: skip
        return _arranged(
            made, (query, key, value), self.batch_first, key_padding_mask, need_weights, average_attn_weights,
            attn_mask=attn_mask, is_causal=is_causal, rate=self.dropout if self.training else 0.0,
        )  # fmt: skip
