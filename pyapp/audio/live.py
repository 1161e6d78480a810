"""What transcribes live speech: for Whisper pyapp.audio.streaming; for models that hear a moment with each token that
they write pyapp.audio.live_synchronous, which is imported when it is needed.
"""

from __future__ import annotations

from typing import Any

from pyapp.audio.options import TranscribeOptions
from pyapp.audio.streaming import LiveOptions, LiveTranscriber
from pyapp.events import Cancel
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME


def hears_live(model: Any) -> bool:
    """Whether a model with its tokenizer (load_speech_model) hears live speech."""
    return getattr(model, "processor", None) is None or _is_synchronous(model)


def _is_synchronous(model: Any) -> bool:
    if getattr(model, "processor", None) is None:
        return False
    from pyapp.nn.audio.synchronous import SynchronousModel

    return isinstance(model.model, SynchronousModel)


def live_options(model: Any) -> LiveOptions:
    """The usual options for a model that hears live speech."""
    if _is_synchronous(model):
        return LiveOptions()
    return LiveOptions.for_window(model.model.config.n_audio_ctx * SECONDS_PER_TIME)


def live_transcriber(
    model: Any,
    options: TranscribeOptions | None = None,
    live: LiveOptions | None = None,
    cancel: Cancel | None = None,
) -> Any:
    """A LiveTranscriber, or what does the same with a model that hears a moment with each token that it writes.
    ModelError for a model that hears whole recordings only.
    """
    if _is_synchronous(model):
        from pyapp.audio.live_synchronous import LiveSynchronousTranscriber

        return LiveSynchronousTranscriber(model, options, live, cancel)
    return LiveTranscriber(model, options, live, cancel)
