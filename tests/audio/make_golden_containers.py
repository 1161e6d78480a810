"""Writes golden_containers.json: half a second of a tone of 440 Hz in files of FFmpeg's kinds.

python -m tests.audio.make_golden_containers      # needs PyAV
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).with_name("golden_containers.json")
KINDS = {"m4a": ("ipod", "aac"), "webm": ("webm", "libopus"), "mkv": ("matroska", "flac"), "aac": ("adts", "aac")}
RATE, SECONDS, PITCH = 16_000, 0.5, 440.0


def tone(rate: int = RATE) -> Any:
    """(samples,) float32."""
    return (0.5 * np.sin(2 * np.pi * PITCH * np.arange(int(SECONDS * rate)) / rate)).astype(np.float32)


def written(form: str, codec: str) -> bytes:
    import av

    sink = io.BytesIO()
    with av.open(sink, "w", format=form) as container:
        stream = container.add_stream(codec, rate=RATE)
        stream.layout = "mono"
        samples = (tone() * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE, 0
        resampler = av.AudioResampler(format=stream.codec_context.format, layout="mono", rate=RATE)
        parts = resampler.resample(frame)
        for part in parts:
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return sink.getvalue()


def without_sound() -> bytes:
    import av

    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")))
        container.mux(stream.encode(None))
    return sink.getvalue()


def main() -> None:
    files = {name: written(*kind) for name, kind in KINDS.items()} | {"silent.mp4": without_sound()}
    OUT.write_text(json.dumps({name: base64.b64encode(data).decode() for name, data in files.items()}) + "\n")
    print({name: len(data) for name, data in files.items()})


if __name__ == "__main__":
    main()
