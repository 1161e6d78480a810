"""The choice of the next token: a seeded stream of random numbers, and the sampling kernel.

The draws are the engine's (Philox): the same seed gives the same draws on every platform.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator

from pyapp.engine.buffers import int32_tensor
from pyapp.engine.device import Device, cpu
from pyapp.engine.ops.random import Generator, rand
from pyapp.engine.ops.sampling import SampleBuffers, sample
from pyapp.engine.tensor import Tensor
from pyapp.errors import KernelError, ModelError
from pyapp.text.options import SamplingOptions

DRAWS = 64  # numbers computed at a time


class Uniform:
    """Numbers from [0, 1), one by one: the numbers of `pyapp.rand` for this seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)
        self._values: Iterator[float] = iter(())

    def draw(self) -> float:
        for value in self._values:
            return value
        self._values = iter(rand(DRAWS, generator=self._generator).read_values())
        return next(self._values)


class Sampler:
    """Chooses tokens by `options`. `seed` is the seed in use; prompt and text have at most `limit` tokens. `device` is
    the device of the logits.
    """

    def __init__(self, options: SamplingOptions, vocab_size: int, limit: int, device: Device = cpu) -> None:
        self.options = options
        # A drawn seed stays below 2^53, so that JavaScript can hold it exactly.
        self.seed = secrets.randbelow(1 << 53) if options.seed is None else int(options.seed)
        self._uniform = Uniform(self.seed)
        self._buffers = SampleBuffers(vocab_size, device)
        self._temperature, self._penalty = float(options.temperature), float(options.repetition_penalty)
        self._top_k, self._top_p, self._min_p = int(options.top_k), float(options.top_p), float(options.min_p)
        self._count = 0
        self._history: Tensor | None = None
        if options.repetition_penalty != 1:
            self._history = int32_tensor([0] * limit, device)

    def accept(self, ids: Iterable[int]) -> None:
        """Records tokens of the prompt or text for the repetition penalty."""
        if self._history is None:
            return
        ids = list(ids)
        if ids:
            self._history.narrow(0, self._count, len(ids)).assign(ids)
            self._count += len(ids)

    def sample(self, logits: Tensor) -> int:
        """The next token for logits (V,) float32. ModelError if they are NaN."""
        uniform = 0.0 if self.options.greedy else self._uniform.draw()
        try:
            return sample(
                logits, self._buffers, uniform, self._temperature, self._top_k, self._top_p, self._min_p, self._penalty,
                self._history, self._count,
            )  # fmt: skip
        except KernelError as error:
            if any(map(math.isnan, logits.read_values())):
                raise ModelError(
                    "the model's output is not a number (NaN): its weights are damaged",
                    hint="Download or export the model again",
                ) from error
            raise
