"""Speech in three stages (Bark, pyapp.models.bark): what a text means as tokens, of these the first codes of each
moment in windows that move on, and then the other codes of many moments at once. A voice is what it said before: the
tokens and codes of an earlier sentence, which the stages go on from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple

from pyapp.audio.decoding import draw_of_best
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.formats import open_checkpoint
from pyapp.text.generation.sampling import Uniform
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

BEST = "v2/en_speaker_6"  # the voice of the published files that speaks where none is named
PROMPTS = ("semantic_prompt", "coarse_prompt", "fine_prompt")  # the files of a voice
TOKENS_AT_ONCE = 16  # between two turns of other work
LONGEST = 1 << 14  # of the numbers of tokens in a generation_config.json
# As its authors draw, where there is no generation_config.json.
USUAL: Mapping[str, Mapping[str, Any]] = {
    "semantic_config": {"do_sample": True, "temperature": 0.7, "min_eos_p": 0.2},
    "coarse_acoustics_config": {"do_sample": True, "temperature": 0.7},
    "fine_acoustics_config": {"temperature": 0.5},
}
Choose = Callable[[Any, float], int]  # a token of scores (V,), by a temperature; 0: the best


@dataclass(frozen=True)
class Stages:
    """The settings in generation_config.json, with the values of transformers where it says none; temperatures are 0
    where it does not draw. ModelError for values that cannot be.
    """

    semantic: Mapping[str, Any]
    coarse: Mapping[str, Any]
    fine: Mapping[str, Any]
    codebook_size: int = 1024

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Stages:
        """From the object of a generation_config.json; empty: there is none."""
        settings = settings or USUAL
        usual: Mapping[str, Mapping[str, Any]] = {
            "semantic_config": {
                "eos_token_id": 10000, "max_new_tokens": 768, "text_encoding_offset": 10048, "text_pad_token": 129595,
                "semantic_infer_token": 129599, "semantic_vocab_size": 10000, "max_input_semantic_length": 256,
                "semantic_rate_hz": 49.9,
            },
            "coarse_acoustics_config": {
                "coarse_semantic_pad_token": 12048, "coarse_rate_hz": 75, "n_coarse_codebooks": 2,
                "coarse_infer_token": 12050, "max_coarse_input_length": 256, "max_coarse_history": 630,
                "sliding_window_len": 60,
            },
            "fine_acoustics_config": {
                "max_fine_history_length": 512, "max_fine_input_length": 1024, "n_fine_codebooks": 8,
            },
        }  # fmt: skip
        parts = []
        for name, values in usual.items():
            own = settings.get(name) or {}
            own = own if isinstance(own, Mapping) else {}
            given = {key: own[key] if own.get(key) is not None else value for key, value in values.items()}
            for key, value in given.items():
                kinds = (int, float) if key.endswith("_hz") else (int,)
                most = LONGEST if "length" in key or "max" in key or "window" in key else 1 << 22
                if type(value) not in kinds or not 0 < value <= most:
                    _refuse(f"{key} is {value!r:.40}, expected a number from 1 to {most:,}")
            heat = own.get("temperature")
            heat = 1.0 if heat is None else heat
            if type(heat) not in (int, float) or not 0 < heat <= 100:
                _refuse(f"temperature is {heat!r:.40}, expected a number above 0")
            draws = heat != 1.0 if name == "fine_acoustics_config" else own.get("do_sample") is True
            best, early = own.get("top_k", 50), own.get("min_eos_p")
            if early is not None and (type(early) not in (int, float) or not 0 < early <= 1):
                _refuse(f"min_eos_p is {early!r:.40}, expected a number up to 1")
            best = best if type(best) is int and best > 0 else 1 << 22
            parts.append(given | {"temperature": heat if draws else 0.0, "top_k": best, "min_eos_p": early})
        entries: Any = settings.get("codebook_size", 1024)
        if type(entries) is not int or not 1 <= entries <= 1 << 16:
            _refuse(f"codebook_size is {entries!r:.40}")
        return cls(parts[0], parts[1], parts[2], entries)

    def check(self, config: Any) -> None:
        """ModelError for settings that do not fit the model's configuration."""
        semantic, coarse, fine, entries = self.semantic, self.coarse, self.fine, self.codebook_size
        last = max(semantic[name] for name in ("text_pad_token", "semantic_infer_token", "eos_token_id"))
        room = config.semantic.block_size - semantic["max_input_semantic_length"] - 1
        books, given = fine["n_fine_codebooks"], coarse["n_coarse_codebooks"]
        window = coarse["max_coarse_input_length"] + 1 + coarse["max_coarse_history"] + coarse["sliding_window_len"]
        codes = semantic["semantic_vocab_size"] + given * entries
        past, whole = fine["max_fine_history_length"], fine["max_fine_input_length"]
        for fits, what in (
            (last < config.semantic.input_vocab_size, f"the token {last}"), (room > 0, "max_input_semantic_length"),
            (semantic["eos_token_id"] < config.semantic.output_vocab_size, "eos_token_id"),
            (semantic["semantic_vocab_size"] <= semantic["eos_token_id"], "semantic_vocab_size"),
            (max(coarse["coarse_semantic_pad_token"], coarse["coarse_infer_token"]) < config.coarse.input_vocab_size,
             "coarse_infer_token"),
            (codes <= config.coarse.output_vocab_size <= config.coarse.input_vocab_size, "semantic_vocab_size"),
            (window <= config.coarse.block_size, f"a window of {window} tokens"), (given == 2, "n_coarse_codebooks"),
            (coarse["sliding_window_len"] % given == 0, "sliding_window_len"),
            (config.fine.n_codes_given <= given < books == config.fine.n_codes_total, "n_fine_codebooks"),
            (past <= whole <= config.fine.block_size, "max_fine_input_length"),
            (entries == config.codec.codebook_size, "codebook_size"),
        ):  # fmt: skip
            if not fits:
                _refuse(f"{what} does not fit the model")

    @property
    def ratio(self) -> float:
        """The codes of a token of what a text means."""
        coarse = self.coarse
        found: float = coarse["coarse_rate_hz"] / self.semantic["semantic_rate_hz"] * coarse["n_coarse_codebooks"]
        return found


