"""State space models (Gu and Dao 2023, arXiv 2312.00752; Dao and Gu 2024, arXiv 2405.21060): the convolution over the
last tokens, and the states that every token decays and adds to, as steps of nn/recurrent/recurrent.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.ops import cat
from ...engine.ops.recurrences import advance_states, linear_scan
from ..decoders.decoder import DecoderStack
from ..layers.normalization import RMSNorm
from ..module import Module
from .recurrent import RecurrentLanguageModel, Shapes, StateText

SHORTEST, LONGEST = 0.001, 0.1  # the steps of new models

CHUNK = 64  # tokens whose products with one another are computed at once


def causal_convolution(
    state: Tensor | None, x: Tensor, *, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each channel's convolution over the token and the K - 1 before it: x (B, T, C), weight (C, 1, K), bias (C,),
    state (B, K - 1, C) the inputs before x, None: zeros → (B, T, C) and the next state.
    """
    (texts, tokens, channels), taps = x.shape, weight.shape[-1]
    if state is None:
        state = x.new_zeros((texts, taps - 1, channels))
    seen = cat([state, x], 1)  # (B, K - 1 + T, C)
    rows = weight.reshape(channels, taps).T  # (K, C)
    if tokens == 1:
        y = (seen * rows).sum(1, True)
    else:
        y = seen.narrow(1, 0, tokens) * rows.select(0, 0)
        for tap in range(1, taps):
            y = y + seen.narrow(1, tap, tokens) * rows.select(0, tap)
    return y if bias is None else y + bias, seen.narrow(1, tokens, taps - 1)


def selective_scan(
    state: Tensor | None, x: Tensor, steps: Tensor, inward: Tensor, outward: Tensor, *, decay: Tensor
) -> tuple[Tensor, Tensor]:
    """Mamba's recurrence h = exp(steps decay) h + steps inward x, y = outward h, a state of N numbers for each channel:
    x and steps (B, T, C), inward and outward (B, T, N), decay (C, N) < 0, state (B, C, N), None: zeros → (B, T, C) and
    the next state.
    """
    if not any(t.requires_grad for t in (x, steps, inward, outward, decay)):
        if state is None:
            state = x.new_zeros((x.shape[0], *decay.shape))
        y = advance_states(state, x, steps, inward, outward, decay)
        return y, state
    kept = (steps.unsqueeze(-1) * decay).exp()  # (B, T, C, N)
    states = linear_scan(kept, (steps * x).unsqueeze(-1) * inward.unsqueeze(2), state)
    return (states * outward.unsqueeze(2)).sum(-1), states.select(1, x.shape[1] - 1)


def chunked_scan(
    state: Tensor | None, x: Tensor, steps: Tensor, inward: Tensor, outward: Tensor, *, decay: Tensor, groups: int
) -> tuple[Tensor, Tensor]:
    """Mamba 2's recurrence h = exp(steps decay) h + steps x inwardᵀ, y = h outward, a state (P, N) for each of H heads,
    as products of the tokens of a chunk with one another: x (B, T, H P), steps (B, T, H), inward and outward (B, T, G
    N), decay (H,) < 0, state (B, H, P, N), None: zeros → (B, T, H P) and the next state. Heads of one of the G groups
    share inward and outward.
    """
    texts, tokens, heads = steps.shape
    size, width = x.shape[-1] // heads, inward.shape[-1] // groups
    found = []
    for start in range(0, tokens, CHUNK):
        count = min(CHUNK, tokens - start)
        own = steps.narrow(1, start, count)  # (B, L, H)
        values = x.narrow(1, start, count).reshape(texts, count, heads, size) * own.unsqueeze(-1)
        values = values.permute(0, 2, 1, 3).reshape(texts, groups, heads // groups, count, size)
        keys, queries = (
            t.narrow(1, start, count).reshape(texts, count, groups, width).permute(0, 2, 1, 3).unsqueeze(2)
            for t in (inward, outward)
        )  # (B, G, 1, L, N)
        logs = (own * decay).permute(0, 2, 1).reshape(texts, groups, heads // groups, count)
        total = logs.cumsum(-1)  # (B, G, H / G, L): the decay since the chunk began
        # The decay from token s to a later token t: sums of their own, because differences of long sums are inexact.
        between = logs.unsqueeze(-1).expand((*logs.shape, count)).tril(-1).cumsum(-2).exp().tril()
        y = ((queries @ keys.transpose(-1, -2)) * between) @ values  # (B, G, H / G, L, P)
        added = (values * between.narrow(-2, count - 1, 1).transpose(-1, -2)).transpose(-1, -2) @ keys
        if state is not None:
            before = state.reshape(texts, groups, heads // groups, size, width)
            y = y + (queries @ before.transpose(-1, -2)) * total.exp().unsqueeze(-1)
            added = added + before * total.narrow(-1, count - 1, 1).exp().unsqueeze(-1)
        state = added.reshape(texts, heads, size, width)
        found.append(y.reshape(texts, heads, count, size).permute(0, 2, 1, 3).reshape(texts, count, heads * size))
    assert state is not None
    return found[0] if len(found) == 1 else ops.cat(found, 1), state


def draw_steps(bias: Tensor) -> None:
    """Fills the bias of steps, before softplus, so that steps are spread evenly by their logarithm."""
    with no_grad():
        steps = bias.uniform_(log(SHORTEST), log(LONGEST)).exp()
        bias.copy_(steps + (-(-steps).expm1()).log())  # what softplus takes to the steps


class MixerBlock(Module):
    """A norm and a mixer, with a residual around both."""

    def __init__(self, mixer: Module, norm: Module) -> None:
        super().__init__()
        self.norm = norm
        self.mixer = mixer

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        y: Tensor = self.mixer(self.norm(x), text, x)
        return y


class MixerStack(DecoderStack):
    """The decoder of blocks with mixers."""

    tokens, last_norm = "embeddings", "norm_f"


class StateSpaceLanguageModel(RecurrentLanguageModel):
    """A language model of mixers, one for each layer; `shapes` are those of a layer's states."""

    base_model_prefix = "backbone"

    def __init__(self, config: Any, mixers: Iterable[Module], shapes: Shapes) -> None:
        size, epsilon = config.hidden_size, config.layer_norm_epsilon
        blocks = (MixerBlock(mixer, RMSNorm(size, epsilon)) for mixer in mixers)
        super().__init__(config, MixerStack(config.vocab_size, size, blocks, RMSNorm(size, epsilon)))
        self.state_shapes = shapes
