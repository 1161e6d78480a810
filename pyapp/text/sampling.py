"""Which token comes next: a seeded stream of random numbers, and the sampling kernel.

The draws are the engine's (Philox): the same seed gives the same draws on every platform.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator

from pyapp.engine.dtype import int32
from pyapp.engine.ops.loss import SampleBuffers, sample
from pyapp.engine.ops.random import Generator, rand
from pyapp.engine.tensor import Tensor
from pyapp.errors import KernelError, ModelError
from pyapp.text.options import SamplingOptions

# Draws that are made together.
DRAWS = 64


class Uniform:
    """Draws from [0, 1), one by one: those of `pyapp.rand` for this seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)
        self._values: Iterator[float] = iter(())

    def draw(self) -> float:
        for value in self._values:
            return value
        self._values = iter(rand(DRAWS, generator=self._generator).data_view().tolist())
        return next(self._values)


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
