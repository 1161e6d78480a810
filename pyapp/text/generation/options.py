"""The settings of generation: sampling and stopping, with their ranges and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError, check_settings, shown

SEEDS = 1 << 64
MOST_LOGPROBS = 100
IDS = 1 << 31
# llama.cpp's names, and the dtypes. "auto": text.generation.session.cache_dtype chooses.
CACHE_TYPES = {"auto": "auto", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "q8_0": "q8_0"}


@dataclass(frozen=True)
class SamplingOptions:
    """The settings of sampling and stopping. OptionError, with the name of the setting, for a value out of its range.

    They apply in this order: logit_bias, repetition_penalty, frequency_penalty and presence_penalty, no_repeat_ngram
    and the other tokens that may not come, forced tokens, the form of the text (json_schema, regex, choice),
    temperature, top_k, top_p, min_p, typical_p.

    - temperature: 0 takes the most likely token, 1 samples with the model's probabilities; higher is more random.
    - top_k: only the k most likely tokens; 0: all.
    - top_p: only the most likely tokens that together have this probability; 1: all, 0: the likeliest (Holtzman et
      al., 2020).
    - min_p: only tokens with at least this fraction of the highest probability; 0: all (Nguyen et al., 2024).
    - typical_p: only tokens whose surprise is closest to the expected one, that together have this probability; 1: all
      (Meister et al., 2023).
    - repetition_penalty: above 1, tokens that have occurred in prompt or text become less likely (Keskar et al., 2019).
    - frequency_penalty, presence_penalty: lower the logits of tokens of the new text, for each occurrence, and once
      (OpenAI's definition).
    - no_repeat_ngram: no sequence of this many tokens occurs twice in prompt and text (Paulus et al., 2017); 0: off.
    - logit_bias: numbers added to the logits of tokens, by id: a mapping; -100 practically forbids a token.
    - suppress_tokens, begin_suppress_tokens: ids that never come, and ids that are not the first new token.
      bad_words_ids: sequences of ids that never come. forced_eos_token_id: the last token of a text of max_new_tokens.
      They are those of transformers' generation_config.json.
    - logprobs: each Token carries the log-probability of its token, and those of the most likely ones, this many. They
      are the model's own: before penalties, temperature and filters.
    - seed: the same seed gives the same draws; None: a new one each time.
    - max_new_tokens: the largest number of new tokens; None: until the context is full. min_new_tokens: before these
      the tokens that end a text do not come; min_length: nor before prompt and text together have so many.
    - context: the most tokens of prompt and text together, for which the cache has memory; None: those that the model
      can read, at most 8,192 (text.generation.session.CONTEXT).
    - cache_type: of the keys and values in the cache: "f32", "f16" (half the memory), "bf16" (for CUDA) or "q8_0"
      (little more than a quarter). What is written is rounded, so that logits change a little. "auto" is "f32" on the
      CPU; on CUDA it is the weights' own type where they are floats, else "f16".
    - stop: texts that end the generation; they are not part of the result.
    - stop_tokens: ids that end the generation, besides the tokenizer's: of the end of a text or turn, and of the begin
      of a text, where transformers goes on. They are not part of the result.
    - rolling: when the context is full, the oldest tokens are dropped and the rest is read again, instead of ending.
      `keep` is the number of tokens at the beginning of the prompt that are never dropped.
    - lookup: the most tokens that are copied from an earlier occurrence of the last tokens and verified in one pass
      (prompt-lookup decoding; Saxena, 2023); 0: off. The tokens do not change.
    - samples: the number of texts; each draws with its own seed, one higher than the last.
    - beams: the number of texts that beam search follows; 1: off. The texts are the most likely ones that it finds,
      without sampling. A text's score is its log-probability / length ** length_penalty. early_stopping: true ends
      the search with the first `beams` complete texts; false, when better ones are unlikely; "never", when there can
      be none. Bias, penalties and forbidden repetitions change the log-probabilities, as in transformers.
    - denoising: the settings of models that write by masked diffusion, a mapping (text.generation.denoising); these
      follow, beside it, temperature, top_p, top_k, seed, max_new_tokens, stop, stop_tokens and context only.
    - json_schema, regex, choice: the form of the text (pyapp/text/structured_output/structured.py); at most one of
    them.
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.9
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_new_tokens: int | None = 288
    stop: tuple[str, ...] = ()
    typical_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    no_repeat_ngram: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None
    stop_tokens: tuple[int, ...] = ()
    rolling: bool = False
    keep: int = 0
    lookup: int = 0
    samples: int = 1
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    json_schema: Mapping[str, Any] | bool | None = None
    regex: str | None = None
    choice: tuple[str, ...] = ()
    context: int | None = None
    cache_type: str = "auto"
    min_new_tokens: int = 0
    min_length: int = 0
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    forced_eos_token_id: int | None = None
    denoising: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0, 100)
        check_number("top_k", self.top_k, 0, 1 << 31, whole=True)
        for name in ("top_p", "min_p", "typical_p"):
            check_number(name, getattr(self, name), 0, 1)
        check_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        check_number("frequency_penalty", self.frequency_penalty, -2, 2)
        check_number("presence_penalty", self.presence_penalty, -2, 2)
        check_number("no_repeat_ngram", self.no_repeat_ngram, 0, 1000, whole=True)
        check_number("keep", self.keep, 0, IDS, whole=True)
        check_number("lookup", self.lookup, 0, 64, whole=True)
        if self.logprobs is not None:
            check_number("logprobs", self.logprobs, 0, MOST_LOGPROBS, whole=True)
        if self.seed is not None:
            check_number("seed", self.seed, 0, SEEDS - 1, whole=True)
        if self.max_new_tokens is not None:
            check_number("max_new_tokens", self.max_new_tokens, 0, 1 << 31, whole=True)
        check_number("min_new_tokens", self.min_new_tokens, 0, 1 << 31, whole=True)
        check_number("min_length", self.min_length, 0, 1 << 31, whole=True)
        if self.forced_eos_token_id is not None:
            check_number("forced_eos_token_id", self.forced_eos_token_id, 0, IDS - 1, whole=True)
        if self.context is not None:
            check_number("context", self.context, 1, 1 << 31, whole=True)
        check_number("samples", self.samples, 1, 256, whole=True)
        check_number("beams", self.beams, 1, 256, whole=True)
        check_number("length_penalty", self.length_penalty, -10, 10)
        never = isinstance(self.early_stopping, str) and self.early_stopping == "never"
        if not never and not isinstance(self.early_stopping, bool):
            raise OptionError(
                f'must be true, false or "never", not {shown(self.early_stopping)}', where="early_stopping"
            )
        check_cache_type(self.cache_type)
        if not isinstance(self.rolling, bool):
            raise OptionError(f"must be true or false, not {shown(self.rolling)}", where="rolling")
        object.__setattr__(self, "stop", check_texts("stop", self.stop))
        given: object = self.choice
        if given == []:  # () stands for none given
            raise OptionError("has no texts", where="choice", hint="Give at least one, or leave choice out")
        object.__setattr__(self, "choice", check_texts("choice", self.choice))
        for name in ("stop_tokens", "suppress_tokens", "begin_suppress_tokens"):
            object.__setattr__(self, name, check_ids(name, getattr(self, name)))
        object.__setattr__(self, "bad_words_ids", check_words(self.bad_words_ids))
        object.__setattr__(self, "logit_bias", check_bias(self.logit_bias))
        if self.denoising is not None and not isinstance(self.denoising, Mapping):
            raise OptionError(f"must be names and values, not {shown(self.denoising)}", where="denoising")
        self._check_form()
        self._check_beams()

    def _check_beams(self) -> None:
        """Beam search and several texts at once exclude settings that they would not follow."""
        several = "beams" if self.beams > 1 else "samples" if self.samples > 1 else None
        used = {"rolling": self.rolling, "lookup": self.lookup > 0, "denoising": self.denoising is not None}
        if self.beams > 1:
            used |= {"logprobs": self.logprobs is not None, "more samples": self.samples > self.beams}
        wrong = [name for name, given in used.items() if given]
        if several and wrong:
            raise OptionError(f"excludes {wrong[0]}", where=several, hint=f"Give {several} without {wrong[0]}")

    def _check_form(self) -> None:
        if self.regex is not None and not isinstance(self.regex, str):
            raise OptionError(f"must be a text, not {shown(self.regex)}", where="regex")
        if self.json_schema is not None and not isinstance(self.json_schema, bool | Mapping):
            raise OptionError(f"must be an object, true or false, not {shown(self.json_schema)}", where="json_schema")
        given = {"json_schema": self.json_schema is not None, "regex": self.regex is not None, "choice": self.choice}
        names = [name for name, value in given.items() if value]
        if len(names) > 1:
            raise OptionError(f"excludes {names[1]}", where=names[0], hint="Give one of json_schema, regex and choice")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingOptions:
        """From JSON values; unknown names are refused."""
        if not isinstance(values, Mapping):
            raise OptionError(f"must be names and values, not {shown(values)}", where="options")
        check_settings(values, (entry.name for entry in fields(cls)))
        return cls(**values)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def has_penalties(self) -> bool:
        """Whether logits change by more than what the sampling kernel does."""
        return bool(
            self.logit_bias or self.frequency_penalty or self.presence_penalty or self.no_repeat_ngram
            or self.min_new_tokens or self.min_length or self.suppress_tokens or self.begin_suppress_tokens
            or self.bad_words_ids or self.forced_eos_token_id is not None
        )  # fmt: skip

    @property
    def has_form(self) -> bool:
        """Whether json_schema, regex or choice is given."""
        return self.json_schema is not None or self.regex is not None or bool(self.choice)


