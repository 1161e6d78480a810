"""Attention of models with an encoder and a decoder whose heads share keys and values (Ainslie et al. 2023, arXiv
2305.13245) and have rotary positions, as T5Gemma and Dia have it.
"""

from __future__ import annotations

from ...engine import Tensor, ops
from ..heads import Heads, split_heads
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..module import Module
from .sequence_to_sequence import Memory


class SharedHeadsAttention(Module):
    """Attention in layer number `layer` of its part, from vectors of `width` numbers; `source_width`: that of what it
    attends to, None: to its own text.
    """

    def __init__(
        self, layer: int, heads: Heads, width: int, source_width: int | None = None, bias: bool = False
    ) -> None:
        super().__init__()
        self.layer, self.heads = layer, heads
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(width, inner, bias=bias)
        self.k_proj = Linear(source_width or width, kv, bias=bias)
        self.v_proj = Linear(source_width or width, kv, bias=bias)
        self.o_proj = ResidualLinear(inner, width, bias=bias)
        if source_width is None:
            self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def encode(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """Attention of each text to itself in both directions: x (B, T, D) → (B, T, D)."""
        q, k, v = split_heads(self.qkv(self, x), self.heads)  # (B, T, H, size), (B, T, KV, size)
        q, k = (ops.rope(part, table, interleaved=False) for part in (q, k))
        window = None if self.heads.window is None else (self.heads.window, self.heads.window)
        y = ops.attention(q, k, v, False, self.heads.scale, window, self.heads.softcap, mask=mask)
        return self.o_proj(y.reshape(*x.shape[:2], -1))

    def own(self, x: Tensor, memory: Memory, table: Tensor, places: Tensor) -> Tensor:
        """Attention to the text so far: x (R, T, D), places (T,) int32 → (R, T, D)."""
        q, k, v = split_heads(self.qkv(self, x), self.heads)
        q, k = (ops.rope(part, table, places, interleaved=False) for part in (q, k))
        return self.o_proj(memory.own(self.layer, q, k, v, heads=self.heads).to(x.dtype))

    def source(self, x: Tensor, memory: Memory) -> Tensor:
        """Attention to the source: x (R, T, D) → (R, T, D)."""
        q = self.q_proj(x).reshape(*x.shape[:2], self.heads.heads, self.heads.head_dim)
        return self.o_proj(memory.source(self.layer, q, self.project, heads=self.heads))

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, size) of a source (B, S, D)."""
        kv, size = self.heads.kv_heads, self.heads.head_dim
        k, v = (part(encoded).reshape(*encoded.shape[:2], kv, size) for part in (self.k_proj, self.v_proj))
        return k, v
