"""Text to speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pyapp.events import Cancel, Done, Item

from .core import Breath, Events, Remote, Step, given, only_here, task
from .keeper import keeper
from .text_batches import Work, checked_texts

if TYPE_CHECKING:
    from pyapp.audio.speaking import SpeakOptions


@task
async def speak(
    text: str,
    options: SpeakOptions | Mapping[str, Any] | None = None,
    *,
    model: Any,
    codec: Any = None,
    voices: Any = None,
    key: object = None,
    dtype: str | None = None,
    reply_to: Sequence[Mapping[str, Any]] | None = None,
    writer: Any = None,
    cancel: Cancel | None = None,
) -> Events:
    """Speaks a text: Progress and the Metric load_time while the model is loaded, then the events of
    pyapp.audio.speaking.speak_events: a Sound for each sentence as soon as it is computed, and Done.

    `model` is a folder, a name on the hub such as facebook/mms-tts-eng, a loaded model, or a Server
    (pyapp.serve.client); `codec`: the codec of a language model that writes codes, such as hubertsiuzdak/snac_24khz of
    canopylabs/orpheus-3b-0.1-ft, or the vocoder of SpeechT5; `voices`: the file of its voices' vectors
    (pyapp.models.loading.voice); `key` identifies models without a name: the last used model is kept. `options` may be
    a dict of JSON values. `dtype` ("q8_0" …): the type of the matrices. `reply_to`: the text is a reply to this
    conversation, and `writer` the loaded model that has written it (see speak_events).
    """
    from pyapp.audio.speaking import SpeakOptions, check_text, speak_events

    cancel = cancel or Cancel()
    chosen = options if isinstance(options, SpeakOptions) else SpeakOptions.from_dict(options or {})
    check_text(text, reply_to is not None)  # before a model is loaded
    if isinstance(model, Remote):
        only_here(dtype=dtype, codec=codec, voices=voices, reply_to=reply_to, writer=writer)
        async with aclosing(model.speak(text, chosen, cancel)) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    for_loader = {"dtype": dtype} | given(codec=codec, voices=voices)
    async with Step(keeper.get("speak", model, None, key, cancel, **for_loader)) as loading:
        async for event in loading:
            yield event
    breath = Breath()
    await breath.take()
    for step in speak_events(loading.value, text, chosen, cancel, reply_to, writer):
        if step is not None:
            yield step
        await breath.take()


def speak_texts(loaded: Any, texts: Sequence[str], **options: Any) -> Work:
    """Items with `sound`: the samples of each text, float32 (N,) from -1 to 1, and how many there are a second. The
    options are those of pyapp.audio.speaking.SpeakOptions.
    """
    from pyapp.audio.speaking import SpeakOptions, speak

    chosen, texts = SpeakOptions.from_dict(options), checked_texts(texts)
    for index, text in enumerate(texts):
        yield Item(index, {"sound": speak(loaded, text, chosen)})
    yield Done("complete", {"count": len(texts)})
