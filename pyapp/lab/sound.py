"""A player of sound below a cell."""

from __future__ import annotations

import base64
from typing import Any

from pyapp.audio.wav import RATES, as_pcm, wav_head
from pyapp.engine.lazy import np

from .output import show

LONGEST = 600  # seconds


def sound(samples: Any, rate: int, caption: str = "") -> None:
    """Shows a player of samples: a tensor or an array of floats (N,) from -1 to 1, `rate` of them a second; what is
    beyond is clipped. ValueError for another shape or rate, for NaN, and for more than ten minutes.
    """
    array = np.asarray(samples.detach().cpu().numpy() if hasattr(samples, "detach") else samples)
    if array.ndim != 1 or array.dtype.kind != "f" or not array.size:
        raise ValueError(f"sound: the samples are floats (N,), not {array.dtype} {array.shape}")
    if rate not in RATES:
        raise ValueError(f"sound: the rate is {RATES[0]} to {RATES[-1]:,} samples a second, not {rate!r:.40}")
    if not np.isfinite(array).all():
        raise ValueError("sound: the samples must be finite numbers")
    seconds = array.size / rate
    if seconds > LONGEST:
        raise ValueError(f"sound: {seconds:,.0f} seconds are too long; the limit is {LONGEST}")
    pcm = as_pcm(array)
    wav = base64.b64encode(wav_head(rate, 1, len(pcm)) + pcm).decode("ascii")
    text = f"[sound, {seconds:.1f} s{': ' + caption if caption else ''}]"
    show({"kind": "sound", "wav": wav, "caption": caption}, text)
