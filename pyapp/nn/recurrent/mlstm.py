"""The matrix memory of xLSTM (Beck et al. 2024, arXiv 2405.04517): a layer with exponential gates (mLSTM)."""

from __future__ import annotations

from functools import partial
from math import sqrt

from ...dataclass import dataclass
from ...engine import Tensor, ops
from ...engine.dtype import float32
from ..decoders.decoder import soft_capped
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import Parameter
from .recurrent import StateText
from .state_space import CHUNK

NOTHING = -1e30  # the logarithm of 0, whose differences are numbers


def matrix_memory(
    state: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor, gates: Tensor, forget: Tensor, *,
    epsilon: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """C = f C + exp(i) k vᵀ, n = f n + exp(i) k, y = qᵀ C / max(|qᵀ n|, 1) for each of H heads, as products of the
    tokens of a chunk with one another: queries and keys (B, T, H K), values (B, T, H V), gates i and the logarithms of
    f, forget (B, T, H). All is divided by exp(m), so that it stays finite: m is the largest exponent so far.

    state (B, H, K + 1, V + 1): [C, n] / exp(m), and m in the last corner; None: zeros → (B, T, H V) and the next state.
    """
    texts, tokens, heads = gates.shape
    kind = queries.dtype  # exponents are beyond 16 bits
    queries, keys, values, gates, forget = (x.to(float32) for x in (queries, keys, values, gates, forget))
    size, width = queries.shape[-1] // heads, values.shape[-1] // heads
    state = queries.new_zeros((texts, heads, size + 1, width + 1)) if state is None else state.to(float32)
    memory = state.narrow(2, 0, size)  # (B, H, K, V + 1)
    most = state.narrow(2, size, 1).narrow(3, width, 1).squeeze(-1)  # (B, H, 1): m
    found = []
    for start in range(0, tokens, CHUNK):
        count = min(CHUNK, tokens - start)
        q, k, v = (
            x.narrow(1, start, count).reshape(texts, count, heads, -1).transpose(1, 2) for x in (queries, keys, values)
        )  # (B, H, L, K) twice, (B, H, L, V)
        q, v = q * (1 / sqrt(size)), ops.cat([v, v.new_ones((*v.shape[:-1], 1))], -1)  # n is C of a value 1
        inward, logs = (x.narrow(1, start, count).transpose(1, 2) for x in (gates, forget))  # (B, H, L)
        # What is left of token s at a later token t: sums of their own, as differences of long sums are inexact.
        between = logs.unsqueeze(-1).expand((*logs.shape, count)).tril(-1).cumsum(-2) + inward.unsqueeze(-2)
        later = ops.ones(count, count, device=q.device).triu(1) != 0  # (L, L)
        between = ops.where(later, NOTHING, between)  # (B, H, L, L)
        before = logs.cumsum(-1) + most  # (B, H, L)
        peak = before.maximum(between.amax(-1))  # (B, H, L)
        shares = (between - peak.unsqueeze(-1)).exp()  # (B, H, L, L)
        rest = (before - peak).exp().unsqueeze(-1)  # (B, H, L, 1)
        y = (q @ memory) * rest + ((q @ k.transpose(-1, -2)) * shares) @ v  # (B, H, L, V + 1)
        norm = y.narrow(-1, width, 1).abs().maximum((-peak).exp().unsqueeze(-1)) + epsilon
        found.append((y.narrow(-1, 0, width) / norm).transpose(1, 2).reshape(texts, count, heads * width))
        last = shares.narrow(-2, count - 1, 1).transpose(-1, -2)  # (B, H, L, 1)
        memory = memory * rest.narrow(-2, count - 1, 1) + (k * last).transpose(-1, -2) @ v
        most = peak.narrow(-1, count - 1, 1)
    corner = ops.cat([most.new_zeros((texts, heads, 1, width)), most.unsqueeze(-1)], -1)  # (B, H, 1, V + 1)
    y = found[0] if len(found) == 1 else ops.cat(found, 1)
    return y.to(kind), ops.cat([memory, corner], 2)


@dataclass(frozen=True)
class MatrixMemorySettings:
    """The sizes of a layer: `heads` with keys of `key_size` and values of `value_size` features. cap: of the gates."""

    heads: int
    key_size: int
    value_size: int
    norm_epsilon: float
    epsilon: float
    cap: float | None

    @property
    def states(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the states of a layer, for nn/recurrent/recurrent.py."""
        return ((self.heads, self.key_size + 1, self.value_size + 1),)


class HeadsLayerNorm(Module):
    """A layer norm of each head, times a weight of all features."""

    def __init__(self, heads: int, size: int, epsilon: float) -> None:
        super().__init__()
        self.heads, self.norm = heads, LayerNorm(size, epsilon, elementwise_affine=False)
        self.weight = Parameter(ops.ones(heads * size))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., H * size) → (..., H * size)."""
        return self.norm(x.reshape(*x.shape[:-1], self.heads, -1)).reshape(x.shape) * self.weight


class MatrixMemory(Module):
    """The layer: a memory for each head, a norm, and a gate of the result."""

    def __init__(self, hidden_size: int, settings: MatrixMemorySettings, layer: int) -> None:
        super().__init__()
        heads, keys, values = settings.heads, settings.heads * settings.key_size, settings.heads * settings.value_size
        self.layer, self.settings, self.sizes = layer, settings, (keys, keys, values, values)
        self.q = Linear(hidden_size, keys, bias=False)
        self.k = Linear(hidden_size, keys, bias=False)
        self.v = Linear(hidden_size, values, bias=False)
        self.ogate_preact = Linear(hidden_size, values, bias=False)
        self.igate_preact = Linear(hidden_size, heads)
        self.fgate_preact = Linear(hidden_size, heads)
        self.joined = JoinedLinear("q", "k", "v", "ogate_preact")
        self.multihead_norm = HeadsLayerNorm(heads, settings.value_size, settings.norm_epsilon)
        self.out_proj = ResidualLinear(values, hidden_size, bias=False)

    def forward(self, x: Tensor, text: StateText, residual: Tensor | None = None) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the memory's answer, or the answer alone."""
        queries, keys, values, gate = self.joined(self, x).split(self.sizes, -1)
        inward, kept = (soft_capped(layer(x), self.settings.cap) for layer in (self.igate_preact, self.fgate_preact))
        # Padding writes nothing and takes nothing away.
        inward, kept = text.masked(inward, NOTHING), text.masked(-(-kept).softplus())
        step = partial(matrix_memory, epsilon=self.settings.epsilon)
        y = text.carry(self.layer, 0, step, queries, keys, values, inward, kept)  # (..., T, H * V)
        return self.out_proj(self.multihead_norm(y) * gate.sigmoid(), residual)
