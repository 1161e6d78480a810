"""The encoder of a speech model for the windows of several recordings, which it reads together."""

from __future__ import annotations

from typing import Any

from pyapp.engine import no_grad
from pyapp.engine.device import cpu
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.engine.tensor import Tensor

TOGETHER = 8  # windows in a pass, at most: they bound its memory


class WindowEncoder:
    """Encodes windows of recordings. What waits is computed together when the first of it is needed, so a recording
    that shares an encoder lets the others come to theirs between `put` and `take`. A window's result does not depend
    on what is computed with it. `passes` and `windows` count what was done.
    """

    def __init__(self, model: Any, frames: int, together: int = TOGETHER) -> None:
        """`model` is a pyapp.audio.decoding.SpeechModel with windows of `frames` frames."""
        self._model, self._frames, self._together = model, frames, together
        self._device = getattr(model, "device", cpu)
        self._waiting: list[WaitingWindow] = []
        self.passes = self.windows = 0

    def put(self, mel: Any) -> WaitingWindow:
        """A window, mel (n_mels, frames) float32 of NumPy; what lacks to a full window is padded with zeros, as in
        training.
        """
        window = WaitingWindow(self, mel)
        self._waiting.append(window)
        return window

    def drop(self, window: WaitingWindow) -> None:
        """Nobody needs a window any more."""
        if window in self._waiting:
            self._waiting.remove(window)

    def compute(self, wanted: WaitingWindow) -> None:
        """Encodes a window, and others that wait with it. Where that fails, the others wait on."""
        others = [window for window in self._waiting if window is not wanted]
        windows = [wanted, *others[: self._together - 1]]
        mels = np.zeros((len(windows), wanted.mel.shape[0], self._frames), np.float32)  # (B, n_mels, frames)
        for place, window in enumerate(windows):
            mels[place, :, : window.mel.shape[1]] = window.mel
        self.drop(wanted)
        with no_grad():
            audio = self._model.encode(from_numpy(mels).to(self._device))  # (B, n_ctx, state)
            for place, window in enumerate(windows):
                window.audio = audio.narrow(0, place, 1)
                self.drop(window)
        self.passes += 1
        self.windows += len(windows)


class WaitingWindow:
    """A window that waits for its encoder, or its result (1, n_ctx, state) in `audio`."""

    def __init__(self, encoder: WindowEncoder, mel: Any) -> None:
        self._encoder, self.mel = encoder, mel
        self.audio: Tensor | None = None

    def take(self) -> Tensor:
        """The window's encoding (1, n_ctx, state)."""
        if self.audio is None:
            self._encoder.compute(self)
        assert self.audio is not None
        return self.audio
