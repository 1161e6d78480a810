"""The choice of the next token: a seeded stream of random numbers, and the sampling kernel.

The draws are the engine's (Philox): the same seed gives the same draws on every platform.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from pyapp.engine.buffers import int32_tensor
from pyapp.engine.device import Device, cpu
from pyapp.engine.ops.random import Generator, rand
from pyapp.engine.ops.sampling import SampleBuffers, start_sample
from pyapp.engine.tensor import Tensor
from pyapp.errors import KernelError, ModelError, OptionError
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.penalties import Penalties

DRAWS = 64  # numbers computed at a time
AGAIN = "Download or export the model again"


class Form(Protocol):
    """The form that a text must have (pyapp/text/structured_output/structured.py)."""

    def apply(self, logits: Tensor) -> Tensor:
        """logits (V,) with -inf for the tokens that the text may not go on with."""
        ...

    def accept(self, token: int) -> None:
        """Goes on with a token of the text."""
        ...


def allowed(logits: Tensor, penalties: Penalties | None, form: Form | None) -> Tensor:
    """logits (V,) as penalties and form change them. The form comes first: where it leaves only tokens that
    penalties forbid, one of them may come.
    """
    changed = logits if penalties is None else penalties.apply(logits)
    if form is None:
        return changed
    fitting = form.apply(changed)
    if penalties is not None and penalties.forbids and fitting.max().item() == -math.inf:
        return form.apply(logits)
    return fitting


class Uniform:
    """Numbers from [0, 1), one by one: the numbers of `pyapp.rand` for this seed."""

    def __init__(self, seed: int) -> None:
        self._generator = Generator(seed)
        self._values: Iterator[float] = iter(())

    def draw(self) -> float:
        for value in self._values:
            return value
        self._values = iter(rand(DRAWS, generator=self._generator, device="cpu").read_values())
        return next(self._values)


class Sampler:
    """Chooses tokens by `options`. `seed` is the seed in use; prompt and text have at most `limit` tokens. `device` is
    the device of the logits; `form` is the form of the text, if it must have one; `ends` are the tokens that end it.
    """

    def __init__(
        self,
        options: SamplingOptions,
        vocab_size: int,
        limit: int,
        device: Device = cpu,
        form: Form | None = None,
        ends: Collection[int] = (),
    ) -> None:
        self.options = options
        # A drawn seed stays below 2^53, so that JavaScript can hold it exactly.
        self.seed = secrets.randbelow(1 << 53) if options.seed is None else int(options.seed)
        self._uniform = Uniform(self.seed)
        self._buffers = SampleBuffers(vocab_size, device)
        self._temperature, self._penalty = float(options.temperature), float(options.repetition_penalty)
        self._top_k, self._min_p = int(options.top_k), float(options.min_p)
        self._top_p = max(float(options.top_p), 1e-9)  # of 0 the kernel would make no filter
        self._typical = float(options.typical_p)
        self._count = 0
        self._drawn = 0.0
        self._failed: KernelError | None = None
        self._history: Tensor | None = None
        self._form = form
        self._penalties: Penalties | None = None
        if options.has_penalties:
            self._penalties = Penalties.of(options, vocab_size, device, ends)
            self._penalty = 1.0
        elif options.repetition_penalty != 1:
            self._history = int32_tensor([0] * limit, device)

    def accept(self, ids: Iterable[int], prompt: bool = False) -> None:
        """Records tokens of the text, or of the prompt, for penalties and form."""
        if self._penalties is not None:
            ids = list(ids)
            self._penalties.accept(ids, prompt)
        if self._form is not None and not prompt:
            for token in ids:
                self._form.accept(token)
        if self._history is None:
            return
        ids = list(ids)
        if ids:
            room = self._history.shape[0]
            if self._count + len(ids) > room:  # a text that rolls: the last tokens count
                ids = ids[-room:]
                kept = min(self._count, room - len(ids))
                ids = [*self._history.narrow(0, self._count - kept, kept).read_values(), *ids] if kept else ids
                self._count = 0
            self._history.narrow(0, self._count, len(ids)).assign(ids)
            self._count += len(ids)

    @property
    def plain(self) -> bool:
        """Whether nothing changes the logits before the draw but the repetition penalty."""
        return self._penalties is None and self._form is None

    def sample(self, logits: Tensor) -> int:
        """The next token for logits (V,) float32. ModelError if they are NaN or rule out every token, OptionError if
        settings do.
        """
        self.start(logits)
        return self.finish(logits)

    def start(self, logits: Tensor) -> None:
        """Begins to choose: on a device that works beside the host, others can begin before `finish`."""
        self._drawn = 0.0 if self.options.greedy else self._uniform.draw()
        self._failed = None
        try:
            self._launch(logits)
        except KernelError as error:
            self._failed = error

    def finish(self, logits: Tensor, again: bool = False) -> int:
        """The token, and errors as of `sample`. `again`: with the same draw once more, because something else that
        was begun on the device has failed."""
        try:
            if again:
                self._launch(logits)
            elif self._failed is not None:
                raise self._failed
            token: int = self._buffers.read_token()
            return token
        except KernelError as error:
            values = logits.read_values()
            if any(map(math.isnan, values)):
                raise not_a_number() from error
            if max(values) > -math.inf and self._penalties is not None and self._penalties.forbids:
                raise nothing_left(self.options) from error
            raise ModelError(
                "the model rules out every token (all logits are -inf): its weights are damaged", hint=AGAIN
            ) from error

    def _launch(self, logits: Tensor) -> None:
        changed = allowed(logits, self._penalties, self._form)
        start_sample(
            changed, self._buffers, self._drawn, self._temperature, self._top_k, self._top_p, self._min_p,
            self._typical, self._penalty, self._history, self._count,
        )  # fmt: skip


def finished(samplers: Sequence[Sampler], rows: Sequence[Tensor]) -> list[int] | None:
    """The tokens of samplers that have begun, each for its logits (V,). None where one has failed: each is then to be
    finished `again`."""
    try:
        return [sampler.finish(row) for sampler, row in zip(samplers, rows, strict=True)]
    except ModelError:
        return None


def not_a_number() -> ModelError:
    """The error for NaN logits."""
    return ModelError("the model's output is not a number (NaN): its weights are damaged", hint=AGAIN)


def nothing_left(options: SamplingOptions) -> OptionError:
    """The error where settings forbid every token."""
    if not options.no_repeat_ngram:
        return OptionError(
            "every token is forbidden now", where="suppress_tokens",
            hint="Forbid fewer by suppress_tokens, begin_suppress_tokens, bad_words_ids and min_new_tokens",
        )  # fmt: skip
    return OptionError(
        f"every token would repeat a sequence of {options.no_repeat_ngram}", where="no_repeat_ngram",
        hint="Choose a larger number, fewer new tokens, or 0",
    )  # fmt: skip


def log_probabilities(logits: Tensor, token: int, most: int) -> tuple[float, list[tuple[int, float]]]:
    """The natural logarithm of the model's probability of `token`, and (id, log-probability) of the `most` likeliest
    tokens in descending order, for logits (V,) float32.
    """
    values = logits.detach().log_softmax(-1)  # (V,)
    (chosen,) = values.narrow(0, token, 1).read_values()
    if not most:
        return chosen, []
    top, ids = values.topk(min(most, logits.shape[0]))
    return chosen, list(zip(ids.tolist(), top.tolist(), strict=True))
