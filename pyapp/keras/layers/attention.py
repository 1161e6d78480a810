"""Attention (Vaswani et al. 2017, arXiv 1706.03762; Bahdanau et al. 2014, arXiv 1409.0473)."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...nn import functional as F
from ...train.batches import is_array
from ...train.names import unique_name
from .. import constraints, initializers, regularizers
from ..arguments import dim_of, share_of
from ..call_state import STATE
from ..core import Layer
from ..masking import exclude
from ..settings import SETTINGS
from ..symbolic_tensors import KerasTensor
from .activation import Softmax
from .dense import EinsumDense
from .regularization import Dropout

__all__ = ["AdditiveAttention", "Attention", "GroupQueryAttention", "MultiHeadAttention"]


def _causal(queries: int, keys: int, like: Tensor) -> Tensor:
    """True where key k may be seen by query q: k <= q. (queries, keys)."""
    return ops.ones((queries, keys), dtype="bool", device=like.device).tril()


def _tensor(x: Any) -> Any:
    """An array as a tensor; other values, symbolic tensors among them, as they are."""
    return ops.as_tensor(x) if is_array(x) and not isinstance(x, KerasTensor) else x


_PUBLIC = {  # by the name within Keras' layers
    "_num_heads": "heads", "_num_query_heads": "heads", "_num_key_value_heads": "key_value_heads",
    "_key_dim": "key_size", "_head_dim": "key_size", "_value_dim": "value_size", "_dropout": "dropout",
    "_use_bias": "use_bias", "_output_shape": "output_sizes", "_flash_attention": "flash_attention",
    "_query_dense": "query_dense", "_key_dense": "key_dense", "_value_dense": "value_dense",
    "_output_dense": "output_dense",
}  # fmt: skip
_OF_PROJECTIONS = (
    "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer", "kernel_constraint",
    "bias_constraint",
)  # fmt: skip


class _HeadsAttention(Layer):
    """Base of attention of several heads. The layers `query_dense`, `key_dense`, `value_dense`, `output_dense` (and
    `gate_dense`) have the weights: kernels (F, heads, size), the output's (heads, size, F)."""

    supports_masking = True
    unwritten = ("flash_attention",)

    def __init__(
        self, num_heads: int, key_value_heads: int, key_dim: int, value_dim: int, dropout: float, use_bias: bool,
        output_shape: Any, sliding_window: int | None, flash_attention: bool | None, kernel_initializer: Any,
        bias_initializer: Any, kernel_regularizer: Any, bias_regularizer: Any, activity_regularizer: Any,
        kernel_constraint: Any, bias_constraint: Any, use_gate: bool, seed: int | None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        kind = type(self).__name__
        for number in (num_heads, key_value_heads, key_dim, value_dim):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{kind}: numbers of heads and their sizes are positive integers, not {number!r}")
        if num_heads % key_value_heads:
            raise ValueError(f"{kind}: {num_heads} heads of queries do not divide among {key_value_heads} of keys")
        if sliding_window is not None and (not isinstance(sliding_window, int) or sliding_window < 1):
            raise ValueError(f"{kind}: sliding_window is a positive integer, not {sliding_window!r}")
        flash_attention = flash_attention or SETTINGS.flash_attention
        share_of(f"{kind}: dropout", dropout)
        if flash_attention and dropout:
            raise ValueError(f"{kind}: flash attention has no dropout, got dropout={dropout}")
        self.heads, self.key_value_heads, self.key_size, self.value_size = (
            num_heads, key_value_heads, key_dim, value_dim
        )  # fmt: skip
        self.dropout, self.use_bias, self.use_gate, self.sliding_window = dropout, use_bias, use_gate, sliding_window
        self.flash_attention = flash_attention
        self.output_sizes = (output_shape,) if isinstance(output_shape, int) else output_shape
        self._of_projections = {
            "kernel_initializer": initializers.get(kernel_initializer),
            "bias_initializer": initializers.get(bias_initializer),
            "kernel_regularizer": regularizers.get(kernel_regularizer),
            "bias_regularizer": regularizers.get(bias_regularizer),
            "kernel_constraint": constraints.get(kernel_constraint),
            "bias_constraint": constraints.get(bias_constraint),
            "dtype": self.dtype_policy,
        }
        self._of_activity = regularizers.get(activity_regularizer)
        self.seed, self.generator = seed, None if seed is None else Generator(seed)

    # -- the names that packages know which subclass Keras' layers

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(_PUBLIC.get(name, name), value)

    def __getattr__(self, name: str) -> Any:
        public = _PUBLIC.get(name)
        if public is not None:
            return getattr(self, public)
        if name == "_activity_regularizer":
            return self._of_activity
        if name[:1] == "_" and name[1:] in _OF_PROJECTIONS and "_of_projections" in self.__dict__:
            return self._of_projections[name[1:]]
        if name in ("_softmax", "_dropout_layer") and "_of_projections" in self.__dict__:
            made = Softmax(dtype=self.dtype_policy) if name == "_softmax" else Dropout(
                self.dropout, seed=self.seed, dtype=self.dtype_policy
            )  # fmt: skip
            self.__dict__[name] = made  # no weights: not one of the layers inside
            return made
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _inverse_sqrt_key_dim(self) -> float:
        return 1 / sqrt(self.key_size)

    def _get_common_kwargs_for_sublayer(self) -> dict[str, Any]:
        """The arguments of a projection: initialisers, each its own, regularisers and constraints."""
        found = {key: value for key, value in self._of_projections.items() if key != "dtype"}
        for key in ("kernel_initializer", "bias_initializer"):
            if hasattr(found[key], "get_config"):
                found[key] = type(found[key]).from_config(found[key].get_config())
        return {**found, "activity_regularizer": self._of_activity}

    def _build_attention(self, rank: int) -> None:
        """Sets the equations of scores (B, heads, T, S) and of results (B, T, heads, size)."""
        if rank != 4:
            raise NotImplementedError(
                f"{self.name}: equations are for heads of (B, T, heads, size), of 4 dims, not {rank}"
            )
        self._dot_product_equation, self._combine_equation = "aecd,abcd->acbe", "acbe,aecd->abcd"

    def _masked_softmax(self, attention_scores: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Softmax of scores (B, heads, T, S) over the keys; `attention_mask` (B, T, S), or with the heads."""
        if attention_mask is not None:
            attention_mask = self._with_heads(attention_mask)
        found: Tensor = exclude(attention_scores, attention_mask).softmax(-1)
        return found if attention_mask is None else ops.where(attention_mask, found, 0.0)

    def _with_heads(self, mask: Tensor) -> Tensor:
        mask = mask.to("bool")
        return mask if mask.ndim == 2 else mask.reshape(mask.shape[0], *(1,) * (4 - mask.ndim), *mask.shape[1:])

    def _dense(self, name: str, shape: Any, heads: int, size: int, activation: Any = None) -> EinsumDense:
        """The layer that projects (…, F) to (…, heads, size)."""
        bias = "bc" if self.use_bias else None
        layer = EinsumDense(
            "...a,abc->...bc", (heads, size), activation, bias_axes=bias, name=name, **self._of_projections
        )
        layer.build(shape)
        layer.built = True
        return layer

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        self.query_dense = self._dense("query", query_shape, self.heads, self.key_size)
        self.key_dense = self._dense("key", key_shape, self.key_value_heads, self.key_size)
        self.gate_dense = (
            self._dense("gate", query_shape, self.heads, self.value_size, "sigmoid") if self.use_gate else None
        )
        self.value_dense = self._dense("value", value_shape, self.key_value_heads, self.value_size)
        shapes = {"query_shape": query_shape, "value_shape": value_shape}
        shapes = shapes if key_shape == value_shape else {**shapes, "key_shape": key_shape}
        object.__setattr__(self, "_built_for_several", shapes)
        sizes = (query_shape[-1],) if self.output_sizes is None else tuple(self.output_sizes)
        letters = "cdefgh"[: len(sizes)]
        bias = letters if self.use_bias else None
        output = EinsumDense(
            f"...ab,ab{letters}->...{letters}", sizes, bias_axes=bias, name="attention_output", **self._of_projections
        )
        output.build((None, None, self.heads, self.value_size))
        output.built = True
        self.output_dense = output
        for name in ("softmax", "dropout"):  # Keras' layers of these kinds inside use names up
            unique_name(name)
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("query", "value", "key"), args, strict=False)) | kwargs
        tensors: list[Any] = [given.get("query"), given.get("value"), given.get("key")]
        args = tuple(_tensor(x) for x in args)
        kwargs = {name: _tensor(x) for name, x in kwargs.items()}
        if not self.built and not isinstance(tensors[0], KerasTensor) and type(self).build is _HeadsAttention.build:
            self.build(*self._shapes(tensors))
        return super().__call__(*args, **kwargs)

    def _shapes(self, tensors: list[Any]) -> list[tuple[int | None, ...] | None]:
        """The shapes of query, value and key, with None where a size is not known, or for one that is not there."""
        layer, symbols = STATE.symbolic
        known = list(symbols) if layer is self else []
        shapes: list[tuple[int | None, ...] | None] = []
        for place, x in enumerate(tensors):
            shape: tuple[int | None, ...] | None = None if x is None else tuple(ops.as_tensor(x).shape)
            if shape is not None and layer is self:
                shape = (None, *shape[1:])
            shapes.append(getattr(known[place], "shape", shape) if place < len(known) else shape)
        return shapes

    def _project(self, x: Tensor, layer: EinsumDense) -> Tensor:
        """(B, T, F) -> (B, T, heads, size)."""
        if layer.stored_in_order:  # it is quantised
            return self._regularize(layer(x))
        kernel, bias = layer.kernel, layer.bias
        features, heads, size = kernel.shape
        flat = None if bias is None else bias.reshape(-1)
        y = ops.linear(x, kernel.reshape(features, heads * size).T, flat)
        return self._regularize(layer.activation(y.reshape(*x.shape[:-1], heads, size)))

    def _regularize(self, x: Tensor) -> Tensor:
        if self._of_activity is not None:
            self.add_loss(self._of_activity(x) / x.shape[0])
        return x

    def _mask(
        self, queries: int, keys: int, like: Tensor, attention_mask: Tensor | None, use_causal_mask: bool,
        own: tuple[Tensor | None, Tensor | None, Tensor | None],
    ) -> Tensor | None:  # fmt: skip
        """True where a query may see a key, (B or 1, heads or 1, T, S) or (T, S); None if it may everywhere."""
        mask = attention_mask
        if mask is not None:
            mask = mask.to("bool")
            while mask.ndim < 4:  # (T, S) -> (1, 1, T, S), and (B, T, S) -> (B, 1, T, S)
                mask = mask.unsqueeze(-3)
        more = [_causal(queries, keys, like)] if use_causal_mask else []
        if self.sliding_window is not None:
            row, column = (ops.arange(n, device=like.device) for n in (queries, keys))
            more.append((row.unsqueeze(1) - column).abs() < self.sliding_window)
        for given, dims in zip(own, ((1, -1), (1, 1), (1, 1)), strict=True):
            if given is not None:  # (B, 1, T, 1), or (B, 1, 1, S)
                more.append(given.to("bool").unsqueeze(dims[0]).unsqueeze(dims[1]))
        for one in more:
            mask = one if mask is None else mask & one
        return mask

    def call(
        self, query: Tensor, value: Tensor, key: Tensor | None = None, query_mask: Tensor | None = None,
        value_mask: Tensor | None = None, key_mask: Tensor | None = None, attention_mask: Tensor | None = None,
        return_attention_scores: bool = False, training: bool = False, use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        key = value if key is None else key
        q, k, v = (
            self._project(x, layer)  # (B, T, heads, size)
            for x, layer in ((query, self.query_dense), (key, self.key_dense), (value, self.value_dense))
        )
        masks = (query_mask, value_mask, key_mask)
        mask = self._mask(q.shape[1], k.shape[1], q, attention_mask, use_causal_mask, masks)
        y, scores = self._compute_attention(q, k, v, mask, training, return_attention_scores)
        if self.gate_dense is not None:
            y = y * self._project(query, self.gate_dense)
        if self.output_dense.stored_in_order:  # it is quantised
            y = self._regularize(self.output_dense(y))
            return (y, scores) if return_attention_scores else y
        kernel, bias = self.output_dense.kernel, self.output_dense.bias
        flat = None if bias is None else bias.reshape(-1)
        y = ops.linear(
            y.reshape(query.shape[0], query.shape[1], -1), kernel.reshape(prod(kernel.shape[:2]), -1).T, flat
        )
        y = self._regularize(y.reshape(*y.shape[:2], *kernel.shape[2:]))
        return (y, scores) if return_attention_scores else y

    def _compute_attention(
        self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, training: Any = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The results (B, T, heads, size), and the scores (B, heads, T, S) or None, of projected queries, keys and
        values (B, T or S, heads, size). The name is that of Keras, whose subclasses call it and write their own."""
        if return_attention_scores and self.flash_attention:
            raise ValueError("flash attention has no attention scores to return")
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))  # (B, heads, T, size)
        repeats = self.heads // self.key_value_heads
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        drop = self.dropout if training else 0.0
        if attention_mask is None and not drop and not return_attention_scores:
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2), None
        mask = None if attention_mask is None else self._with_heads(attention_mask)
        scores = exclude(q @ k.mT * (1 / sqrt(self.key_size)), mask).softmax(-1)  # (B, heads, T, S)
        if mask is not None and (self.dropout or return_attention_scores):  # a query that sees nothing
            scores = ops.where(mask, scores, 0.0)
        y = (F.dropout(scores, drop, generator=self.generator) if drop else scores) @ v  # (B, heads, T, size)
        return y.transpose(1, 2), scores


