"""The common parts of language models that hear a moment of a recording with each token that they write, so that what
is said is written while it is said: a moment's vector is added to that of the token before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.buffers import int32_tensor, writer
from ...engine.launch import Graph, capture
from ...errors import ArgumentError
from ..decoders.decoder import CausalLanguageModel
from ..module import Module


class SynchronousModel(Module):
    """A model of which `language_model` writes. A subclass says what it hears (`heard`), which tokens stand before what
    it writes (`prompt`), and how samples are prepared (`prepared`).
    """

    config: Any
    language_model: CausalLanguageModel

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.language_model.device

    def prepared(self, processor: Any, samples: Any) -> Tensor:
        """Samples float32 (N,) at 16 kHz as `heard` takes them, by the model's processor."""
        raise NotImplementedError

    def heard(self, values: Tensor) -> Tensor:
        """What is prepared of recordings (B, …) → the vectors (B, T, D) of their moments, of which the first ones stand
        beside the prompt.
        """
        raise NotImplementedError

    def prompt(self, tokenizer: Any, generation: Mapping[str, Any]) -> list[int]:
        """The tokens before what is written; `generation`: the settings of the generation_config.json."""
        raise NotImplementedError

    def dequantize(self) -> None:
        """Converts block-quantised weights to float32."""
        CausalLanguageModel.dequantize(self)  # type: ignore[arg-type]

    def forward(self, tokens: Tensor, heard: Tensor) -> Tensor:
        """tokens (B, T) integers and the vectors heard (B, T, D) of the same moments → logits (B, T, V) of the tokens
        after them.
        """
        if heard.shape[:2] != tokens.shape:
            raise ArgumentError(f"tokens are {tuple(tokens.shape)}, what is heard {tuple(heard.shape)}")
        model = self.language_model
        x = model.embedding(tokens) + heard
        return model.head(model.stack(tokens, model.whole_text(tokens.shape[1], None), x))

    def settled(self, processor: Any, count: int) -> int:
        """The vectors that `heard` makes of `count` samples at 16 kHz, and that more samples do not change."""
        raise NotImplementedError

    def behind(self, processor: Any) -> int:
        """The samples of silence at 16 kHz that `prepared` puts behind a recording, or a few more."""
        raise NotImplementedError

    def written(self, prompt: Sequence[int], heard: Tensor) -> Iterator[int]:
        """The most likely tokens after a prompt (P,), one for each moment of heard (T, D) from the P-th on."""
        return Writer(self, prompt, heard.shape[0]).written(heard)


class Writer:
    """Writes what a SynchronousModel hears, after a `prompt` (P,), up to a `longest` number of moments."""

    def __init__(self, model: SynchronousModel, prompt: Sequence[int], longest: int) -> None:
        self._model, self._prompt, self._longest = model, list(prompt), longest
        self.moments = 0  # so far
        self._token = 0  # the last one
        self._graph: Graph | None = None
        language, device = model.language_model, model.device
        self._place, self._told = int32_tensor([0], device), int32_tensor([0], device)
        self._write_place, self._write_told = writer(self._place), writer(self._told)
        with no_grad():
            self._cache = language.new_cache(max(1, longest))

    def written(self, heard: Tensor) -> Iterator[int]:
        """The most likely tokens of the next moments (T, D), as SynchronousModel.written. Those of the prompt are heard
        together, and are the first ones.
        """
        if self.moments + heard.shape[0] > self._longest:
            raise ArgumentError(f"{self.moments + heard.shape[0]} moments are more than {self._longest}")
        at, given = 0, len(self._prompt)
        if not self.moments:
            if not 0 < given <= heard.shape[0]:
                return
            with no_grad():
                self._now = ops.zeros(1, heard.shape[1], device=self._model.device)
                self._token = int(self._begun(heard.narrow(0, 0, given)))
            at = self.moments = given
            yield self._token
        for moment in range(at, heard.shape[0]):
            with no_grad():
                self._write_place(self.moments)
                self._write_told(self._token)
                self._now.copy_(heard.narrow(0, moment, 1))
                self._token = int(self._next())
            self.moments += 1
            yield self._token

    def _begun(self, heard: Tensor) -> Tensor:
        """The token after the prompt."""
        model, first = self._model.language_model, int32_tensor(self._prompt, self._model.device)
        x = model.stack(first, model.cached_text(self._place, self._cache), model.embedding(first) + heard)
        return model.head(x.narrow(0, x.shape[0] - 1, 1)).argmax()

    def _step(self) -> Tensor:
        model = self._model.language_model
        x = model.embedding(self._told) + self._now
        return model.head(model.stack(self._told, model.cached_text(self._place, self._cache), x)).argmax()

    def _next(self) -> Tensor:
        """The token after the last one: the second step is recorded, and repeated from then on."""
        if self.moments == len(self._prompt):
            return self._step()
        if self._graph is None:
            self._graph = capture(self._step)
        else:
            self._graph.replay()
        return self._graph.outputs
