"""Speech by MetaVoice (pyapp.models.metavoice): its first network writes codes of two codebooks by turns, guided away
from what it would write in no voice; the second adds the codes of the others; EnCodec makes sound of them.

Tokens of the first network: codes of the first codebook, those of the second, the end of a sentence, and the pieces of
texts. The second one reads, of each place, a piece of the text or a code, and after them `end`, which stands for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.nn.audio.sound_codes import Codes
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

TEMPERATURE, TOP_P, GUIDANCE = 1.0, 0.95, 3.0  # as its authors sample
TOKENS_AT_ONCE = 16  # between two turns of other work
USUAL_CODEC = "facebook/encodec_24khz"


@dataclass(frozen=True)
class OffsetTokens:
    """Reads texts for the model: `words` is the tokenizer of pieces, whose numbers begin at `first`; `end` stands after
    a text.
    """

    words: Any
    first: int
    end: int

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        ids = self.words.encode(text, bos=False, eos=False, parse_special=False)
        return ReadText(tuple(self.first + id for id in [*ids, self.end]), ())


class TwoStageVoice:
    """The networks (`model`), the codec that makes sound of their codes, and the vectors (voices, speaker_size).
    ModelError for a codec of fewer codebooks or of another size.
    """

    def __init__(self, model: Any, codec: Any, vectors: Tensor) -> None:
        config = model.config
        self.books = len(config.finer_vocab_sizes) + len(config.finer_targets)
        self.entries = config.finer_targets[0] - 1  # which is also the number that stands for none
        known = getattr(codec.config, "codebook_size", 0), getattr(codec.config, "codebooks", 0)
        if known[0] != self.entries or known[1] < self.books:
            raise ModelError(
                f"its codec has {known[1]} codebooks of {known[0]:,} entries, the model writes {self.books} of "
                f"{self.entries:,}", hint=f"Give {USUAL_CODEC} as the codec",
            )  # fmt: skip
        self.model, self.codec, self.vectors, self.config = model, codec, vectors, config

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.codec.device
        return found

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.codec.sample_rate
        return found

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps. noise: the temperature."""
        options.refuse_variations(but=("noise",))
        temperature = TEMPERATURE if options.noise is None else options.noise
        vector = self.vectors.narrow(0, options.speaker, 1)  # (1, speaker_size)
        sampling = SamplingOptions(temperature=temperature, top_p=TOP_P, seed=seed % (1 << 31))
        written: list[int] = []
        for token in self.written(ids, vector, sampling):
            written.append(token)
            if len(written) % TOKENS_AT_ONCE == 0:
                yield None
        rows = self.rows(ids, written)
        if len(rows[1]) <= len(ids) + 1:  # the text and an end only
            return
        random = np.random.Generator(np.random.Philox(key=seed))
        with no_grad():
            codes = self.finer(rows, vector, lambda scores: drawn(scores, temperature, random))
        yield None
        if codes is None:
            return
        with no_grad():
            sound = self.codec.decode(Codes((ops.tensor(codes, dtype="int64", device=self.device),), (None,)))
        yield finite(sound[0, 0].cpu().numpy())

    def written(self, ids: Sequence[int], vector: Tensor, sampling: SamplingOptions) -> Iterator[int]:
        """The tokens of a sentence after those of its text, without the end. OptionError for a text that leaves no
        room.
        """
        writer, config = self.model.first, self.config
        most = min(config.max_position_embeddings - len(ids), 2 * (config.finer_positions - len(ids) - 1))
        if most < 2:
            raise OptionError(f"a sentence has {len(ids):,} tokens, too many for the model", where="text")
        cache = writer.new_cache(len(ids) + most, texts=2)
        sampler = Sampler(sampling, config.vocab_size, len(ids) + most + 1, writer.device)
        with no_grad():
            writer.speak_as(ops.cat([vector, ops.zeros_like(vector)]))
        try:
            tokens = list(ids)
            for count in range(most):
                with no_grad():
                    read = tokens if not count else tokens[-1:]
                    rows = int32_tensor([*read, *read], writer.device).reshape(2, len(read))
                    place = int32_tensor([len(tokens) - len(read)] * 2, writer.device)
                    logits = writer.forward_cached(rows, place, cache, last_only=False)
                    spoken, silent = (logits[i, len(read) - 1].to("float32") for i in range(2))
                    logits = spoken * GUIDANCE + silent * (1 - GUIDANCE)  # (V,)
                token = sampler.sample(logits)
                if token == 2 * self.entries:
                    return
                yield token
                sampler.accept((token,))
                tokens.append(token)
        finally:
            writer.speak_as(None)

    def rows(self, ids: Sequence[int], written: Sequence[int]) -> list[list[int]]:
        """What the second network reads: the text beside the first codebook, then the codes of both, then `end`."""
        end, found = self.entries, ([], [])  # type: tuple[int, tuple[list[int], list[int]]]
        for token in written:
            if token < 2 * end:
                found[token >= end].append(token % end)
        count = min(map(len, found))
        return [
            [*(id - end for id in ids), *found[0][:count], end], [*[end] * len(ids), *found[1][:count], end],
        ]  # fmt: skip

    def finer(self, rows: Sequence[Sequence[int]], vector: Tensor, choose: Any) -> list[list[list[int]]] | None:
        """The codes (1, books, T) of the moments of which all codebooks have one; None: there are none. `choose` takes
        those of a codebook from scores (T, V).
        """
        most, end = self.config.finer_positions, self.entries
        full = [[*row[:most], *[end] * (most - len(row))] for row in rows]
        codes = ops.tensor([full], dtype="int64", device=self.model.first.device)
        full += [choose(scores[0].to("float32").cpu().numpy()) for scores in self.model.second(codes, vector)]
        kept = [[code for code in row if code < end] for row in full]  # pieces of the text are larger
        count = min(map(len, kept))
        return [[row[:count] for row in kept]] if count else None


def drawn(scores: NDArray[np.float32], temperature: float, random: Any) -> list[int]:
    """The index of one of each row of scores (T, V), drawn by its probability; at 0 the best one."""
    if temperature == 0:
        found: list[int] = scores.argmax(1).tolist()
        return found
    noise = random.gumbel(size=scores.shape)
    found = (scores / np.float32(temperature) + noise).argmax(1).tolist()
    return found
