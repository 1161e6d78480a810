"""The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464): a state that every token decays, and in
which it overwrites what the state has under its key, as a step of nn/recurrent/recurrent.py.
"""

from __future__ import annotations

from math import sqrt

from ...engine import Tensor, ops
from ...engine.ops import cat
from .matrix_states import in_chunks, matrix_rule

CHUNK = 64  # tokens whose products with one another are computed at once
FEATURE_CHUNK = 16  # where each feature of a key decays by itself: each product has as many factors
GENERAL_CHUNK = 32  # of the general rule, where no feature decays to less than 1 / e with a token
EPSILON = 1e-6  # of the norms of keys and queries


def gated_delta_rule(
    state: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rate: Tensor,
    decay: Tensor,
    *,
    groups: int,
    tiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """S = exp(decay) S + key (rate (value - key exp(decay) S)), y = query S / √K, with a state S (K, V) for each of H
    heads and keys and queries of length 1: query and key (B, T, G K), value (B, T, H V), rate in 0 … 1 and decay ≤ 0
    (B, T, H), state (B, H, K, V), None: zeros → (B, T, H V) and the next state. H / G heads share a query and a key:
    neighbours, or with `tiled` those that are G heads apart. A decay (B, T, H K) is that of each feature of the keys
    (Kimi Team 2025, arXiv 2510.26692).
    """
    texts, tokens, heads = rate.shape
    width, size = key.shape[-1] // groups, value.shape[-1] // heads
    one, every = ((1, groups), (heads // groups, groups)) if tiled else ((groups, 1), (groups, heads // groups))
    query, key = (
        _unit(x.reshape(texts, tokens, *one, width))
        .expand((texts, tokens, *every, width))
        .reshape(texts, tokens, heads, width)
        .transpose(1, 2)
        for x in (query, key)
    )  # (B, H, T, K)
    value = value.reshape(texts, tokens, heads, size).transpose(1, 2)  # (B, H, T, V)
    rate, decay = (x.reshape(texts, tokens, heads, -1).transpose(1, 2) for x in (rate, decay))  # (B, H, T, 1 or K)
    query = query * (1 / sqrt(width))
    if state is None:
        state = value.new_zeros((texts, heads, width, size))
    if tokens == 1:
        state = state * decay.exp().transpose(-1, -2)  # (B, H, K, V), of each row
        state = state + key.transpose(-1, -2) @ ((value - key @ state) * rate)
        y = query @ state
    else:
        y, state = _delta_rule(state, query, key, value, rate, decay)
    return y.transpose(1, 2).reshape(texts, tokens, heads * size), state


def generalized_delta_rule(
    state: Tensor | None,
    query: Tensor,
    decay: Tensor,
    key: Tensor,
    value: Tensor,
    removed: Tensor,
    written: Tensor,
    *,
    heads: int,
) -> tuple[Tensor, Tensor]:
    """S = exp(decay) S - written (removedᵀ S) + key valueᵀ, y = query S, with a state S (K, V) for each head (Peng et
    al. 2025, arXiv 2503.14456): query, decay, key, removed and written (B, T, H K), value (B, T, H V), state (B, H, K,
    V), None: zeros → (B, T, H V) and the next state. Decays are from -1 to 0.
    """
    texts, tokens = query.shape[:2]
    query, decay, key, value, removed, written = (
        x.reshape(texts, tokens, heads, -1).transpose(1, 2) for x in (query, decay, key, value, removed, written)
    )  # (B, H, T, K or V)
    if state is None:
        state = value.new_zeros((texts, heads, key.shape[-1], value.shape[-1]))
    y, state = _general_rule(state, query, decay, key, value, removed, written)
    return y.transpose(1, 2).reshape(texts, tokens, heads * value.shape[-1]), state


@matrix_rule
def _delta_rule(
    state: Tensor, query: Tensor, key: Tensor, value: Tensor, rate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """query and key (B, H, T, K), the query scaled, value (B, H, T, V), rate (B, H, T, 1), decay (B, H, T, 1 or K)."""
    by_feature = decay.shape[-1] > 1
    chunk, most = (_chunk_by_feature, FEATURE_CHUNK) if by_feature else (_chunk, CHUNK)
    return in_chunks(chunk, most, state, query, key, value, rate, decay)


@matrix_rule
def _general_rule(
    state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor, removed: Tensor, written: Tensor
) -> tuple[Tensor, Tensor]:
    """All (B, H, T, K), value (B, H, T, V)."""
    return in_chunks(_general_chunk, GENERAL_CHUNK, state, query, decay, key, value, removed, written)


def _general_chunk(
    state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor, removed: Tensor, written: Tensor
) -> tuple[Tensor, Tensor]:
    """The outputs (B, H, L, V) of L tokens and the state after them. With decays of at least -1 the products of so few
    tokens need no factor for each pair of them.
    """
    total = decay.cumsum(2)  # (B, H, L, K): the decay since the chunk began
    after, last = (-total).exp(), total.narrow(2, total.shape[2] - 1, 1)  # last: (B, H, 1, K)
    removed = removed * (total - decay).exp()  # from the state before each token
    query, both = query * total.exp(), cat([key, written], 2)  # (B, H, 2 L, K)
    count = key.shape[2]
    turned = (both * cat([after, after], 2)).transpose(-1, -2)  # (B, H, K, 2 L)
    seen, kept = removed @ turned, query @ turned  # (B, H, L, 2 L)
    taken = seen.narrow(-1, 0, count).tril(-1) @ value + removed @ state  # what each token removes, without the earlier
    if count > 1:
        taken = _inverse(seen.narrow(-1, count, count).tril(-1)) @ taken  # (B, H, L, V)
    mixed = cat([value, -taken], 2)  # (B, H, 2 L, V)
    y = query @ state + cat([kept.narrow(-1, 0, count).tril(), kept.narrow(-1, count, count).tril()], -1) @ mixed
    ends = (last - total).exp()  # (B, H, L, K)
    return y, state * last.exp().transpose(-1, -2) + (both * cat([ends, ends], 2)).transpose(-1, -2) @ mixed


def _unit(x: Tensor) -> Tensor:
    """x (..., K) with length 1."""
    return x * (x.square().sum(-1, True) + EPSILON).rsqrt()


def _chunk(
    state: Tensor, query: Tensor, key: Tensor, value: Tensor, rate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The outputs (B, H, L, V) of L tokens and the state after them."""
    count = key.shape[2]
    total = decay.cumsum(2)  # (B, H, L, 1): the decay since the chunk began
    # The decay from token s to a later token t: sums of their own, because differences of long sums are inexact.
    logs = decay.expand((*decay.shape[:3], count))  # (B, H, L, L): of token t in row t
    between = logs.tril(-1).cumsum(-2).exp().tril()
    keys = key.transpose(-1, -2)  # (B, H, K, L)
    mixed = ((key * rate) @ keys * between).tril(-1)
    solved = _inverse(mixed) @ cat([value * rate, key * rate * total.exp()], -1)  # (B, H, L, V + K)
    size = value.shape[-1]
    new = solved.narrow(-1, 0, size) - solved.narrow(-1, size, key.shape[-1]) @ state  # (B, H, L, V)
    y = (query * total.exp()) @ state + ((query @ keys) * between) @ new
    last = between.narrow(-2, count - 1, 1).transpose(-1, -2)  # (B, H, L, 1): the decay from each token to the end
    return y, state * total.narrow(2, count - 1, 1).exp() + (key * last).transpose(-1, -2) @ new


def _chunk_by_feature(
    state: Tensor, query: Tensor, key: Tensor, value: Tensor, rate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `_chunk`, with a decay (B, H, L, K)."""
    total = decay.cumsum(2)  # (B, H, L, K)
    between = (total.unsqueeze(3) - total.unsqueeze(2)).clamp(max=0.0).exp()  # (B, H, L, L, K): to token t in row t
    between = between * key.unsqueeze(2)
    mixed, seen = ((x.unsqueeze(3) * between).sum(-1) for x in (key * rate, query))  # (B, H, L, L)
    solved = _inverse(mixed.tril(-1)) @ cat([value * rate, key * rate * total.exp()], -1)  # (B, H, L, V + K)
    size, last = value.shape[-1], total.narrow(2, key.shape[2] - 1, 1)  # last: (B, H, 1, K)
    new = solved.narrow(-1, 0, size) - solved.narrow(-1, size, key.shape[-1]) @ state  # (B, H, L, V)
    y = (query * total.exp()) @ state + seen.tril() @ new
    kept = key * (last - total).exp()  # (B, H, L, K)
    return y, state * last.exp().transpose(-1, -2) + kept.transpose(-1, -2) @ new


def _inverse(lower: Tensor) -> Tensor:
    """(1 + lower)⁻¹ of matrices (..., L, L) below the diagonal: the inverses of pairs of blocks along the diagonal make
    those of blocks of twice the size.
    """
    count = lower.shape[-1]
    if count == 1:
        return ops.ones_like(lower)
    first = 1 << (count - 1).bit_length() - 1  # rows of the first block
    second = count - first
    upper, below = (
        _inverse(lower.narrow(-2, at, size).narrow(-1, at, size)) for at, size in ((0, first), (first, second))
    )
    left = -(below @ (lower.narrow(-2, first, second).narrow(-1, 0, first) @ upper))
    zeros = lower.new_zeros((*lower.shape[:-2], first, second))
    return cat([cat([upper, zeros], -1), cat([left, below], -1)], -2)
