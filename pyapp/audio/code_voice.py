"""Speech by a language model that writes the codes of X-Codec 2 as tokens (Llasa, Ye et al. 2025, arXiv 2502.04128):
the token <|s_N|> is code N, fifty of them a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad, ops
from pyapp.errors import ModelError, OptionError
from pyapp.nn.audio.sound_codes import Codes
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.generation.options import SamplingOptions

from .token_voice import LanguageVoice
from .voice import finite, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.lazy import np
    from pyapp.engine.ops.random import Generator

CODE = "<|s_{}|>"
SPEECH = ("<|SPEECH_GENERATION_START|>", "<|SPEECH_GENERATION_END|>")
TEXT = ("<|TEXT_UNDERSTANDING_START|>", "<|TEXT_UNDERSTANDING_END|>")
WISH = "Convert the text to speech:{}{}{}"
TEMPERATURE = 0.8  # as its authors sample
ROOM = 2048  # tokens that it was trained to read and write
AT_ONCE = 300  # characters: about twenty seconds


class CodeVoice(LanguageVoice):
    """A language model that speaks, and the codec (pyapp.models.xcodec2) that makes sound of its tokens. ModelError for
    a tokenizer without the tokens of codes. Voices differ from seed to seed.
    """

    def __init__(self, language: Any, tokenizer: Any, codec: Any) -> None:
        self.entries = codec.config.codebook_size
        needed = (*SPEECH, *TEXT, CODE.format(0), CODE.format(self.entries - 1))
        super().__init__(language, tokenizer, codec, needed, "Choose a model such as HKUSTAudio/Llasa-1B")
        self._first = self._number(CODE.format(0))
        if self._number(CODE.format(self.entries - 1)) - self._first != self.entries - 1:
            raise ModelError("its tokens of codes do not follow one another", hint="Take its published tokenizer")
        self._template = ChatTemplate(tokenizer)

    @staticmethod
    def passages(sentences: Sequence[str]) -> list[str]:
        """The sentences of a text, joined to what is spoken in one voice."""
        return joined(sentences, AT_ONCE)

    def prompt(self, text: str) -> list[int]:
        """The tokens of a text in the model's form."""
        messages = [
            {"role": "user", "content": WISH.format(TEXT[0], self._words.guard(text), TEXT[1])},
            {"role": "assistant", "content": SPEECH[0]},
        ]
        more = {"add_generation_prompt": False, "continue_final_message": True}
        found: list[int] = self._words.encode_guarded(self._template.render(messages, None, **more))
        return found

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a passage; None between steps. Its noise is the temperature."""
        options.refuse_variations(but=("noise",))
        prompt, ends = self.prompt(self._words.decode(list(ids)).strip()), self._number(SPEECH[1])
        room = min(ROOM, self.config.max_seq_len) - len(prompt)
        if room < 1:
            raise OptionError("the text is too long for the model", where="text", hint="Give shorter sentences")
        temperature = TEMPERATURE if options.noise is None else options.noise
        sampling = SamplingOptions(temperature=temperature, seed=seed % (1 << 31), max_new_tokens=room)
        codes: list[int] = []
        for token in self.written(prompt, ends, sampling):
            if token is None:
                yield None
            elif 0 <= token - self._first < self.entries:  # what is no code is left out
                codes.append(token - self._first)
        if not codes:
            return
        yield None
        with no_grad():
            found = self.codec.decode(Codes((ops.tensor([[codes]], dtype="int64", device=self.device),), (None,)))
        yield finite(found[0, 0].cpu().numpy())
