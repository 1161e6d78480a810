"""Transcribe recordings with models that hear a moment with each token that they write (Kyutai's, Voxtral Realtime)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad

from .utterances import UtteranceTranscription

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.engine.lazy import np

LONGEST = 28.0  # seconds of an utterance


class SynchronousTranscription(UtteranceTranscription):
    """As UtteranceTranscription, by a SynchronousModel (pyapp.nn.audio.synchronous)."""

    longest = LONGEST

    def _prepare(self, loaded: Any) -> None:
        self._prompt = self._model.prompt(self._tokenizer, loaded.generation)

    def _written(self, samples: NDArray[np.float32]) -> list[int]:
        model, tokens = self._model, []
        with no_grad():
            heard = model.heard(model.prepared(self._processor, samples).to(model.device))[0]  # (T, D)
        for token in model.written(self._prompt, heard):
            self._cancel.check()
            tokens.append(token)
        return tokens
