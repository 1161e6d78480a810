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

    def written(self, prompt: Sequence[int], heard: Tensor) -> Iterator[int]:
        """The most likely tokens after a prompt (P,), one for each moment of heard (T, D) from the P-th on."""
        if not 0 < len(prompt) <= heard.shape[0]:
            return
        model = self.language_model
        with no_grad():
            cache = model.new_cache(heard.shape[0])
            place, told = int32_tensor([0], self.device), int32_tensor([0], self.device)
            write_place, write_told = writer(place), writer(told)
            now = ops.zeros(1, heard.shape[1], device=self.device)
            first = int32_tensor(list(prompt), self.device)
            x = model.embedding(first) + heard.narrow(0, 0, len(prompt))
            x = model.stack(first, model.cached_text(place, cache), x)
            token = int(model.head(x.narrow(0, x.shape[0] - 1, 1)).argmax())
        yield token

        def step() -> Tensor:
            x = model.stack(told, model.cached_text(place, cache), model.embedding(told) + now)
            return model.head(x).argmax()

        graph: Graph | None = None
        for moment in range(len(prompt), heard.shape[0]):
            with no_grad():
                write_place(moment)
                write_told(token)
                now.copy_(heard.narrow(0, moment, 1))
                if moment == len(prompt):
                    token = int(step())
                elif graph is None:
                    graph = capture(step)
                    token = int(graph.outputs)
                else:
                    graph.replay()
                    token = int(graph.outputs)
            yield token
