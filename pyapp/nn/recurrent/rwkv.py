"""What the language models RWKV 4, 5 and 6 share (Peng et al. 2023, arXiv 2305.13048; 2024, arXiv 2404.05892): inputs
that mix each token with the one before it, the gated feed-forward part, and the blocks; and the states of versions 5
and 6, whose features decay by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.ops import arange, empty
from ..decoders.decoder import DecoderStack, Text
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import Initialization, new_parameter
from .matrix_states import in_chunks, matrix_rule
from .recurrent import RecurrentLanguageModel, StateText, token_before

LAST_EPSILON = 1e-5  # of the last norm, whatever the configuration says
CHUNK = 16  # tokens whose products with one another are computed at once: each product has a factor for each feature
# A token after which nothing that float32 tells is left of the state; sums of faster decays would be inexact.
FASTEST = -20.0


def decayed_attention(
    state: Tensor | None, query: Tensor, decay: Tensor, key: Tensor, value: Tensor, *, first: Tensor
) -> tuple[Tensor, Tensor]:
    """y = query (S + first key valueᵀ), then S = exp(decay) S + key valueᵀ, with a state S (K, V) for each of H heads:
    query, decay ≤ 0 and key (B, T, H K), value (B, T, H V), first (H, K): the share of the newest token, state (B, H,
    K, V), None: zeros → (B, T, H V) and the next state.
    """
    texts, tokens, inner = value.shape
    heads, width = first.shape
    query, decay, key, value = (
        x.reshape(texts, tokens, heads, -1).transpose(1, 2) for x in (query, decay, key, value)
    )  # (B, H, T, K or V)
    first = first.unsqueeze(1)  # (H, 1, K)
    if state is None:
        state = value.new_zeros((texts, heads, width, inner // heads))
    if tokens == 1:
        new = key.transpose(-1, -2) @ value  # (B, H, K, V)
        y = query @ (state + first.transpose(-1, -2) * new)
        state = state * decay.exp().transpose(-1, -2) + new
    else:
        y, state = _decayed_rule(state, query, decay.clamp(FASTEST), key, value)
        y = y + (query * first * key).sum(-1, True) * value
    return y.transpose(1, 2).reshape(texts, tokens, inner), state


@matrix_rule
def _decayed_rule(
    state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """y = query S, then S = exp(decay) S + key valueᵀ: all (B, H, T, K), value (B, H, T, V)."""
    return in_chunks(_chunk, CHUNK, state, query, decay, key, value)


def _chunk(
    state: Tensor, query: Tensor, decay: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The outputs (B, H, L, V) of L tokens, without the share of the newest one, and the state after them."""
    total = decay.cumsum(2)  # (B, H, L, K): the decay since the chunk began
    before = total - decay
    between = (before.unsqueeze(3) - total.unsqueeze(2)).clamp(max=0.0).exp()  # (B, H, L, L, K): of row t's token
    seen = (query.unsqueeze(3) * key.unsqueeze(2) * between).sum(-1).tril(-1)  # (B, H, L, L)
    y = (query * before.exp()) @ state + seen @ value
    last = total.narrow(2, total.shape[2] - 1, 1)  # (B, H, 1, K)
    kept = key * (last - total).exp()  # (B, H, L, K)
    return y, state * last.exp().transpose(-1, -2) + kept.transpose(-1, -2) @ value


class Mixing(Module):
    """The base of both parts of a layer: inputs that are between a token and the one before it, by a share for each
    feature. `parts` are the names of the shares, each with what its first values are: the power of a feature's rank,
    and what later layers add. `of_before`: the shares are those of the token before.
    """

    def __init__(
        self, size: int, layer: int, layers: int, parts: Mapping[str, tuple[float, float]], of_before: bool = False
    ) -> None:
        super().__init__()
        self.layer, self.parts, self.of_before = layer, tuple(parts), of_before
        for name in parts:
            setattr(self, name, new_parameter(empty, 1, 1, size))
        if Initialization.on:
            with no_grad():
                later, depth = 1 - layer / layers, layer / max(layers - 1, 1)
                rows = arange(size, dtype="float32") / size
                for name, (power, added) in parts.items():
                    share = rows ** (power * later) + added * depth
                    getattr(self, name).copy_(1 - share if of_before else share)

    def mixed(self, x: Tensor, earlier: Tensor) -> list[Tensor]:
        """x and the tokens before (..., T, H) → the input (..., T, H) of each part."""
        shares = (getattr(self, name).reshape(-1) for name in self.parts)
        if self.of_before:
            change = earlier - x
            return [x + change * share for share in shares]
        return [x * share + earlier * (1 - share) for share in shares]


class ChannelMixing(Mixing):
    """The feed-forward part, with a gate. `names` are those of the shares of its two inputs; its state of the text is
    number 2 of the layer.
    """

    def __init__(
        self, size: int, inner: int, layer: int, layers: int,
        names: Sequence[str] = ("time_mix_key", "time_mix_receptance"), of_before: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(size, layer, layers, dict.fromkeys(names, (1.0, 0.0)), of_before)
        self.key = Linear(size, inner, bias=False)
        self.receptance = Linear(size, size, bias=False)
        self.value = Linear(inner, size, bias=False)

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, H) → (..., T, H)."""
        x = text.masked(x)
        keys, gates = self.mixed(x, text.carry(self.layer, 2, token_before, x))
        return self.receptance(gates).sigmoid() * self.value(ops.relu(self.key(keys)).square())


class Block(Module):
    """Both parts, each with a norm before it and a residual around it. The output is divided by two if `halved`."""

    def __init__(
        self, size: int, epsilon: float, attention: Module, feed_forward: ChannelMixing, halved: bool = False
    ) -> None:
        super().__init__()
        self.halved = halved
        self.pre_ln = None if feed_forward.layer else LayerNorm(size, epsilon)
        self.ln1 = LayerNorm(size, epsilon)
        self.ln2 = LayerNorm(size, epsilon)
        self.attention = attention
        self.feed_forward = feed_forward

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, H) → (..., T, H)."""
        x = x if self.pre_ln is None else self.pre_ln(x)
        x = x + self.attention(self.ln1(x), text)
        x = x + self.feed_forward(self.ln2(x), text)
        return x * 0.5 if self.halved else x


class RwkvStack(DecoderStack):
    """The decoder, which has the last norm in its output: the files call the layer after it "head"."""

    tokens, blocks, last_norm = "embeddings", "blocks", "ln_out"

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        y: Tensor = self.ln_out(super().forward(tokens, text, x, added))
        return y

    def normalized(self, x: Tensor) -> Tensor:
        return x


class RwkvLanguageModel(RecurrentLanguageModel):
    """The language model of such blocks. `states` are the shapes of each layer's states."""

    base_model_prefix = "rwkv"

    def __init__(self, config: Any, blocks: Iterable[Module], states: Sequence[tuple[int, ...]]) -> None:
        size = config.hidden_size
        super().__init__(config, RwkvStack(config.vocab_size, size, blocks, LayerNorm(size, LAST_EPSILON)))
        layer = self.lm_head
        del self.lm_head
        self.head = layer  # type: ignore[method-assign]
        self.state_shapes = [states] * config.num_hidden_layers
