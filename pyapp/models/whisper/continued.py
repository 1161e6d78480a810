"""The decoder of Whisper after earlier tokens: their keys and values, and the audio's, are inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.engine import Tensor, ops
from pyapp.nn.sequence_to_sequence.continued import KeptKeys, Past

from .transformer import Decoder

__all__ = ["continued_logits"]


class _ContinuedMemory:
    """As transformer.Memory, of texts (B, T) after P earlier tokens and their audio (B, S, state)."""

    def __init__(self, decoder: Decoder, audio: Tensor, past: Sequence[Past]) -> None:
        self._decoder, self._audio, self.kept = decoder, audio, KeptKeys(past)

    def self_attention(self, layer: int, qkv: Tensor) -> Tensor:
        heads = self._decoder.blocks[layer].attn.heads
        parts = qkv.reshape(*qkv.shape[:2], 3, heads, -1)  # (B, T, 3, H, D)
        q, k, v = (parts.select(2, at) for at in range(3))
        y = ops.attention(q, *self.kept.seen(layer, (k, v)))  # (B, T, H, D)
        return y.reshape(*qkv.shape[:2], -1)

    def cross_attention(self, layer: int, q: Tensor) -> Tensor:
        attention = self._decoder.blocks[layer].cross_attn
        keys, values = self.kept.of_source(layer, attention.keys_and_values, self._audio)  # (B, S, H, D)
        y = ops.attention(q.reshape(*q.shape[:2], attention.heads, -1), keys, values, causal=False)
        return y.reshape(q.shape)


def continued_logits(
    decoder: Decoder, tokens: Tensor, audio: Tensor, past: Sequence[Past]
) -> tuple[Tensor, list[list[Tensor]]]:
    """tokens (B, T) after what `past` holds, of audio (B, S, state) → (logits (B, T, V), the keys and values of each
    layer with theirs, as nn.sequence_to_sequence.continued keeps them).
    """
    memory = _ContinuedMemory(decoder, audio, past)
    earlier = past[0][0].shape[2] if past else 0
    places = decoder.positional_embedding.narrow(0, earlier, tokens.shape[1])  # (T, state)
    logits = decoder.head(decoder.read(decoder.token_embedding(tokens) + places, memory))
    return logits, memory.kept.present
