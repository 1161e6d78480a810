"""Models that write the codes of a codec, of each codebook one moment later than of the one before it (Copet et al.
2023, arXiv 2306.05284): MusicGen and Parler-TTS.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...engine import Device, Tensor, ops
from ..decoders.decoder import RotaryTable
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..positions.sinusoids import cosines_and_sines
from ..sequence_to_sequence.sequence_to_sequence import DecoderLayer, FixedPositions, Memory, SequenceToSequence
from .sound_codes import Codes


class CodeStack(Module):
    """The layers. The codes of a moment are read as the sum of their vectors, times `scale`. `config` has the sizes by
    the names of MusicGen's config.json; rotary: the angles of rotary positions, in place of a table that is added;
    key_heads and attends: as DecoderLayer's.
    """

    def __init__(
        self, config: Any, scale: float = 1.0, rotary: RotaryTable | None = None,
        key_heads: tuple[int | None, int | None] = (None, None), attends: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        width, self.most = config.hidden_size, config.max_position_embeddings
        self.scale, self.rotary = scale, rotary
        self.embed_tokens = ModuleList(Embedding(config.vocab_size + 1, width) for _ in range(config.num_codebooks))
        table = FixedPositions(partial(cosines_and_sines, self.most, width)) if rotary is None else None
        self.embed_positions = table
        self.layers = ModuleList(
            DecoderLayer(
                width, config.num_attention_heads, config.ffn_dim, config.activation_function, norm_first=True,
                bias=False, key_heads=key_heads, attends=attends,
            )
            for _ in range(config.num_hidden_layers)
        )  # fmt: skip
        self.layer_norm = LayerNorm(width)

    def embed(self, codes: Tensor) -> Tensor:
        """codes (R, codebooks, T) → (R, T, D)."""
        vectors = [table(codes.select(1, i)) for i, table in enumerate(self.embed_tokens)]
        return sum(vectors[1:], vectors[0]) * self.scale

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """Vectors x (R, T, D) of moments, at the positions that the memory says → (R, T, D)."""
        places, turn = memory.positions(x), None
        if self.embed_positions is not None:
            x = x + self.embed_positions(places)
        elif self.rotary is not None:
            table = self.rotary.upto(self.most, x.device)
            turn = partial(ops.rope, table=table, position=places, interleaved=False)
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i, turn)
        return self.layer_norm(x)


class CodeDecoder(Module):
    """The layers with the scores of codes. `fused`: one matrix gives those of all codebooks."""

    def __init__(self, config: Any, stack: CodeStack, fused: bool = False) -> None:
        super().__init__()
        width, entries, self.codebooks = config.hidden_size, config.vocab_size, config.num_codebooks
        self.model = Module()
        self.model.decoder = stack
        self.lm_heads = (
            Linear(width, entries * self.codebooks, bias=False)
            if fused
            else ModuleList(Linear(width, entries, bias=False) for _ in range(self.codebooks))
        )

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.model.decoder.layer_norm.weight.device
        return found

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (R * codebooks, T) → the vectors (R, T, D) of moments."""
        found: Tensor = self.model.decoder.embed(tokens.reshape(-1, self.codebooks, tokens.shape[1]))
        return found

    def scores(self, x: Tensor) -> Tensor:
        """Hidden states (R, T, D) → logits (R * codebooks, T, V)."""
        if isinstance(self.lm_heads, Linear):
            found = self.lm_heads(x).reshape(*x.shape[:2], self.codebooks, -1).transpose(1, 2)  # (R, codebooks, T, V)
        else:
            found = ops.stack([head(x) for head in self.lm_heads], 1)
        return found.reshape(x.shape[0] * self.codebooks, x.shape[1], found.shape[3])

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R * codebooks, T) → logits (R * codebooks, T, V)."""
        return self.scores(self.model.decoder(self.embed(tokens), memory))


class TextToCodes(SequenceToSequence):
    """A model that reads a text and writes codes: `text_encoder` reads, `audio_encoder` is the codec, the widths are
    those of the text's vectors and of the decoder. Tokens are codes: those of the codebooks of a text are rows side by
    side.
    """

    def __init__(
        self, config: Any, text_encoder: Module, audio_encoder: Module, decoder: CodeDecoder, widths: tuple[int, int]
    ) -> None:  # fmt: skip
        super().__init__()
        self.config, self.most = config, decoder.model.decoder.most
        self.text_encoder: Any = text_encoder
        self.audio_encoder: Any = audio_encoder
        self.decoder = decoder
        self.enc_to_dec_proj = None if widths[0] == widths[1] else Linear(*widths)

    @property
    def device(self) -> Device:
        return self.decoder.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.audio_encoder.sample_rate
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x: Tensor = self.text_encoder(ids, attention_mask)
        x = x if self.enc_to_dec_proj is None else self.enc_to_dec_proj(x)
        return x if attention_mask is None else x * attention_mask.to(x.dtype).unsqueeze(2)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.decoder(tokens, memory)

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        self.text_encoder.check(ids, mask)

    def sound(self, codes: Tensor) -> Tensor:
        """codes (B, codebooks, T) → samples (B, 1, N)."""
        return ops.cat(list(self.sound_parts(codes)), 2)

    def sound_parts(self, codes: Tensor) -> Iterator[Tensor]:
        """The samples of `sound` in parts, by codecs that can make them so; else as a whole."""
        chunks = Codes((codes,), (None,))
        if hasattr(self.audio_encoder, "in_windows"):
            yield from self.audio_encoder.in_windows(chunks)
        else:
            yield self.audio_encoder.decode(chunks)
