"""Puts a trained speech model into the site, with sample clips, and its sizes and hashes into pyapp/registry.json.

    pyapp train speech --out-dir runs/speech
    python -m scripts.embed_speech runs/speech

Needs espeak-ng, which speaks the samples.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pyapp.audio import SAMPLE_RATE, write_wav
from pyapp.recipes.speech.scenes import Scene, record
from pyapp.recipes.speech.voices import Voice, speak
from scripts.embedded_files import MODELS, embed

FOLDER = MODELS / "speech"
FILES = ("model.safetensors", "config.json", "tokenizer.json", "generation_config.json", "preprocessor_config.json")
PAUSE = 0.6  # seconds between sentences, and around them

# As pyapp/registry.json lists them.
SAMPLES: dict[str, tuple[Scene, Sequence[tuple[Voice, str]]]] = {
    "station.wav": (
        Scene(),
        [
            (Voice("en-gb", "m3", 150, 45), "Two tickets to Rome, please."),
            (Voice("en-us", "f2", 155, 50), "The train from Berlin arrives at half past eight."),
        ],
    ),
    "weather.wav": (
        Scene(echo=0.3, distance=0.2),
        [
            (Voice("en-us", "Andy", 150, 50), "There will be snow in the west next Friday."),
            (Voice("en-us", "Andy", 150, 50), "The temperature is minus twenty eight degrees."),
        ],
    ),
    "market.wav": (
        Scene(noise=15, slope=1.0),
        [
            (Voice("en-gb-scotland", "f4", 150, 55), "I would like eight bottles of water."),
            (Voice("en-gb-scotland", "f4", 150, 55), "How much is the yellow ticket?"),
            (Voice("en-gb", "m1", 150, 40), "Five dollars and ninety six cents."),
        ],
    ),
}


def write_samples(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (scene, parts) in SAMPLES.items():
        silence = np.zeros(int(PAUSE * SAMPLE_RATE), np.float32)
        pieces = [silence]
        for voice, text in parts:
            pieces += [speak(text, voice), silence]
        random = np.random.Generator(np.random.PCG64(len(name)))
        write_wav(folder / name, record(np.concatenate(pieces), scene, random), SAMPLE_RATE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained speech model into the site.")
    parser.add_argument("folder", type=Path, help="what `pyapp train speech` wrote")
    source: Path = parser.parse_args().folder
    embed(source, FOLDER, FILES)
    write_samples(FOLDER / "samples")
    total = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"{FOLDER}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
