"""Transformer encoders, decoders, and both together, with torch's parameter names (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ...engine import Tensor, as_dtype, ops
from ...engine.autocast import STATE as AUTOCAST
from ...engine.autograd import is_grad_enabled
from ...engine.dtype import bool_
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..init import xavier_uniform_
from ..module import Module
from .attention import MultiheadAttention, additive, subsequent_mask
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Tensor], Tensor]


def _activation(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu", "silu"):
        raise ArgumentError(
            f"a transformer layer's activation must be 'relu', 'gelu', 'silu' or a function, got {given!r}"
        )
    found: Activation = getattr(ops, given)
    return found


class _TransformerLayer(Module):
    """Base of the two layers: blocks of attention and a feed-forward part. Each has a residual, dropout, and a norm
    before (`norm_first`) or after it.
    """

    _attentions: tuple[str, ...] = ()  # the names of the attention modules

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        self.activation = _activation(activation)
        numbers = range(1, len(self._attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _around(self, x: Tensor, number: int, block: Activation) -> Tensor:
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward part, each with a residual, dropout and a norm. Shapes and masks as for
    MultiheadAttention.
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._around(self._around(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to an encoder's output `memory`, and a feed-forward part. Shapes and masks as for
    MultiheadAttention.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            settings = {"attn_mask": memory_mask, "is_causal": memory_is_causal}
            return self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, **settings)[0]

        return self._around(self._around(self._around(tgt, 1, attend), 2, look), 3, self._feed_forward)


class _Stack(Module):
    """`num_layers` copies of a layer, one after another, then `norm`."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        if num_layers < 0:
            raise ValueError(f"num_layers is from 0 on, not {num_layers}")
        self.layers = ModuleList(deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def _through(self, x: Tensor, *rest: Any, **settings: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *rest, **settings)
        return x if self.norm is None else self.norm(x)


def _has_fast_path(layer: Module) -> bool:
    """Whether torch has a fast path for an encoder layer."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first:
        return False
    attention = layer.self_attn
    return (
        attention.batch_first and attention.in_proj_weight is not None and attention.in_proj_bias is not None
        and attention.num_heads % 2 == 0 and layer.norm1.eps == layer.norm2.eps
        and layer.activation in (ops.relu, ops.gelu)
    )  # fmt: skip


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, one after another, then `norm`. With `enable_nested_tensor`, where torch
    would take its fast path (evaluation without gradients, batch first, padding at the end …), what comes out of the
    last layer is 0 at padded positions, as torch's. There are no nested tensors; `mask_check` has no other effect.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _has_fast_path(encoder_layer)

    def _padding(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """The places where torch's fast path writes 0: bools (B, S), or None where torch does not take it."""
        if padding is None or mask is not None or not self.use_nested_tensor or src.ndim != 3:
            return None
        first = self.layers[0]
        recorded = is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in first.parameters()))
        if first.training or recorded or AUTOCAST.dtype is not None:
            return None
        padded = padding if padding.dtype is bool_ else padding != 0  # (B, S)
        if not self.mask_check:
            return padded
        return padded.logical_and((padded[:, 1:] >= padded[:, :-1]).all())  # nowhere, unless all padding is at ends

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        settings = {"src_mask": mask, "src_key_padding_mask": src_key_padding_mask, "is_causal": bool(is_causal)}
        padded = self._padding(src, mask, src_key_padding_mask)
        if padded is None:
            return self._through(src, **settings)
        for layer in self.layers:
            src = layer(src, **settings)
        src = src.masked_fill(padded.unsqueeze(-1), 0.0)  # (B, S, E)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, one after another, then `norm`."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        return self._through(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
            memory_is_causal=memory_is_causal,
        )  # fmt: skip


class Transformer(Module):
    """An encoder of `src` (S, B, E), and a decoder of `tgt` (T, B, E) that attends to the encoder's output → (T, B, E);
    or batch first, or without B. Masks as for the layers.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
        )  # fmt: skip
        norm = (d_model, layer_norm_eps)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, **made), num_encoder_layers, LayerNorm(*norm, bias=bias, **made)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, **made), num_decoder_layers, LayerNorm(*norm, bias=bias, **made)
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1 and parameter.numel():
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            raise ArgumentError(f"Transformer: {describe(src)} and {describe(tgt)} do not have the same batch")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ArgumentError(f"Transformer: takes {self.d_model} features, got {describe(src)} and {describe(tgt)}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        decoded: Tensor = self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip
        return decoded

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): -inf above the diagonal, 0 elsewhere."""
        return additive(subsequent_mask(sz, device), "mask", as_dtype(dtype or "float32"))