def check_cache_type(value: object) -> str:
    """The dtype of a cache of this type. OptionError for an unknown one."""
    if not isinstance(value, str) or value not in CACHE_TYPES:
        raise OptionError(f"must be {', '.join(CACHE_TYPES)}, not {shown(value)}", where="cache_type")
    return CACHE_TYPES[value]


def check_number(name: str, value: object, low: float, high: float, whole: bool = False) -> None:
    kind = "a whole number" if whole else "a number"
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not fits or not low <= value <= high:  # type: ignore[operator]
        limits = f"{low:,} to {high:,}" if whole else f"{low:g} to {high:g}"
        raise OptionError(f"must be {kind} from {limits}, not {shown(value)}", where=name)


def check_texts(name: str, value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text for text in texts):
        raise OptionError(f"must be texts of at least one character, not {shown(value)}", where=name)
    return tuple(texts)


def check_ids(name: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise OptionError(f"must be a list of token ids, not {shown(value)}", where=name)
    for number in value:
        check_number(name, number, 0, IDS - 1, whole=True)
    return tuple(int(number) for number in value)


def check_words(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(value):
        raise OptionError(f"must be a list of lists of token ids, not {shown(value)}", where="bad_words_ids")
    return tuple(check_ids("bad_words_ids", word) for word in value)


def check_bias(value: object) -> tuple[tuple[int, float], ...]:
    """Pairs of id and bias, of a mapping (whose keys may be texts, as in JSON) or of pairs."""
    try:
        pairs = value.items() if isinstance(value, Mapping) else [(id, bias) for id, bias in value]  # type: ignore[attr-defined]
        given = {int(id) if isinstance(id, str) else id: bias for id, bias in pairs}
    except (TypeError, ValueError):
        raise OptionError(
            f"must give a bias for each token id, not {shown(value)}", where="logit_bias", hint='Such as {"15": -100}'
        ) from None
    for id, bias in given.items():
        check_number("logit_bias", id, 0, IDS - 1, whole=True)
        check_number("logit_bias", bias, -100, 100)
    return tuple((int(id), float(bias)) for id, bias in given.items())
