"""The attention of one layer, as what computes it needs to know it: sizes, and options of the scores."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from ..engine import Tensor

__all__ = ["Heads", "split_heads"]


@dataclass(frozen=True, eq=False)
class Heads:
    """The attention of one layer: H = `heads` queries and KV = `kv_heads` keys and values of D = `head_dim` features.

    scale: of the scores, 1 / sqrt(D) by default. window: each token attends to the last `window` tokens, itself
    included (Beltagy et al. 2020, arXiv 2004.05150). softcap c: scores become c tanh(score / c) (Gemma 2, arXiv
    2408.00118). slopes (H,) float32: of the linear biases (ALiBi, Press et al. 2021, arXiv 2108.12409). interleaved:
    rotary pairs are neighbours, else halves. sinks (H,): scores of a key without a value (gpt-oss, arXiv 2508.10925).
    chunk: a text is divided into parts of so many tokens, and each token attends to those of its own (Llama 4).
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    slopes: Tensor | None = None
    interleaved: bool = False
    sinks: Tensor | None = None
    chunk: int | None = None

    @property
    def width(self) -> int:
        """Columns of the joined projection [q, k, v]."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def split_heads(qkv: Tensor, heads: Heads) -> tuple[Tensor, Tensor, Tensor]:
    """(..., (H + 2 KV) * D) → q (..., H, D), k and v (..., KV, D): views."""
    count, kv = heads.heads, heads.kv_heads
    x = qkv.reshape(*qkv.shape[:-1], count + 2 * kv, heads.head_dim)
    return x.narrow(-2, 0, count), x.narrow(-2, count, kv), x.narrow(-2, count + kv, kv)
