"""The embedded speech model in whisper.cpp's quantised types: what it hears, and how far its logits move."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import open_audio
from pyapp.audio.mel import log_mel_spectrogram
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import transcribe_events
from pyapp.events import Segment
from pyapp.formats import open_checkpoint, quantize_blocks
from pyapp.models import load_speech_model
from pyapp.models.whisper.files import build_whisper
from pyapp.models.whisper.weights import unfused

pytestmark = pytest.mark.native_only  # reads the embedded model's files

FOLDER = Path(__file__).resolve().parents[2] / "web" / "models" / "speech"
OPTIONS = TranscribeOptions(language="en", temperature=0.0)
# The largest distance of logits from those of float32, in standard deviations of the logits, and words that may differ.
LOGIT_LIMITS = {"float16": 0.001, "q8_0": 0.02, "q5_1": 0.12, "q5_0": 0.12}
WORD_LIMITS = {"q5_1": 1, "q5_0": 1}
TYPES = {"float16": (1, 1), "q8_0": (8, 7), "q5_1": (7, 9), "q5_0": (6, 8)}  # GGML's number, whisper.cpp's of the file


@cache
def exact() -> Any:
    return load_speech_model("speech", dtype="float32")


def sample(name: str) -> np.ndarray:
    """The samples of a recording that comes with the model."""
    return np.concatenate(list(open_audio(str(FOLDER / "samples" / f"{name}.wav"))))


def ggml_bytes(dtype: str) -> bytes:
    """The embedded model as whisper.cpp's convert-pt-to-ggml.py and quantize write it."""
    code, file_type = TYPES[dtype]
    model = exact().model
    c = model.config
    numbers = [c.n_vocab, c.n_audio_ctx, c.n_audio_state, c.n_audio_head, c.n_audio_layer, c.n_text_ctx,
               c.n_text_state, c.n_text_head, c.n_text_layer, c.n_mels, file_type]  # fmt: skip
    parts = [struct.pack("<12i", 0x67676D6C, *numbers), struct.pack("<2i", c.n_mels, 201), bytes(4 * c.n_mels * 201)]
    parts += [struct.pack("<i", 1), struct.pack("<i", 1), b"a"]  # the vocabulary: tokenizer.json is given too
    for name, tensor in unfused(model):
        value = tensor.numpy().astype("f4")
        kind, data = 0, value.tobytes()
        if value.ndim == 2 and "positional" not in name:
            packed = value.astype("f2") if dtype == "float16" else quantize_blocks(value, dtype).data
            kind, data = code, bytes(packed)
        shape = value.shape[::-1]
        parts.append(struct.pack(f"<{3 + len(shape)}i", len(shape), len(name), kind, *shape) + name.encode() + data)
    return b"".join(parts)


def loaded(dtype: str) -> Any:
    """The model with the file's types: load_speech_model would make so small a model float32."""
    with open_checkpoint(ggml_bytes(dtype)) as checkpoint:
        model = build_whisper(checkpoint)
    assert {str(block.mlp.up.weight.dtype) for block in model.decoder.blocks} == {f"pyapp.{dtype}"}
    model.alignment_heads = exact().model.alignment_heads
    return replace(exact(), model=model)


def words(model: Any, name: str) -> list[str]:
    """What a model hears."""
    segments = [event for event in transcribe_events(model, sample(name), OPTIONS) if isinstance(event, Segment)]
    return "".join(segment.text for segment in segments).split()


def logits(model: Any, tokens: list[int]) -> np.ndarray:
    """Of every token of a text, heard in a window of 30 s: (tokens, vocabulary)."""
    mel = log_mel_spectrogram(sample("station"), padding=30 * 16000)[:, : 2 * model.model.config.n_audio_ctx]
    with pyapp.no_grad():
        found: np.ndarray = model.model(pyapp.from_numpy(mel[None]), pyapp.tensor([tokens], dtype="int32")).numpy()[0]
    return found


def errors(found: list[str], expected: list[str]) -> int:
    """Words to replace, leave out or put in: the edit distance."""
    row = list(range(len(expected) + 1))
    for i, word in enumerate(found, 1):
        last, row[0] = row[0], i
        for k, other in enumerate(expected, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (word != other))
    return row[-1]


@pytest.mark.parametrize("dtype", LOGIT_LIMITS)
def test_quantised_files_hear_the_same_words(dtype: str) -> None:
    model = loaded(dtype)
    expected = words(exact(), "station")
    assert len(expected) > 10 and errors(words(model, "station"), expected) <= WORD_LIMITS.get(dtype, 0)
    tokens = exact().tokenizer.encode(" ".join(expected))
    right, found = logits(exact(), tokens), logits(model, tokens)
    moved = float(np.sqrt(np.mean((found - right) ** 2)) / right.std())
    assert moved <= LOGIT_LIMITS[dtype]
