"""Speech as files: WAVE and raw samples, and MP3, FLAC and Opus if the package soundfile is installed."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from pyapp.audio.resampling import resample
from pyapp.audio.wav import MOST_BYTES, TOO_LONG, as_pcm, wav_head
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

INSTALL = "Install it with pip install 'pyapp[audio]', or choose wav"


@dataclass(frozen=True)
class SoundFormat:
    """A form of files: its media type, the ends of names, libsndfile's names of it, and the rates that it has (none:
    any).
    """

    media: str
    suffixes: tuple[str, ...]
    container: str | None = None
    coding: str | None = None
    rates: tuple[int, ...] = ()


FORMATS = {
    "wav": SoundFormat("audio/wav", (".wav",)),
    "pcm": SoundFormat("audio/pcm", (".pcm",)),
    "mp3": SoundFormat(
        "audio/mpeg", (".mp3",), "MP3", "MPEG_LAYER_III", (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
    ),  # fmt: skip
    "flac": SoundFormat("audio/flac", (".flac",), "FLAC", "PCM_16"),
    "opus": SoundFormat("audio/ogg", (".opus", ".ogg"), "OGG", "OPUS", (8000, 12000, 16000, 24000, 48000)),
}
BY_SUFFIX = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}


def can_write(name: str) -> bool:
    """Whether files of the form `name` can be written here."""
    return FORMATS[name].container is None or find_spec("soundfile") is not None


def check_format(name: str) -> None:
    """OptionError for a form that cannot be written here."""
    if not can_write(name):
        raise OptionError(f"{name} needs the package soundfile, which is not installed", where="format", hint=INSTALL)


def encoded(pcm: bytes | bytearray, rate: int, name: str) -> bytes:
    """A file of the form `name` with the samples `pcm`, 16-bit little-endian numbers of one channel. A form that lacks
    the rate has the next higher one. OptionError for a form that cannot be written here, ValueError for more samples
    than a WAVE file holds.
    """
    check_format(name)
    form = FORMATS[name]
    if form.container is None:
        if len(pcm) > MOST_BYTES:
            raise ValueError(TOO_LONG)
        return (wav_head(rate, 1, len(pcm)) if name == "wav" else b"") + pcm
    import soundfile

    wanted = min((own for own in form.rates if own >= rate), default=max(form.rates, default=rate))
    pcm = pcm if not form.rates or wanted == rate else at_rate(pcm, rate, wanted)
    file: Any = io.BytesIO()
    soundfile.write(
        file, np.frombuffer(pcm, "<i2"), wanted if form.rates else rate, format=form.container, subtype=form.coding
    )
    found: bytes = file.getvalue()
    return found


def at_rate(pcm: bytes | bytearray, rate: int, wanted: int) -> bytes:
    """16-bit samples at another rate."""
    return as_pcm(resample(np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768), rate, wanted))