class MultiHeadAttention(_HeadsAttention):
    """Attention of `num_heads` heads of size `key_dim` (values: `value_dim`) from queries (B, T, F) to values and keys
    (B, S, F). `sliding_window`: a query sees the keys that are fewer steps away, on either side. `use_gate` multiplies
    the heads' results by a sigmoid of the queries.
    """

    def __init__(
        self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0, use_bias: bool = True,
        output_shape: Any = None, attention_axes: Any = None, sliding_window: int | None = None,
        flash_attention: bool | None = None, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
        use_gate: bool = False, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            num_heads, num_heads, key_dim, value_dim or key_dim, dropout, use_bias, output_shape, sliding_window,
            flash_attention, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, use_gate, seed, **settings,
        )  # fmt: skip
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.attention_axes = (attention_axes,) if isinstance(attention_axes, int) else attention_axes

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "value_dim": self.value_dim, "output_shape": self.output_sizes}

    def call(
        self, query: Tensor, value: Tensor, key: Tensor | None = None, query_mask: Tensor | None = None,
        value_mask: Tensor | None = None, key_mask: Tensor | None = None, attention_mask: Tensor | None = None,
        return_attention_scores: bool = False, training: bool = False, use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        if query.ndim == 3:
            return super().call(
                query, value, key, query_mask, value_mask, key_mask, attention_mask, return_attention_scores, training,
                use_causal_mask,
            )  # fmt: skip
        masks = (query_mask, value_mask, key_mask, attention_mask)
        if return_attention_scores or any(mask is not None for mask in masks):
            raise NotImplementedError("attention over several axes takes no masks and gives no scores")
        # The axes `attention_axes` (all between if they are None) become one, and the others join the batch.
        given = range(1, query.ndim - 1) if self.attention_axes is None else self.attention_axes
        along = [dim_of(axis, query.ndim) for axis in given]
        order = [k for k in range(query.ndim - 1) if k not in along] + along + [query.ndim - 1]
        moved = [x.permute(*order) for x in (query, value, value if key is None else key)]
        cut = query.ndim - 1 - len(along)
        flat = [x.reshape(prod(x.shape[:cut]), -1, x.shape[-1]) for x in moved]
        found = super().call(flat[0], flat[1], flat[2], training=training, use_causal_mask=use_causal_mask)
        found = found.reshape(*moved[0].shape[:-1], found.shape[-1])
        return found.permute(*(order.index(k) for k in range(query.ndim)))


class GroupedQueryAttention(_HeadsAttention):
    """MultiHeadAttention in which groups of the queries' heads share a head of keys and values (Ainslie et al. 2023,
    arXiv 2305.13245)."""

    keras_name = "GroupQueryAttention"  # the public one

    def __init__(
        self, head_dim: int, num_query_heads: int, num_key_value_heads: int, dropout: float = 0.0,
        use_bias: bool = True, sliding_window: int | None = None, flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, use_gate: bool = False, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            num_query_heads, num_key_value_heads, head_dim, head_dim, dropout, use_bias, None, sliding_window,
            flash_attention, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, bias_constraint, use_gate, seed, **settings,
        )  # fmt: skip
        self.head_dim, self.num_query_heads, self.num_key_value_heads = head_dim, num_query_heads, num_key_value_heads


GroupQueryAttention = GroupedQueryAttention


class _DotAttention(Layer):
    """Base of attention without projections: inputs are [query, value] or [query, value, key]."""

    supports_masking = True

    def __init__(self, dropout: float = 0.0, seed: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.dropout = share_of(f"{type(self).__name__}: dropout", dropout)
        self.seed, self.generator = seed, None if seed is None else Generator(seed)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None if mask is None else mask[0]

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S)."""
        raise NotImplementedError

    def call(
        self, inputs: Any, mask: Any = None, training: bool = False, return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
            raise ValueError(
                f"layer {self.name} ({type(self).__name__}) must be called on a list of inputs, namely [query, value] "
                "or [query, value, key]"
            )
        query, value = inputs[:2]
        scores = self.scores(query, inputs[2] if len(inputs) > 2 else value)
        allowed = None
        mask = [None if one is None else ops.as_tensor(one) for one in mask or (None, None)]
        if mask[1] is not None:
            allowed = mask[1].to("bool").unsqueeze(-2)
        if use_causal_mask:
            causal = _causal(scores.shape[-2], scores.shape[-1], scores)
            allowed = causal if allowed is None else allowed & causal
        weights = exclude(scores, allowed).softmax(-1)
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
