"""Speech of replies by a model that also writes them (Qwen2.5-Omni and Qwen3-Omni, pyapp.models.qwen_omni): a text is
spoken as the reply to the wish that it be read aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Generator as Steps
from typing import TYPE_CHECKING, Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.nn.audio.talkers import Heard
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.pictures import Recording, part_tokens

from .reader import read_beginning
from .voice import Voice, finite, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

# As in the training of Qwen2.5-Omni, which does not speak well after another one.
SYSTEM = (
    "You are Qwen, a virtual human developed by the Qwen Team, Alibaba Group, capable of perceiving auditory and "
    "visual inputs, as well as generating text and speech."
)
TURN, ROLE = "<|im_start|>{}\n{}<|im_end|>\n", "<|im_start|>assistant\n"
WISH = "Read this text aloud, word by word: {}"
MOST = 4096  # moments of a text
PENALTY = 1.05
# Characters of a reply that are spoken at once: about a minute, for which MOST is enough; False: of Qwen2.5-Omni, which
# has 50 moments a second instead of 12.5.
AT_ONCE = {False: 800, True: 3200}
# As their authors draw: the temperature, and of how many codes, and of which share; of the codes of a moment, too.
DRAWS = {False: (0.9, 40, 0.8), True: (0.9, 50, 1.0)}
MORE = (1.0, 50, 0.8)
LONGEST_HEARD = 2400.0  # seconds of a recording


class ReplyVoice(Voice):
    """The model, its tokenizer `words`, and its `voices` by name: the code of each in Qwen3-Omni, and in Qwen2.5-Omni
    an object with the token bos_token, the vector cond and the spectrogram ref_mel. ModelError for others.
    """

    def __init__(self, model: Any, words: Any, voices: Any, where: str) -> None:
        self.model, self.config, self._words = model, model.config, words
        plausible = isinstance(voices, dict) and voices and all(isinstance(name, str) for name in voices)
        if not plausible:
            raise ModelError("its voices are not objects by name", where=where)
        self._voices: Mapping[str, Any] = voices
        self.names = (*voices,)
        if not self.config.newer:
            self._voices = {name: self._checked(name, voice, where) for name, voice in voices.items()}

    def _checked(self, name: str, voice: Any, where: str) -> tuple[int, Tensor, Tensor]:
        """The token, the vector (1, K) and the spectrogram (1, T, bins) of a voice."""
        found: list[Any] = [
            voice.get(part) if isinstance(voice, dict) else None for part in ("bos_token", "cond", "ref_mel")
        ]
        token, vector, mel = (part.item() if isinstance(part, Tensor) and not part.ndim else part for part in found)
        flow = self.model.speech.sound[0]
        if type(token) is not int or not 0 <= token < self.config.vocab_size:
            raise ModelError(f"bos_token of the voice {name!r:.40} is {token!r:.40}", where=where)
        fits = isinstance(vector, Tensor) and vector.numel() == flow.enc_emb_dim
        fits = fits and isinstance(mel, Tensor) and mel.ndim in (2, 3) and mel.shape[-1] == flow.mel_dim
        if not fits or not flow.least <= mel.numel() // flow.mel_dim <= flow.max_position_embeddings:
            raise ModelError(
                f"the voice {name!r:.40} needs a vector of {flow.enc_emb_dim} numbers, and a spectrogram of at least "
                f"{flow.least} frames of {flow.mel_dim}", where=where, hint="Take the file that belongs to the model",
            )  # fmt: skip
        place = self.device
        mel = mel.to("float32").reshape(1, -1, flow.mel_dim).to(place)
        return token, vector.to("float32").reshape(1, -1).to(place), mel

    def asked(self, wish: str) -> list[int]:
        """The tokens of a conversation in which a user says something, as the talker reads it."""
        said = TURN.format("user", self._words.guard(wish))
        whole = said if self.config.newer else TURN.format("system", SYSTEM) + said
        found: list[int] = self._words.encode_guarded(whole)
        return found

    def asked_in(
        self, messages: Sequence[Mapping[str, Any]], writer: Any = None, check: Callable[[], None] = lambda: None
    ) -> Steps[None, None, tuple[list[int], Heard | None]]:  # fmt: skip
        """The tokens of a conversation, mappings with role and content, as the talker reads it, and the recordings in
        it as `writer` has heard them, the loaded model that writes the replies. Recordings are left out where that is
        another model or none, and pictures always. Qwen3-Omni's reads what users say alone. Yields None between
        steps; `check` is called within them. Errors of recordings are those of pyapp.audio.reader.open_audio.
        """
        newer, hears = self.config.newer, self.model.is_of(getattr(writer, "model", None))
        turns: list[tuple[str, list[int]]] = []
        recordings: list[Recording] = []

        def said(part: Any) -> str:
            if hears and part.get("type") == "audio":
                samples, _ = read_beginning(part["audio"], LONGEST_HEARD)
                recordings.append(Recording(writer, samples, self.config.max_seq_len))
                recording: str = recordings[-1].text.join(recordings[-1].around)
                return recording
            text: str = self._words.guard(part.get("text", ""))
            return text

        def take(role: str, content: Any) -> None:
            parts = [{"text": content}] if isinstance(content, str) else content
            text = TURN.format(role, "".join(map(said, parts)))
            turns.append((role, self._words.encode_guarded(text)))

        if not newer:
            take("system", SYSTEM)
        for message in messages:
            if message["role"] in (("system", "user", "assistant") if newer else ("user", "assistant")):
                take(message["role"], message.get("content") or "")
        ids = [id for role, part in turns for id in part if role == "user" or not newer]
        if not recordings:
            return ids, None
        for recording in recordings:
            while not recording.seen:
                recording.look(check)
                yield None
        tokens, whole = part_tokens(writer), [id for _, part in turns for id in part]
        with no_grad():
            heard = Heard(_places(whole, tokens), ops.cat([recording.vectors() for recording in recordings]))
            return ids, Heard(_places(ids, tokens), self.model.states_of(writer.model, whole, heard))

    def reply_passages(self, sentences: Sequence[str]) -> list[str]:
        """The sentences of a reply, joined to what is spoken at once."""
        return joined(sentences, AT_ONCE[self.config.newer])

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        yield from self.replied(self.asked(WISH.format(self._words.decode(list(ids)))), ids, options, seed)

    def replied(
        self, asked: Sequence[int], reply: Sequence[int], options: SpeakOptions, seed: int, heard: Heard | None = None
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of the reply, at least a token, to what was asked (the tokens of `asked`, and `heard`, the
        recordings in it, both by asked_in); None between steps. Its noise is the temperature.
        """
        options.refuse_variations(but=("noise",))
        model, name = self.model, self.names[options.speaker]
        voice = self._voices[name]
        begin, known = (voice, None) if self.config.newer else (voice[0], voice[1:])
        role = self._words.encode_guarded(ROLE)
        if self.config.newer:
            role = role[:3]
        length = len(asked) + len(role) + len(reply)
        most = min(MOST, model.talker.room - length)
        if most < 1 or length > self.config.max_seq_len:
            raise OptionError("the text is too long for the model", where="text", hint="Give a shorter one")
        with no_grad():
            read = model.read(asked, role, reply, begin, heard)
        codes: list[list[int]] = []
        for moment in self.written(read, most, options.noise, seed):
            codes.append(moment)
            yield None
        if not codes:
            return
        numbers = np.random.Generator(np.random.Philox(key=seed))

        def noise(*shape: int) -> Tensor:
            return ops.from_numpy(numbers.standard_normal(shape, np.float32)).to(self.device)

        parts = model.sound(codes, known, noise)
        while True:
            try:
                with no_grad():  # which ends before others run
                    part = next(parts)
            except StopIteration:
                return
            yield None
            if part is not None:
                yield finite(part.cpu().numpy())

    def written(self, read: Any, most: int, noise: float | None, seed: int) -> Iterator[list[int]]:
        """The codes of each moment, up to `most`; noise: the temperature, 0: the likeliest codes, None: the usual."""
        model = self.model
        choices = []
        for number, (usual, count, share) in enumerate((DRAWS[self.config.newer], MORE)):
            drawn = SamplingOptions(
                temperature=usual if noise is None else noise, top_k=count, top_p=share,
                seed=(seed + number) % (1 << 31),
                repetition_penalty=1.0 if number else PENALTY, suppress_tokens=() if number else tuple(model.never),
                max_new_tokens=most,
            )  # fmt: skip
            speech = model.speech
            entries = speech.predictor.vocab_size if number and speech.newer else speech.talker.vocab_size
            choices.append(Sampler(drawn, entries, most + len(model.first_codes) + 1, self.device))
        first, more = choices
        first.accept(model.first_codes, prompt=True)

        def choose(logits: Tensor) -> int:
            code = first.sample(logits.to("float32"))
            first.accept((code,))
            return code

        yield from model.codes(read, most, choose, lambda logits: more.sample(logits.to("float32")))


def _places(ids: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Where the tokens of recordings are."""
    return [place for place, id in enumerate(ids) if id in tokens]
