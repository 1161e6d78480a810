"""Which token comes next: a seeded stream of random numbers, and the sampling kernel.

The draws come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): the same seed
gives the same draws on every platform, with no NumPy.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable

from pyapp.engine.dtype import int32
from pyapp.engine.ops.loss import SampleBuffers, sample
from pyapp.engine.tensor import Tensor
from pyapp.errors import KernelError, ModelError
from pyapp.text.options import SamplingOptions

WORD = 0xFFFFFFFF


def philox(counter: int, key: int) -> tuple[int, int, int, int]:
    """Four random 32-bit words of Philox4x32-10 for a 128-bit counter and a 64-bit key."""
    c0, c1, c2, c3 = (counter >> shift & WORD for shift in (0, 32, 64, 96))
    k0, k1 = key & WORD, key >> 32 & WORD
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = second >> 32 ^ c1 ^ k0, second & WORD, first >> 32 ^ c3 ^ k1, first & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


class Uniform:
    """Draws from [0, 1): those of the kernel `random_uniform` for the same seed, in order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._count = 0
        self._words: tuple[int, ...] = ()

    def draw(self) -> float:
        block, word = divmod(self._count, 4)
        if word == 0:
            self._words = philox(block, self.seed)
        self._count += 1
        return (self._words[word] >> 8) * 2.0**-24


class Sampler:
    """Chooses tokens by `options`; `seed` is the one in use. `limit`: the most tokens that prompt and text may have."""

    def __init__(self, options: SamplingOptions, vocab_size: int, limit: int) -> None:
        self.options = options
        # A drawn seed stays below 2^53, so that JavaScript can hold it exactly.
        self.seed = secrets.randbelow(1 << 53) if options.seed is None else int(options.seed)
        self._uniform = Uniform(self.seed)
        self._buffers = SampleBuffers(vocab_size)
        self._temperature, self._penalty = float(options.temperature), float(options.repetition_penalty)
        self._top_k, self._top_p, self._min_p = int(options.top_k), float(options.top_p), float(options.min_p)
        self._count = 0
        self._history: Tensor | None = None
        if options.repetition_penalty != 1:
            self._history = Tensor.from_buffer(bytes(4 * limit), (limit,), int32)
            self._history_view = self._history.data_view()

    def accept(self, ids: Iterable[int]) -> None:
        """Remembers tokens of the prompt or text for the repetition penalty."""
        if self._history is None:
            return
        for token in ids:
            self._history_view[self._count] = token
            self._count += 1

    def sample(self, logits: Tensor) -> int:
        """The next token for logits (V,) float32. Raises ModelError where they are not numbers."""
        uniform = 0.0 if self.options.greedy else self._uniform.draw()
        try:
            return sample(
                logits, self._buffers, uniform, self._temperature, self._top_k, self._top_p, self._min_p, self._penalty,
                self._history, self._count,
            )  # fmt: skip
        except KernelError as error:
            if any(map(math.isnan, logits.data_view())):
                raise ModelError(
                    "the model's output is not a number (NaN): its weights are damaged",
                    hint="Download or export the model again",
                ) from error
            raise
