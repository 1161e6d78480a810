"""openai-whisper's rules for the next token of a transcript, applied to the logits of one position.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision (2022), section 4.5, and what
https://github.com/openai/whisper (MIT) does: banned tokens, no blank beginning, times in pairs that never decrease,
and a time wherever all times together are more likely than any single text token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyapp.audio.options import TranscribeOptions
from pyapp.engine import ops
from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME, WhisperTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TokenRules:
    """Bans tokens in place: `apply(logits, sampled)`. OptionError for ids that do not exist."""

    def __init__(self, tokenizer: WhisperTokenizer, options: TranscribeOptions) -> None:
        self._eot = tokenizer.eot
        self._times = tokenizer.timestamp_begin  # every id from here on is a time
        self._end = tokenizer.vocab_size
        self._timed = not options.without_timestamps
        self._no_timestamps = tokenizer.no_timestamps
        banned = banned_tokens(tokenizer, options.suppressed())
        self._banned = np.array(banned, np.int64)
        blank = [*tokenizer.blank, tokenizer.eot] if options.suppress_blank else []
        self._banned_at_first = np.array(sorted({*banned, *blank}), np.int64)
        self._latest_start: int | None = None
        if options.max_initial_timestamp:
            self._latest_start = self._times + round(options.max_initial_timestamp / SECONDS_PER_TIME)

    def apply(self, logits: NDArray[np.float32], sampled: Sequence[int]) -> tuple[int, int]:
        """Sets the logits (V,) of tokens that must not follow `sampled`, the tokens after the prompt, to -inf.

        Returns the range (first, one past the last) of ids outside of which all logits are -inf.
        """
        logits[self._end :] = -np.inf  # padding of the vocabulary
        logits[self._banned if sampled else self._banned_at_first] = -np.inf
        if not self._timed:
            return 0, self._end
        logits[self._no_timestamps] = -np.inf
        self._pair_times(logits, sampled)
        if not sampled:
            logits[: self._times] = -np.inf
            if self._latest_start is not None:
                logits[self._latest_start + 1 :] = -np.inf
            return self._times, self._end
        if log_sum_exp(logits[self._times : self._end]) > float(logits[: self._times].max()):
            logits[: self._times] = -np.inf
            return self._times, self._end
        return 0, self._end

    def _pair_times(self, logits: NDArray[np.float32], sampled: Sequence[int]) -> None:
        """The end of a segment and the start of the next come in pairs; only the end of the text may follow a single
        time.
        """
        after_time = bool(sampled) and sampled[-1] >= self._times
        after_two = len(sampled) < 2 or sampled[-2] >= self._times
        if after_time and after_two:
            logits[self._times :] = -np.inf
        elif after_time:
            logits[: self._eot] = -np.inf
        last = next((token for token in reversed(sampled) if token >= self._times), None)
        if last is not None:
            # The next segment may begin where this one ended, but no segment ends where it began.
            logits[self._times : last if after_time and not after_two else last + 1] = -np.inf


def banned_tokens(tokenizer: WhisperTokenizer, chosen: Sequence[int] | None) -> list[int]:
    """The ids that are never chosen: those of the option, with -1 replaced, and the control tokens that
    begin a text.
    """
    if chosen is None:
        return []
    banned = {token for token in chosen if token >= 0}
    if -1 in chosen:
        banned.update(tokenizer.non_speech_tokens)
    if max(banned, default=0) >= tokenizer.vocab_size:
        raise OptionError(
            f"there is no token {max(banned)}", where="suppress_tokens", hint=f"Ids end at {tokenizer.vocab_size - 1}"
        )
    banned.update((tokenizer.transcribe, tokenizer.translate, tokenizer.sot, tokenizer.sot_prev, tokenizer.sot_lm))
    banned.add(tokenizer.no_speech)
    return sorted(banned)


def log_sum_exp(values: NDArray[np.float32]) -> float:
    """log(sum(exp(values))), -inf if all are -inf or there are none. Uses kernels, because NumPy's exp of a vocabulary
    takes a millisecond in Pyodide.
    """
    return ops.peak(ops.from_numpy(values))[1] if len(values) else -np.inf
