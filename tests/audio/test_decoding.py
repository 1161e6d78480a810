"""The rules of decoding, one by one. test_transcribe.py tests that together they give openai-whisper's text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from pyapp.audio.decoding import BeamSearch, Choices, Greedy, WindowDecoder, compression_ratio, draw_token, highest
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.token_rules import TokenRules, log_sum_exp
from pyapp.errors import Cancelled, OptionError
from pyapp.events import Cancel
from pyapp.text.generation.sampling import Uniform

from .speech_model import Shape
from .tone_model import ToneModel, speech

SHAPE = Shape("rules", languages=2)
TOKENIZER = SHAPE.tokenizer()
TIMES, EOT, SIZE = TOKENIZER.timestamp_begin, TOKENIZER.eot, TOKENIZER.vocab_size
TEXT = TOKENIZER.encode("the")[0]


def allowed(sampled: Sequence[int], logits: np.ndarray | None = None, **options: object) -> set[int]:
    """The ids that the rules permit after `sampled`."""
    logits = np.zeros(SIZE, np.float32) if logits is None else logits.astype(np.float32)
    rules = TokenRules(TOKENIZER, TranscribeOptions(**options))  # type: ignore[arg-type]
    first, last = rules.apply(logits, sampled)
    left = set(np.flatnonzero(np.isfinite(logits)).tolist())
    assert all(first <= token < last for token in left)
    return left


def leaning(*tokens: int) -> np.ndarray:
    """Logits that prefer these tokens to all times together."""
    logits = np.zeros(SIZE, np.float32)
    logits[list(tokens)] = 20
    return logits


def test_a_window_begins_with_an_early_time() -> None:
    assert allowed([]) == {*range(TIMES, TIMES + 51)}
    assert allowed([], max_initial_timestamp=0.5) == {*range(TIMES, TIMES + 26)}
    assert allowed([], max_initial_timestamp=None) == {*range(TIMES, SIZE)}


def test_text_follows_a_time_that_begins_a_segment() -> None:
    left = allowed([TIMES + 3], leaning(TEXT))
    assert TEXT in left and EOT in left and not any(token >= TIMES for token in left)


def test_a_time_or_the_end_follows_a_time_that_ends_a_segment() -> None:
    left = allowed([TIMES, TEXT, TIMES + 9], leaning(EOT))
    assert left == {EOT, *range(TIMES + 9, SIZE)} | (left & set(range(EOT, TIMES)))
    assert TEXT not in left


def test_no_segment_ends_where_it_began() -> None:
    left = allowed([TIMES, TEXT, TIMES + 9, TIMES + 9, TEXT])
    assert min(token for token in left if token >= TIMES) == TIMES + 10


def test_a_time_comes_where_all_times_together_are_likelier_than_any_text() -> None:
    assert allowed([TIMES, TEXT]) == {*range(TIMES + 1, SIZE)}
    logits = np.zeros(SIZE, np.float32)
    logits[TEXT] = np.log(1501)
    assert TEXT in allowed([TIMES, TEXT], logits)
    logits[TEXT] = np.log(1499)
    assert TEXT not in allowed([TIMES, TEXT], logits)


def test_banned_tokens() -> None:
    control = {TOKENIZER.sot, TOKENIZER.sot_prev, TOKENIZER.sot_lm, TOKENIZER.no_speech}
    control |= {TOKENIZER.transcribe, TOKENIZER.translate}
    seen = [TIMES, TEXT]
    usual = allowed(seen, leaning(TEXT))
    assert not usual & {*TOKENIZER.non_speech_tokens, *control, TOKENIZER.no_timestamps}
    assert not allowed(seen, leaning(TEXT), suppress_tokens=[TEXT + 1, TEXT + 2]) & {TEXT + 1, TEXT + 2, *control}
    assert TOKENIZER.non_speech_tokens[0] in allowed(seen, leaning(TEXT), suppress_tokens=[TEXT + 1])
    assert control < allowed(seen, leaning(TEXT), suppress_tokens="")
    with pytest.raises(OptionError, match="suppress_tokens: there is no token"):
        TokenRules(TOKENIZER, TranscribeOptions(suppress_tokens=[SIZE]))


def test_without_times_only_blanks_and_banned_tokens_are_taken() -> None:
    blank = TOKENIZER.encode(" ")[0]
    first = allowed([], without_timestamps=True)
    assert TEXT in first and not first & {blank, EOT}
    assert {blank, EOT} < allowed([], without_timestamps=True, suppress_blank=False)
    assert {blank, EOT} < allowed([TEXT], without_timestamps=True)


def test_log_sum_exp() -> None:
    values = np.array([1, -np.inf, 3, 2], np.float32)
    assert log_sum_exp(values) == pytest.approx(np.log(np.exp(1) + np.exp(3) + np.exp(2)), rel=1e-6)
    assert log_sum_exp(np.full(3, -np.inf, np.float32)) == -np.inf
    assert log_sum_exp(np.array([1e4, 1e4], np.float32)) == pytest.approx(1e4 + np.log(2))


def test_highest_prefers_the_first_of_equals() -> None:
    values = np.array([1, 5, 5, -np.inf, 2, 5], np.float32)
    assert highest(values, 2) == [1, 2]
    assert highest(values, 4) == [1, 2, 5, 4]
    assert highest(values, 9) == [1, 2, 5, 4, 0, 3]


def test_draws_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.5, 0.2, 0.3], np.float32))
    assert [draw_token(logits, 1.0, number) for number in (0, 0.49, 0.51, 0.69, 0.71, 0.999999)] == [0, 0, 1, 1, 2, 2]
    draw = Uniform(0).draw
    counts = np.bincount([draw_token(logits, 1.0, draw()) for _ in range(4000)], minlength=3) / 4000
    assert counts == pytest.approx([0.5, 0.2, 0.3], abs=0.03)
    # hotter: nearer to even; cold: the likeliest
    assert np.bincount([draw_token(logits, 50.0, draw()) for _ in range(3000)])[1] > 900
    assert {draw_token(logits, 0.01, draw()) for _ in range(50)} == {0}
    assert draw_token(np.array([-np.inf, 0, -np.inf], np.float32), 1.0, 0.999999999) == 1


class Chain:
    """A model over 4 tokens, of which 3 is the end: the logits depend on the last two tokens."""

    def __init__(self, seed: int) -> None:
        self.table = np.random.RandomState(seed).standard_normal((5, 5, 4)).astype(np.float32) * 2

    def logits(self, row: Sequence[int]) -> np.ndarray:
        last, before = ([*row][::-1] + [4, 4])[:2]
        return self.table[last, before].copy()

    def score(self, row: Sequence[int]) -> float:
        pairs = ((self.logits(row[:place]), token) for place, token in enumerate(row))
        return sum(float(logits[token]) - log_sum_exp(logits) for logits, token in pairs)

    def run(self, chooser: Greedy | BeamSearch, rows: int, steps: int) -> tuple[list[list[int]], list[float]]:
        choices = Choices([[] for _ in range(rows)], [0.0] * rows)
        for _ in range(steps):
            logits = np.stack([self.logits(row) for row in choices.rows])
            chooser.choose(choices, logits, [(0, 4)] * len(choices.rows))
            if choices.done:
                break
        return chooser.finish(choices)


@pytest.mark.parametrize("seed", range(8))
def test_a_wide_beam_finds_the_likeliest_of_all(seed: int) -> None:
    chain, steps = Chain(seed), 4
    search = BeamSearch(100, 3, 4.0)
    chain.run(search, 100, steps)
    every = [[*row, 3] for length in range(steps) for row in itertools.product(range(3), repeat=length)]
    best = max(every, key=chain.score)
    ended = search._finished
    assert len(ended) == len(every) and list(max(ended, key=ended.__getitem__)) == best
    assert max(ended.values()) == pytest.approx(chain.score(best), abs=1e-5)


@pytest.mark.parametrize("size, patience, ended", [(2, None, 2), (2, 3.0, 6), (4, 0.5, 2)])
def test_patience_says_how_many_must_have_ended(size: int, patience: float | None, ended: int) -> None:
    search = BeamSearch(size, 3, patience)
    found, sums = Chain(1).run(search, size, 30)
    assert len(search._finished) == ended <= len(found)
    for row, total in zip(found, sums, strict=True):
        if (*row, 3) in search._finished:
            assert Chain(1).score([*row, 3]) == pytest.approx(total, abs=1e-4)


def test_a_beam_that_never_ends_gives_its_likeliest() -> None:
    chain = Chain(2)
    chain.table[..., 3] = -50
    found, sums = chain.run(BeamSearch(2, 3, None), 2, 5)
    assert [len(row) for row in found] == [5, 5] and sums[0] >= sums[1]


def test_greedy_stops_when_all_have_ended() -> None:
    chain = Chain(3)
    found, sums = chain.run(Greedy(1.0, 3, Uniform(1).draw), 3, 60)
    assert all(3 not in row for row in found)
    for row, total in zip(found, sums, strict=True):
        assert chain.score([*row, 3]) == pytest.approx(total, abs=1e-4)


def test_the_best_is_chosen_for_its_length() -> None:
    model = ToneModel()

    def chosen(penalty: float | None) -> int:
        decoder = WindowDecoder(model, model.tokenizer, TranscribeOptions(length_penalty=penalty), "en", lambda: 0.0)
        return len(decoder._result([[1] * 3, [1] * 20], [-3.0, -9.0], 0.0, 0.0).tokens)

    assert (chosen(None), chosen(0.0), chosen(1.0)) == (20, 3, 20)


def test_cancelling_stops_within_a_window() -> None:
    model = ToneModel()
    cancel = Cancel()
    decoder = WindowDecoder(model, model.tokenizer, TranscribeOptions(), "en", lambda: 0.0)
    audio = model.encode(mel_of(model))
    attempt = decoder.decode(audio, [], 0.0, cancel)
    next(attempt)
    cancel.set()
    with pytest.raises(Cancelled):
        next(attempt)


def mel_of(model: ToneModel) -> object:
    from pyapp.audio.mel import log_mel_spectrogram
    from pyapp.engine.ops import from_numpy

    return from_numpy(log_mel_spectrogram(speech([0, 1, 2])[0], padding=480_000)[None, :, :3000])


def test_compression_ratio() -> None:
    assert compression_ratio("") == 0
    assert compression_ratio("yes " * 200) > 10 and compression_ratio("a fox jumps") < 1
    assert compression_ratio("\ud800") > 0


@pytest.mark.parametrize(
    "options, name",
    [
        ({"task": "sing"}, "task"), ({"language": "klingon"}, "language"), ({"temperature": []}, "temperature"),
        ({"temperature": -1}, "temperature"), ({"temperature": "0"}, "temperature"), ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 2.5}, "beam_size"), ({"patience": 1.0}, "patience"), ({"length_penalty": 2}, "length_penalty"),
        ({"beam_size": 1, "patience": 0.1}, "patience"), ({"suppress_tokens": "a"}, "suppress_tokens"),
        ({"suppress_tokens": [1.5]}, "suppress_tokens"), ({"clip_timestamps": "1,x"}, "clip_timestamps"),
        ({"clip_timestamps": [-1]}, "clip_timestamps"), ({"clip_timestamps": "5,1"}, "clip_timestamps"),
        ({"word_timestamps": "yes"}, "word_timestamps"),
        ({"initial_prompt": 3}, "initial_prompt"), ({"seed": None}, "seed"), ({"speed": 1}, "speed"),
        ({"hallucination_silence_threshold": 2}, "hallucination_silence_threshold"),
        ({"clip_timestamps": [float("nan")]}, "clip_timestamps"), ({"no_speech_threshold": "x"}, "no_speech_threshold"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_named(options: dict[str, object], name: str) -> None:
    with pytest.raises(OptionError) as caught:
        TranscribeOptions.from_dict(options)
    assert caught.value.where == name


def test_settings_as_they_are_written() -> None:
    options = TranscribeOptions.from_dict(
        {"language": "Spanish", "temperature": 0, "clip_timestamps": "1.5, 3,10", "suppress_tokens": "-1,7"}
    )
    assert (options.language, options.temperatures) == ("es", (0,))
    assert options.clips() == [(1.5, 3.0), (10.0, None)] and options.suppressed() == [-1, 7]
    assert TranscribeOptions(clip_timestamps="").clips() == [(0.0, None)]
    assert TranscribeOptions(suppress_tokens="").suppressed() is None
