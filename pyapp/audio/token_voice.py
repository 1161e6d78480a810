"""Speech by a language model that writes the codes of SNAC as tokens (Orpheus,
https://github.com/canopyai/Orpheus-TTS).

A frame is seven tokens: one code of SNAC's first codebook, two of the second and four of the third, in the order of
`LEVELS`. The token of code c at place p of a frame is <custom_token_N> with N = 10 + 4096 p + c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.errors import ModelError, OptionError
from pyapp.nn.audio.sound_codes import Codes
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.generation.session import Session
from pyapp.text.tokenization.voice_tokenizer import ReadText

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.lazy import np
    from pyapp.engine.ops.random import Generator

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")  # of the published model, the best first
LEVELS = (0, 1, 2, 2, 1, 2, 2)  # the codebook of each token of a frame
FRAME = len(LEVELS)
TOKEN = "<custom_token_{}>"
SPEECH_ENDS, FIRST_CODE = 2, 10  # numbers of tokens
BEFORE, AFTER = (TOKEN.format(3),), ("<|eot_id|>", TOKEN.format(4), TOKEN.format(5), TOKEN.format(1))  # around a text
# As its authors sample; they advise a penalty of at least 1.1.
TEMPERATURE, TOP_P, PENALTY, MOST_TOKENS = 0.6, 0.9, 1.1, 2100  # tokens of a sentence: 25 seconds
TOKENS_AT_ONCE = 16  # between two turns of other work


@dataclass(frozen=True)
class TextTokens:
    """Reads texts for the model: `words` is the language model's tokenizer."""

    words: Any

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text after the name of a voice."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        return ReadText(tuple(self.words.encode(f" {text}", bos=False, eos=False, parse_special=False)), ())


class LanguageVoice:
    """Base of a language model that speaks, with the codec that makes sound of its tokens. `needed`: names of tokens;
    ModelError for a tokenizer without one of them, of which `hint` names another model.
    """

    def __init__(self, language: Any, tokenizer: Any, codec: Any, needed: Sequence[str], hint: str) -> None:
        self.language, self.codec, self._words = language, codec, tokenizer
        for name in needed:
            if name not in tokenizer.special_names:
                raise ModelError(
                    f"its tokenizer has no token {name}: it is not a voice that writes codes", hint=hint
                )  # fmt: skip

    def _number(self, name: str) -> int:
        [found] = self._words.encode(name, bos=False, eos=False)
        return int(found)

    @property
    def config(self) -> Any:
        """The configuration of the language model."""
        return self.language.config

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

    def written(self, prompt: Sequence[int], ends: int, sampling: SamplingOptions) -> Iterator[int | None]:
        """The tokens that the model writes after a prompt, up to `ends`; None between steps."""
        most = sampling.max_new_tokens
        assert most is not None
        session = Session(self.language, len(prompt) + most)
        sampler = Sampler(sampling, session.vocab_size, session.capacity + 1, session.device)
        sampler.accept(prompt, prompt=True)
        logits = session.feed(prompt)
        for count in range(most):
            token = sampler.sample(logits)
            if token == ends:
                return
            sampler.accept((token,))
            yield token
            if count % TOKENS_AT_ONCE == 0:
                yield None
            logits = session.step(token)


class TokenVoice(LanguageVoice):
    """A language model that writes the codes of SNAC (pyapp.models.snac). ModelError for a tokenizer without the tokens
    of codes, and for a codec of other codebooks.
    """

    def __init__(self, language: Any, tokenizer: Any, codec: Any) -> None:
        strides = getattr(codec.config, "vq_strides", None)
        if strides is None or [*strides] != [4, 2, 1]:
            raise ModelError(
                "its codec is not a SNAC with three codebooks", hint="Give hubertsiuzdak/snac_24khz as the codec"
            )
        self.entries = codec.config.codebook_size
        last = FIRST_CODE + FRAME * self.entries - 1
        needed = (*BEFORE, *AFTER, *(TOKEN.format(number) for number in (SPEECH_ENDS, FIRST_CODE, last)))
        super().__init__(
            language, tokenizer, codec, needed, "Choose a model such as canopylabs/orpheus-3b-0.1-ft"
        )  # fmt: skip
        self._first = self._number(TOKEN.format(FIRST_CODE))

    def prompt(self, voice: str, ids: Sequence[int]) -> list[int]:
        """The tokens of a text `ids` in the model's form."""
        before, after = ([self._number(name) for name in names] for names in (BEFORE, AFTER))
        return [*before, *self._words.encode(f"{voice}:", bos=True, eos=False), *ids, *after]

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        options.refuse_variations()
        prompt, ends = self.prompt(VOICES[options.speaker], ids), self._number(TOKEN.format(SPEECH_ENDS))
        sampling = SamplingOptions(
            temperature=TEMPERATURE, top_p=TOP_P, repetition_penalty=PENALTY, seed=seed % (1 << 31),
            max_new_tokens=MOST_TOKENS,
        )  # fmt: skip
        codes: list[int] = []
        for token in self.written(prompt, ends, sampling):
            if token is None:
                yield None
                continue
            code = token - self._first - len(codes) % FRAME * self.entries
            if 0 <= code < self.entries:  # what is not a code at its place is left out
                codes.append(code)
        if len(codes) < FRAME:
            return
        yield None
        with no_grad():
            found = self.codec.decode(
                levels_of(codes, self.device), noise=lambda shape: ops.randn(*shape, generator=generator)
            )
        yield found[0, 0].cpu().numpy()


def levels_of(codes: Sequence[int], device: Device) -> Codes:
    """The codes of whole frames, one after the other, as those of SNAC's codebooks; a rest is left out."""
    levels: list[list[int]] = [[], [], []]
    for place, code in enumerate(codes[: len(codes) // FRAME * FRAME]):
        levels[LEVELS[place % FRAME]].append(code)
    parts: list[Tensor] = [ops.tensor([[level]], dtype="int64", device=device) for level in levels]
    return Codes(tuple(parts), (None,) * len(parts))