def _refuse(what: str) -> None:
    raise ModelError(what, where="generation_config.json", hint="Give the file that belongs to the weights")


@dataclass(frozen=True)
class StagedTokens:
    """Reads texts for the model: `words` is its tokenizer."""

    words: Any

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        return ReadText(tuple(self.words.encode(text, bos=False, eos=False, parse_special=False)), ())


class History(NamedTuple):
    """What a voice said before: tokens of what it meant, the first codes (2, T) and all codes (codebooks, T)."""

    semantic: NDArray[np.int64]
    coarse: NDArray[np.int64]
    fine: NDArray[np.int64]


class StagedVoice(Voice):
    """The model. `names`: those of voices, the best first; `fetch` gives the three files of one, which are read when it
    is used.
    """

    def __init__(
        self, model: Any, generation: Mapping[str, Any], names: Sequence[str] = (),
        fetch: Callable[[str], Sequence[Any]] = lambda name: (),
    ) -> None:  # fmt: skip
        self.model, self.config = model, model.config
        self.stages = Stages.from_settings(generation)
        self.stages.check(model.config)
        self.names = tuple(sorted(names, key=lambda name: (name != BEST, name)))
        self._fetch = fetch
        self._read: dict[str, History] = {}

    def history(self, name: str) -> History:
        """What a voice said before. ModelError for files of another form."""
        if name not in self._read:
            parts = []
            for number, file in enumerate(self._fetch(name)):
                with open_checkpoint(file) as checkpoint:
                    tensors = list(checkpoint.tensors.values())
                    value = checkpoint.read(tensors[0].name).cpu().numpy() if len(tensors) == 1 else np.zeros(())
                rows = (None, 2, self.config.fine.n_codes_total)[number]
                limits = (self.stages.semantic["semantic_vocab_size"], *[self.stages.codebook_size] * 2)
                shape = value.shape[1:] if rows is None else value.shape[:1]
                fits = value.ndim == (1 if rows is None else 2) and shape == (() if rows is None else (rows,))
                if not fits or value.dtype.kind not in "iu" or not value.size or not 0 <= value.min() <= value.max():
                    raise ModelError(f"{PROMPTS[number]} has another form", where=f"the voice {name}")
                if value.max() >= limits[number]:
                    raise ModelError(f"{PROMPTS[number]} has the number {value.max()}", where=f"the voice {name}")
                parts.append(value.astype(np.int64))
            self._read[name] = History(*parts)
        return self._read[name]

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        options.refuse_variations(but=("noise",))
        draw = Uniform(seed % (1 << 31)).draw
        heats = [part["temperature"] for part in (self.stages.semantic, self.stages.coarse, self.stages.fine)]
        if options.noise is not None:
            heats[:2] = options.noise, options.noise
        before = self.history(self.names[options.speaker]) if self.names else None

        def choose(scores: Any, stage: int) -> int:
            best = (self.stages.semantic, self.stages.coarse)[stage]["top_k"]
            return draw_of_best(scores, best, heats[stage], draw())

        meaning: list[int] = []
        for token in self.meanings(ids, before, lambda scores: choose(scores, 0)):
            meaning.append(token)
            if len(meaning) % TOKENS_AT_ONCE == 0:
                yield None
        codes: list[int] = []
        for code in self.codes(meaning, before, lambda scores: choose(scores, 1)):
            codes.append(code)
            if len(codes) % TOKENS_AT_ONCE == 0:
                yield None
        if not codes:
            return
        rows = None
        for step in self.refined(codes, before, heats[2], generator):
            rows = step
            yield None
        assert rows is not None
        with no_grad():
            yield self.model.sound(rows)[0, 0].cpu().numpy()

    def _integers(self, values: Any) -> Tensor:
        return ops.tensor([int(value) for value in values], dtype="int32", device=self.device)

    def meanings(self, ids: Sequence[int], before: History | None, choose: Callable[[Any], int]) -> Iterator[int]:
        """The tokens of what a text `ids` means."""
        settings, model = self.stages.semantic, self.model.semantic
        length, end = settings["max_input_semantic_length"], settings["eos_token_id"]
        offset, words = settings["text_encoding_offset"], model.config.input_vocab_size
        text = [number + offset for number in ids[:length]]
        if any(number >= words for number in text):
            raise ModelError("the text has tokens that the model does not know", hint="Give its own tokenizer")
        text += [settings["text_pad_token"]] * (length - len(text))
        past = [] if before is None else before.semantic[-length:].tolist()
        past += [end] * (length - len(past))
        most = min(settings["max_new_tokens"], model.config.block_size - length - 1)
        with no_grad():
            tokens = self._integers([*text, settings["semantic_infer_token"]])
            x = model.added(tokens, self._integers(past))
            reader = Reader(model, length + 1 + most)
            logits = reader.read(tokens, x)
        for _ in range(most):
            scores = logits[: end + 1].copy()
            scores[settings["semantic_vocab_size"] : end] = -np.inf
            early = settings["min_eos_p"]
            if early is not None:
                shares = np.exp(scores - scores.max())
                if shares[end] > early * shares.sum():
                    return
            token = choose(scores)
            if token == end:
                return
            yield token
            with no_grad():
                logits = reader.read(self._integers([token]))

    def codes(self, meaning: Sequence[int], before: History | None, choose: Callable[[Any], int]) -> Iterator[int]:
        """The first two codes of one moment after the other, each of its codebook."""
        settings, first, entries = (
            self.stages.coarse,
            self.stages.semantic["semantic_vocab_size"],
            self.stages.codebook_size,
        )
        ratio, books, model = self.stages.ratio, settings["n_coarse_codebooks"], self.model.coarse_acoustics
        longest, window = settings["max_coarse_history"], settings["sliding_window_len"]
        tokens_before = floor(longest / ratio)
        past: list[int] = []
        heard: list[int] = []
        if before is not None:
            offsets = first + entries * np.arange(books)[:, None]
            flat = (before.coarse + offsets).T.reshape(-1)
            known = len(before.semantic)
            count = min(tokens_before, known - known % 2, floor(len(flat) / ratio))
            past = before.semantic[known - count :].tolist()
            heard = flat[len(flat) - round(count * ratio) :][:-2].tolist()
        whole, start, written = [*past, *meaning], len(past), len(heard)
        most, length = floor(len(meaning) * ratio / books) * books, settings["max_coarse_input_length"]
        while len(heard) - written < most:
            made = len(heard) - written
            place = start + round(made / ratio)
            seen = whole[max(0, place - tokens_before) :][:length]
            seen += [settings["coarse_semantic_pad_token"]] * (length - len(seen))
            prompt = [*seen, settings["coarse_infer_token"], *heard[-longest:]]
            count = min(window, most - made)
            with no_grad():
                reader = Reader(model, len(prompt) + count)
                logits = reader.read(self._integers(prompt))
            for number in range(count):
                low = first if number % 2 == 0 else first + entries
                high = first + entries if number % 2 == 0 else len(logits)
                heard.append(low + choose(logits[low:high]))
                yield (heard[-1] - first) % entries
                if number + 1 < count:
                    with no_grad():
                        logits = reader.read(self._integers(heard[-1:]))

    def refined(
        self, codes: Sequence[int], before: History | None, heat: float, generator: Generator
    ) -> Iterator[Tensor | None]:
        """All codes (1, codebooks, T) of the moments whose first two are given; before them None after each step."""
        settings, entries, model = self.stages.fine, self.stages.codebook_size, self.model.fine_acoustics
        given, books = self.stages.coarse["n_coarse_codebooks"], settings["n_fine_codebooks"]
        past, length = settings["max_fine_history_length"], settings["max_fine_input_length"]
        rows = np.full((len(codes) // given, books), entries, np.int64)
        rows[:, :given] = np.asarray(codes).reshape(-1, given)
        moments, known = len(rows), 0
        if before is not None:
            earlier = before.fine.T[-past:]
            known = len(earlier)
            rows = np.concatenate([earlier, rows])
        rows = np.pad(rows, ((0, max(0, length - len(rows))), (0, 0)), constant_values=entries)
        for loop in range(max(0, ceil((moments - (length - known)) / past)) + 1):
            start = min(loop * past, len(rows) - length)
            fill = min(known + loop * past, len(rows) - past)
            part = rows[start : start + length].copy()
            for book in range(given, books):
                with no_grad():
                    logits = model(ops.from_numpy(part[None]).to(self.device), book)[0, fill - start :, :entries]
                    if heat:
                        shares = (logits * (1 / heat)).softmax(-1).cumsum(-1)  # (T, entries)
                        drawn = ops.rand(shares.shape[0], 1, generator=generator).to(self.device)
                        chosen = (shares < drawn * shares[:, -1:]).sum(-1).clamp(max=entries - 1)
                    else:
                        chosen = logits.argmax(-1)
                part[fill - start :, book] = chosen.cpu().numpy()
                yield None
            rows[fill : start + length, given:] = part[fill - start :, given:]
        found = rows[known : known + moments].T[None]  # (1, codebooks, T)
        yield ops.from_numpy(np.ascontiguousarray(found)).to(self.device)


class Reader:
    """A language model that reads token after token, with a cache for so many."""

    def __init__(self, model: Any, capacity: int) -> None:
        self.model, self._place = model, 0
        self._cache = model.new_cache(capacity)

    def read(self, tokens: Tensor, x: Tensor | None = None) -> NDArray[np.float32]:
        """The next tokens (T,), x: what the first layer reads of them, if it is something else → the logits (V,) after
        them.
        """
        model = self.model
        position = ops.tensor([self._place], dtype="int32", device=tokens.device)
        x = model.stack(tokens, model.cached_text(position, self._cache), x)
        self._place += tokens.shape[0]
        logits: NDArray[np.float32] = model.head(x.narrow(0, x.shape[0] - 1, 1))[0].to("float32").cpu().numpy()
        return logits
