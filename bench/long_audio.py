"""python -m bench.long_audio [--minutes 2 30 120] [--model NAME] [--recording FILE.wav] [--beam-size 5]

How much memory long recordings need: each length in a process of its own, whose largest resident size is printed. The
recording is a WAVE file that exists only while it is read: a short one again and again. Without --model the pipeline
runs with a stand-in for the model that takes no time, so that the figure is what reading, spectrograms, decoding and
the transcript need.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy's BLAS reads it

import numpy as np

from pyapp.audio import load_speech
from pyapp.formats.source import check_range

RATE = 16_000


class Repeated:
    """A ByteSource: a WAVE file of `seconds` that says `samples` again and again."""

    def __init__(self, samples: np.ndarray, seconds: float) -> None:
        self.name = "repeated.wav"
        self._part = np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()
        length = round(seconds * RATE) * 2
        form = struct.pack("<HHIIHH", 1, 1, RATE, RATE * 2, 2, 16)
        self._head = b"RIFF" + struct.pack("<I", 36 + length) + b"WAVEfmt " + struct.pack("<I", 16) + form
        self._head += b"data" + struct.pack("<I", length)
        self.size = len(self._head) + length

    def read(self, offset: int, length: int) -> bytes:
        check_range(self, offset, length)
        found = bytearray(self._head[offset : offset + length])
        while len(found) < length:
            at = (offset + len(found) - len(self._head)) % len(self._part)
            found += self._part[at : at + length - len(found)]
        return bytes(found)


def measure(minutes: float, model: str | None, recording: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """Transcribes, in this process; the result as JSON values."""
    import resource

    from pyapp import tasks
    from tests.audio import listening_parrot

    part = load_speech(recording) if recording else listening_parrot.counting(1, 2, 3)
    source = Repeated(part, minutes * 60)

    async def run() -> tuple[int, dict[str, Any]]:
        loaded = model if model else listening_parrot.load()
        segments, last = 0, {}
        async for event in tasks.transcribe(source, options, model=loaded):
            segments += event.type == "segment"
            if event.type == "error":
                raise SystemExit(f"{event}")
            if event.type == "done":
                last = event.to_dict()
        return segments, last

    began = time.perf_counter()
    segments, done = asyncio.run(run())
    seconds = time.perf_counter() - began
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "minutes": minutes, "model": model or "none", "seconds": round(seconds, 1), "segments": segments,
        "speed": round(done["duration"] / seconds, 1), "largest_resident_MB": round(largest / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs="+", default=[2, 30, 120])
    parser.add_argument("--model", help="a name, a folder or a file")
    parser.add_argument("--recording", type=Path, help="what is said again and again")
    parser.add_argument("--beam-size", type=int, help="default: greedy")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        options = {"beam_size": arguments.beam_size, "language": "en"}
        print(json.dumps(measure(arguments.minutes[0], arguments.model, arguments.recording, options)))
        return
    for minutes in arguments.minutes:
        command = [sys.executable, "-m", "bench.long_audio", "--here", "--minutes", str(minutes)]
        for name, value in (("--model", arguments.model), ("--recording", arguments.recording)):
            command += [name, str(value)] if value else []
        command += ["--beam-size", str(arguments.beam_size)] if arguments.beam_size else []
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
