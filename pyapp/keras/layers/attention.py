"""Attention (Vaswani et al. 2017, arXiv 1706.03762; Bahdanau et al. 2014, arXiv 1409.0473)."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...nn import functional as F
from ...train.batches import is_array
from .. import constraints, initializers, regularizers
from ..core import KerasTensor, Layer

__all__ = ["AdditiveAttention", "Attention", "MultiHeadAttention"]


def _causal(queries: int, keys: int, like: Tensor) -> Tensor:
    """True where key k may be seen by query q: k <= q. (queries, keys)."""
    return ops.ones((queries, keys), dtype="bool", device=like.device).tril()


def _excluded(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with a large negative number where the mask is False."""
    return (
        scores
        if mask is None
        else ops.where(mask, scores, ops.full((), -1e9, dtype=scores.dtype, device=scores.device))
    )


def _tensor(x: Any) -> Any:
    """An array as a tensor; other values, symbolic tensors among them, as they are."""
    return ops.as_tensor(x) if is_array(x) and not isinstance(x, KerasTensor) else x


class MultiHeadAttention(Layer):
    """Attention of `num_heads` heads of size `key_dim` (values: `value_dim`) from queries (B, T, F) to values and keys
    (B, S, F). Kernels are (F, heads, size); the output's is (heads, size, F).
    """

    supports_masking = True

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0, use_bias: bool = True,
        output_shape: int | None = None, attention_axes: Any = None, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout, self.use_bias, self.output_size = dropout, use_bias, output_shape
        self.attention_axes = (attention_axes,) if isinstance(attention_axes, int) else attention_axes
        self.kernel_initializer, self.bias_initializer = (
            initializers.get(kernel_initializer),
            initializers.get(bias_initializer),
        )
        self._weight_settings: tuple[dict[str, Any], dict[str, Any]] = (
            {"regularizer": regularizers.get(kernel_regularizer), "constraint": constraints.get(kernel_constraint)},
            {"regularizer": regularizers.get(bias_regularizer), "constraint": constraints.get(bias_constraint)},
        )
        self.seed, self.generator = seed, None if seed is None else Generator(seed)

    def _build_for(self, inputs: Any) -> None:
        raise AssertionError("built by _build_from")

    def _build_from(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        of_kernel, of_bias = self._weight_settings
        heads = self.num_heads
        for name, size, tensor in (
            ("query", self.key_dim, query),
            ("key", self.key_dim, key),
            ("value", self.value_dim, value),
        ):
            kernel = self.add_weight(
                (tensor.shape[-1], heads, size), self.kernel_initializer, name=f"{name}_kernel", **of_kernel
            )
            setattr(self, f"{name}_kernel", kernel)
            bias = (
                self.add_weight((heads, size), self.bias_initializer, name=f"{name}_bias", **of_bias)
                if self.use_bias
                else None
            )
            setattr(self, f"{name}_bias", bias)
        out = self.output_size or query.shape[-1]
        self.output_kernel = self.add_weight(
            (heads, self.value_dim, out), self.kernel_initializer, name="output_kernel", **of_kernel
        )
        self.output_bias = (
            self.add_weight((out,), self.bias_initializer, name="output_bias", **of_bias) if self.use_bias else None
        )
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("query", "value", "key"), args, strict=False)) | kwargs
        tensors: list[Any] = [given.get("query"), given.get("value"), given.get("key")]
        args = tuple(_tensor(x) for x in args)
        kwargs = {name: _tensor(x) for name, x in kwargs.items()}
        if not self.built and not isinstance(tensors[0], KerasTensor):
            query, value = (ops.as_tensor(x) for x in tensors[:2])
            self._build_from(query, value, value if tensors[2] is None else ops.as_tensor(tensors[2]))
        return super().__call__(*args, **kwargs)

    def _over_axes(self, query: Tensor, value: Tensor, key: Tensor, training: bool, use_causal_mask: bool) -> Tensor:
        """Attention of (B, …, F) along `attention_axes` (all between if they are None): those become one, and the
        others join the batch."""
        given = range(1, query.ndim - 1) if self.attention_axes is None else self.attention_axes
        along = [axis % query.ndim for axis in given]
        order = [k for k in range(query.ndim - 1) if k not in along] + along + [query.ndim - 1]
        moved = [x.permute(*order) for x in (query, value, key)]
        cut = query.ndim - 1 - len(along)
        flat = [x.reshape(prod(x.shape[:cut]), -1, x.shape[-1]) for x in moved]
        found: Tensor = self.call(flat[0], flat[1], flat[2], training=training, use_causal_mask=use_causal_mask)
        found = found.reshape(*moved[0].shape[:-1], found.shape[-1])
        return found.permute(*(order.index(k) for k in range(query.ndim)))

    def _project(self, x: Tensor, name: str) -> Tensor:
        """(B, T, F) -> (B, heads, T, size)."""
        kernel, bias = getattr(self, f"{name}_kernel"), getattr(self, f"{name}_bias")
        features, heads, size = kernel.shape
        flat = None if bias is None else bias.reshape(-1)
        y = ops.linear(x, kernel.reshape(features, heads * size).T, flat)
        return y.reshape(*x.shape[:-1], heads, size).transpose(1, 2)

    def call(
        self, query: Tensor, value: Tensor, key: Tensor | None = None, query_mask: Tensor | None = None,
        value_mask: Tensor | None = None, key_mask: Tensor | None = None, attention_mask: Tensor | None = None,
        return_attention_scores: bool = False, training: bool = False, use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        key = value if key is None else key
        if query.ndim != 3:
            masks = (query_mask, value_mask, key_mask, attention_mask)
            if return_attention_scores or any(mask is not None for mask in masks):
                raise NotImplementedError("attention over several axes takes no masks and gives no scores")
            return self._over_axes(query, value, key, training, use_causal_mask)
        q, k, v = self._project(query, "query"), self._project(key, "key"), self._project(value, "value")
        mask = attention_mask
        if mask is not None:
            mask = mask.to("bool")
            mask = mask.reshape(mask.shape[0], *(1,) * (4 - mask.ndim), *mask.shape[1:])
        if use_causal_mask:
            causal = _causal(q.shape[2], k.shape[2], q)
            mask = causal if mask is None else mask & causal
        for given, dims in ((query_mask, (1, -1)), (value_mask, (1, 1)), (key_mask, (1, 1))):
            if given is not None:
                own = given.to("bool").unsqueeze(dims[0]).unsqueeze(dims[1])  # (B, 1, T, 1), or (B, 1, 1, S)
                mask = own if mask is None else mask & own
        drop = self.dropout if training else 0.0
        scores = None
        if mask is None and not drop and not return_attention_scores:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = _excluded(q @ k.mT * (1 / sqrt(self.key_dim)), mask).softmax(-1)  # (B, heads, T, S)
            y = (F.dropout(scores, drop, generator=self.generator) if drop else scores) @ v  # (B, heads, T, size)
        y = y.transpose(1, 2).reshape(query.shape[0], query.shape[1], -1)
        kernel = self.output_kernel
        y = ops.linear(y, kernel.reshape(prod(kernel.shape[:2]), kernel.shape[2]).T, self.output_bias)
        return (y, scores) if return_attention_scores else y


class _DotAttention(Layer):
    """Base of attention without projections: inputs are [query, value] or [query, value, key]."""

    def __init__(self, dropout: float = 0.0, seed: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.dropout, self.seed, self.generator = dropout, seed, None if seed is None else Generator(seed)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return previous_mask[0]

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S)."""
        raise NotImplementedError

    def call(
        self, inputs: Any, mask: Any = None, return_attention_scores: bool = False, training: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        query, value = inputs[:2]
        scores = self.scores(query, inputs[2] if len(inputs) > 2 else value)
        allowed = None
        mask = [None if one is None else ops.as_tensor(one) for one in mask or (None, None)]
        if mask[1] is not None:
            allowed = mask[1].to("bool").unsqueeze(-2)
        if use_causal_mask:
            causal = _causal(scores.shape[-2], scores.shape[-1], scores)
            allowed = causal if allowed is None else allowed & causal
        weights = _excluded(scores, allowed).softmax(-1)
        y = (
            F.dropout(weights, self.dropout, generator=self.generator) if training and self.dropout else weights
        ) @ value
        if mask[0] is not None:
            y = y * mask[0].to(y.dtype).unsqueeze(-1)
        return (y, weights) if return_attention_scores else y


class Attention(_DotAttention):
    """Luong's attention: scores are products of queries and keys (score_mode "concat": of tanh of their sum)."""

    def __init__(
        self, use_scale: bool = False, score_mode: str = "dot", dropout: float = 0.0, seed: int | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(dropout, seed, **settings)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f"Attention: score_mode is dot or concat, not {score_mode!r}")
        self.use_scale, self.score_mode = use_scale, score_mode

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight((), "ones", name="scale") if self.use_scale else None
        self.concat_score_weight = (
            self.add_weight((), "ones", name="concat_score_weight") if self.score_mode == "concat" else None
        )

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        if self.score_mode == "dot":
            found = query @ key.mT
            return found if self.scale is None else found * self.scale
        total = query.unsqueeze(-2) + key.unsqueeze(-3)
        total = total if self.scale is None else total * self.scale
        assert self.concat_score_weight is not None
        return self.concat_score_weight * total.tanh().sum(-1)


class AdditiveAttention(_DotAttention):
    """Bahdanau's attention: scores are sums of tanh(query + key), weighted if use_scale."""

    def __init__(self, use_scale: bool = True, dropout: float = 0.0, seed: int | None = None, **settings: Any) -> None:
        super().__init__(dropout, seed, **settings)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        size = input_shape[0][-1]
        self.scale = self.add_weight((size,), "glorot_uniform", name="scale") if self.use_scale else None

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        total = (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh()
        return (total if self.scale is None else total * self.scale).sum(-1)
