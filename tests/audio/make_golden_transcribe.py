"""Writes golden_transcribe.json: openai-whisper's results for transcribe_cases.py.

Run: python -m tests.audio.make_golden_transcribe (needs openai-whisper and torch).
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch

from pyapp.text.languages import language_code
from tests.goldens import write_rows

from .openai_whisper import SmallWhisper, build, transcribe
from .speech_model import Shape, sound
from .transcribe_cases import CASES

TARGET = Path(__file__).with_name("golden_transcribe.json")


@cache
def model_of(shape: Shape) -> SmallWhisper:
    return build(shape)


def compact(result: dict[str, Any]) -> dict[str, Any]:
    """[language, segments], which the tokens do not contain."""
    segments = []
    for found in result["segments"]:
        entry = [found["seek"], round(found["start"], 4), round(found["end"], 4), found["tokens"], found["temperature"]]
        entry += [round(found[name], 5) for name in ("avg_logprob", "compression_ratio", "no_speech_prob")]
        if "words" in found:
            names = ("start", "end", "probability")
            entry.append([[word["word"], *(round(float(word[name]), 4) for name in names)] for word in found["words"]])
        segments.append(entry)
    return {"language": language_code(result["language"]), "segments": segments}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    golden = {}
    for case in CASES:
        began = time.perf_counter()
        found = transcribe(model_of(case.shape), sound(case.seconds, case.sound), **case.settings)
        golden[case.name] = compact(found)
        print(f"{time.perf_counter() - began:6.1f} s {len(found['segments']):3} segments  {case.name}", flush=True)
    write_rows(TARGET, golden, separators=(",", ":"))
    print(f"{TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
