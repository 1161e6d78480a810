"""Transformer encoder and decoder layers in torch's parameter names (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine import Tensor, ops
from .attention import MultiheadAttention
from .dropout import Dropout
from .layers import LayerNorm, Linear
from .module import Module, ModuleList

Activation = Callable[[Tensor], Tensor]


def _activation(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu", "silu"):
        raise ValueError(
            f"a transformer layer's activation must be 'relu', 'gelu', 'silu' or a function, got {given!r}"
        )
    found = getattr(ops, given, None)
    if found is None:
        raise NotImplementedError(f"a transformer layer's activation {given!r}: this build has no such op")
    return found


class _TransformerLayer(Module):
    """What the two layers share: the feed-forward part, norms before (`norm_first`) or after each block."""

    def __init__(self, arguments: dict[str, Any], norms: int) -> None:
        super().__init__()
        self._arguments = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
        dim, inner, rate, bias = (self._arguments[n] for n in ("d_model", "dim_feedforward", "dropout", "bias"))
        self.self_attn = self._attention()
        self.linear1 = Linear(dim, inner, bias)
        self.dropout = Dropout(rate)
        self.linear2 = Linear(inner, dim, bias)
        self.norm_first = self._arguments["norm_first"]
        self.activation = _activation(self._arguments["activation"])
        epsilon = self._arguments["layer_norm_eps"]
        for i in range(1, norms + 1):
            setattr(self, f"norm{i}", LayerNorm(dim, epsilon, bias=bias))
            setattr(self, f"dropout{i}", Dropout(rate))

    def _attention(self) -> MultiheadAttention:
        a = self._arguments
        return MultiheadAttention(a["d_model"], a["nhead"], a["dropout"], a["bias"], batch_first=a["batch_first"])

    def copy(self) -> Any:
        """A layer of its own with the same settings and values."""
        other = type(self)(**self._arguments)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)

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
    ) -> None:
        super().__init__(dict(locals()), norms=2)

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
    ) -> None:
        super().__init__(dict(locals()), norms=3)
        self.multihead_attn = self._attention()

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


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one after another, then `norm`."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(encoder_layer.copy() for _ in range(num_layers))
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after another, then `norm`."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(decoder_layer.copy() for _ in range(num_layers))
        self.norm = norm

    def forward(self, tgt: Tensor, memory: Tensor, *masks: Any, **settings: Any) -> Tensor:
        """Further arguments as TransformerDecoderLayer.forward."""
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, **settings)
        return tgt if self.norm is None else self.norm(tgt)
