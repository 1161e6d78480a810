"""The state of one text: a model's cache of keys and values, or of states, and the steps that read tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.device import Device, cpu
from pyapp.engine.dtype import bfloat16, float16, float32
from pyapp.engine.tensor import Tensor
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.text.generation.options import check_cache_type

# Tokens of a prompt per pass: enough for the speed of matrix products, few enough to cancel soon and show progress.
# With tensor cores products of fewer rows leave most of a card idle.
PROMPT_PASS, TENSOR_CORE_PASS = 128, 512


class LanguageModelConfig(Protocol):
    """The fields of a model's `config` that the loop uses."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def max_seq_len(self) -> int: ...


class LanguageModel(Protocol):
    """A causal language model with a cache of keys and values (docs/architecture.md). The attribute `device` is the
    device on which it computes, by default the CPU.
    """

    @property
    def config(self) -> LanguageModelConfig: ...

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> Any: ...

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True) -> Tensor: ...


# Tokens for which a cache has memory by default: models that read more would need gigabytes for it.
CONTEXT = 8192


class Session:
    """The state of generating one text: the model's cache, and the decode step as a Graph.

    `tokens` are in the cache, `position` of them; it holds `capacity` (by default what `capacity_of` says). `eager`
    runs every step op by op instead, for reference. `cache_type` is that of SamplingOptions; `cache` is the model's
    cache of that capacity, if it has been made. The logits that `feed`, `step` and `read` return are overwritten by the
    next call.
    """

    def __init__(
        self, model: LanguageModel, capacity: int | None = None, eager: bool = False, cache_type: str = "auto",
        cache: Any = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.capacity = capacity_of(model, capacity)
        self.cache_type = cache_type
        self.vocab_size = model.config.vocab_size
        self.position = 0
        self.tokens: list[int] = []
        # A conversation up to the end of the model's answer, as rendered by its template, and the tokens that it was.
        self.rendered: tuple[str, tuple[int, ...]] = ("", ())
        self.eager = eager
        self.cache = new_cache(model, self.capacity, cache_type) if cache is None else cache
        # Whether the cache can go back to any token; else to its beginning, or to the state that is kept of it.
        self._by_token: bool = getattr(self.cache, "by_token", True)
        self._kept: tuple[int, Any] = (0, None)  # a position, and the state there
        self.device = getattr(model, "device", cpu)
        inputs = int32_tensor([0, 0], self.device)
        self._token, self._place = inputs.narrow(0, 0, 1), inputs.narrow(0, 1, 1)
        self._write = writer(inputs)  # a token and its position
        self._replay: Callable[[], Any] | None = None
        self._logits: Tensor | None = None
        self._readers: dict[int, Callable[[Sequence[int], int], Tensor]] = {}  # by the number of tokens

    def reset(self) -> None:
        """Forgets the text; the Graph stays."""
        self.rewind(0)

    def rewind(self, position: int) -> None:
        """Forgets the tokens from `position` on."""
        if not 0 <= position <= self.position:
            raise ValueError(f"rewind: position {position} of a text of {self.position} tokens")
        if position == self.position:
            return
        start = self._place_before(position)
        if start and not self._by_token:
            self.cache.restore(self._kept[1])
        again = self.tokens[start:position]
        self.position = start
        del self.tokens[start:]
        for part in self.passes(again):
            self.feed(part)

    def _place_before(self, position: int) -> int:
        """The last place up to a position to which the cache can go back."""
        if self._by_token or position == self.position:
            return position
        return self._kept[0] if self._kept[0] <= position else 0

    def _keep(self) -> None:
        """Keeps the state of a cache that cannot go back by itself."""
        if not self._by_token:
            self._kept = self.position, self.cache.snapshot()

    def reuse(self, ids: Sequence[int]) -> int:
        """Forgets what does not agree with the text `ids`; returns how many of its tokens need not be read again.

        The last one must be: its logits are not kept.
        """
        common = min(self.position, len(ids) - 1)
        if self.tokens[:common] != list(ids[:common]):
            common = next(i for i, pair in enumerate(zip(self.tokens, ids, strict=False)) if pair[0] != pair[1])
        self.rewind(self._place_before(max(common, 0)))
        return self.position

    def passes(self, ids: Sequence[int]) -> Iterator[Sequence[int]]:
        """`ids` in parts of at most `prompt_pass` tokens."""
        size = prompt_pass(self.device)
        return (ids[start : start + size] for start in range(0, len(ids), size))

    def continue_from(self, ids: Sequence[int]) -> Tensor:
        """The logits (V,) float32 of the token after the text `ids`. Only what differs from the text so far is read."""
        self._check(ids, 0)
        ids = list(ids)  # they may be `tokens`, which changes
        for part in self.passes(ids[self.reuse(ids) :]):
            logits = self.feed(part)
        return logits

    def feed(self, ids: Sequence[int]) -> Tensor:
        """Reads tokens in one pass; returns the logits (V,) float32 of the next token."""
        self._check(ids, self.position)
        with no_grad():
            self._write(0, self.position)
            logits = self._pass(ids)
        self.position += len(ids)
        self.tokens.extend(ids)
        self._keep()
        return logits.reshape(self.vocab_size)

    def plain(self, ids: Sequence[int]) -> Sequence[int]:
        """The ids of the vocabulary that stand for these tokens (pyapp/text/pictures.py)."""
        return ids

    def _pass(self, ids: Sequence[int]) -> Tensor:
        """The logits (1, V) after tokens at the place."""
        return self.model.forward_cached(int32_tensor(ids, self.device), self._place, self.cache, last_only=True)

    def step(self, token: int) -> Tensor:
        """Reads one token; returns the logits (V,) float32 of the next token."""
        if self.position >= self.capacity or not 0 <= token < self.vocab_size:
            self._check((token,), self.position)
        self._write(token, self.position)
        if self._replay is not None:
            self._replay()
        else:
            self._first_step()
        self.position += 1
        self.tokens.append(token)
        assert self._logits is not None
        return self._logits

    def read(self, ids: Sequence[int]) -> Tensor:
        """Reads a few tokens in one pass; returns the logits (T, V) float32 after each of them.

        A Graph is kept for every number of tokens.
        """
        self._check(ids, self.position)
        self._keep()
        run = self._readers.get(len(ids))
        if run is None:
            run = self._readers[len(ids)] = self._reader(len(ids))
        logits = run(ids, self.position)
        self.position += len(ids)
        self.tokens.extend(ids)
        return logits

    def _first_step(self) -> None:
        """Runs the step; unless eager, captures its launch records for the following steps."""
        with no_grad():
            if self.eager:
                self._logits = self._decode()
            else:
                graph = capture(self._decode)
                self._logits = graph.outputs
                self._replay = graph.replay

    def _decode(self) -> Tensor:
        logits = self.model.forward_cached(self._token, self._place, self.cache, last_only=True)
        return logits.reshape(self.vocab_size)

    def _reader(self, count: int) -> Callable[[Sequence[int], int], Tensor]:
        """A function that reads `count` tokens at a position and returns their logits (count, V)."""
        inputs = int32_tensor([0] * (count + 1), self.device)
        tokens, place = inputs.narrow(0, 0, count), inputs.narrow(0, count, 1)
        write = writer(inputs)
        # Not `self`, which keeps this function: memory in a circle is free only after a garbage collection.
        model, cache, eager = self.model, self.cache, self.eager

        def forward() -> Tensor:
            with no_grad():
                return model.forward_cached(tokens, place, cache, last_only=False)

        replay: Callable[[], Any] | None = None
        logits: Tensor | None = None

        def run(ids: Sequence[int], position: int) -> Tensor:
            nonlocal replay, logits
            write(*ids, position)
            if replay is not None:
                replay()
            elif eager:
                logits = forward()
            else:
                graph = capture(forward)
                logits, replay = graph.outputs, graph.replay
            assert logits is not None
            return logits

        return run

    def _check(self, ids: Sequence[int], position: int) -> None:
        if not ids:
            raise ValueError("feed() needs at least one token")
        if position + len(ids) > self.capacity:
            raise ModelError(
                f"{position + len(ids)} tokens do not fit the context of {self.capacity}",
                hint=f"Start a new session, or reset() this one. {context_hint(self)}".rstrip(),
            )
        ids = self.plain(ids)
        if not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise ModelError(
                f"token ids from {min(ids)} to {max(ids)} are outside the model's vocabulary of {self.vocab_size}",
                hint="The tokenizer does not belong to this model",
            )


def context_hint(session: Session) -> str:
    """How to get room for more tokens; "" where the model can read no more."""
    longest = session.model.config.max_seq_len
    return f"The model can read {longest:,}: choose a larger `context`" if longest > session.capacity else ""


def capacity_of(model: LanguageModel, context: int | None) -> int:
    """The tokens of prompt and text together: `context`, or those that the model can read, at most CONTEXT, and at most
    its `usual_seq_len`, if it has one. OptionError for more than the model can read.
    """
    longest = model.config.max_seq_len
    if context is not None and not 1 <= context <= longest:
        raise OptionError(f"must be from 1 to {longest:,}, which the model can read, not {context}", where="context")
    return context or min(longest, getattr(model.config, "usual_seq_len", longest), CONTEXT)


def prompt_pass(device: Device) -> int:
    """Tokens of a prompt that a device reads in one pass."""
    return TENSOR_CORE_PASS if device.backend.tensor_cores else PROMPT_PASS


def cache_dtype(model: LanguageModel, cache_type: str) -> str:
    """The name of the dtype that a cache of a type of SamplingOptions has for this model. "auto": float32; with tensor
    cores, which read 16 bits, the weights' own type where they are floats, else float16.
    """
    dtype = check_cache_type(cache_type)
    backend = getattr(model, "device", cpu).backend
    if dtype == "bfloat16" and not backend.bfloat16_caches:
        raise OptionError("bf16 is for CUDA; take f16, which has as many bits", where="cache_type")
    if dtype != "auto":
        return dtype
    if not backend.tensor_cores or not hasattr(model, "parameters"):
        return "float32"
    kinds = {parameter.dtype for parameter in model.parameters() if len(parameter.shape) > 1}
    if any(kind.is_quantized for kind in kinds) or float16 in kinds or not (kinds <= {float32, bfloat16}):
        return "float16"
    if bfloat16 in kinds:
        return "bfloat16" if backend.bfloat16_caches else "float16"
    return "float32"


def new_cache(model: LanguageModel, capacity: int, cache_type: str, texts: int | None = None) -> Any:
    """A cache of a model, of the type of SamplingOptions; `texts`: how many texts it holds at once. OptionError where
    the model has none.
    """
    dtype = cache_dtype(model, cache_type)
    if texts is None and dtype == "float32":
        return model.new_cache(capacity)
    try:
        return model.new_cache(capacity, dtype=dtype, texts=texts)
    except (ArgumentError, TypeError) as error:
        several = ("samples", "of several texts")
        where, what = several if dtype == "float32" else ("cache_type", f"in {cache_type}")
        raise OptionError(
            f"this model has no caches {what}: {error}",
            where=where,
            hint="Its new_cache must take dtype and texts" if isinstance(error, TypeError) else None,
        ) from error
