"""openai-whisper on the small models of speech_model.py, with the engine's random numbers, to compare with.

Needs openai-whisper and torch.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tiktoken
import torch
import whisper.decoding
import whisper.tokenizer
from whisper.model import ModelDimensions, Whisper

from pyapp.audio.decoding import draw_token
from pyapp.text.generation.sampling import Uniform

from .speech_model import Shape, pieces, sound

PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


class SmallWhisper(Whisper):
    """openai's class finds its languages by the size of the vocabulary, which is smaller here."""

    shape: Shape

    @property
    def is_multilingual(self) -> bool:
        return self.shape.multilingual

    @property
    def num_languages(self) -> int:
        return self.shape.languages


def build(shape: Shape) -> SmallWhisper:
    model = SmallWhisper(ModelDimensions(**shape.config()))
    model.shape = shape
    values = {name: torch.from_numpy(value) for name, value in shape.weights().items()}
    missing, unexpected = model.load_state_dict(values, strict=False)
    assert missing == ["encoder.positional_embedding"] and not unexpected
    return model.eval()


@cache
def small_encoding(name: str = "", num_languages: int = 99) -> tiktoken.Encoding:
    """Our vocabulary in openai's library."""
    ranks = {piece: rank for rank, piece in enumerate(pieces())}
    from pyapp.text.tokenization.whisper_tokenizer import special_tokens

    specials = special_tokens(len(ranks), num_languages)
    return tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)


class SharedDraw:
    """Replaces torch's Categorical: draws as the engine does, from the same random numbers."""

    uniform: Uniform

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits.numpy()

    def sample(self) -> torch.Tensor:
        return torch.tensor([draw_token(row, 1.0, self.uniform.draw()) for row in self._logits])


@contextmanager
def patched(real_vocabulary: bool, seed: int) -> Iterator[None]:
    SharedDraw.uniform = Uniform(seed)
    with mock.patch.object(whisper.decoding, "Categorical", SharedDraw):
        if real_vocabulary:
            yield
            return
        whisper.tokenizer.get_tokenizer.cache_clear()
        with mock.patch.object(whisper.tokenizer, "get_encoding", small_encoding):
            yield
        whisper.tokenizer.get_tokenizer.cache_clear()


def transcribe(model: Any, audio: np.ndarray, real_vocabulary: bool = False, seed: int = 0, **options: Any) -> Any:
    """openai's result."""
    with patched(real_vocabulary, seed), torch.no_grad():
        return model.transcribe(audio, fp16=False, **options)


ENGLISH = ("language", "task")  # not for models that only know it
LIVE = (
    {"language": "ja", "word_timestamps": True},
    {"beam_size": 3, "patience": 1.5, "task": "translate", "clip_timestamps": "2,31"},
    {"temperature": (0.0, 0.5), "best_of": 2, "initial_prompt": "Hello, world. Grüße!"},
)


def real_shape(name: str, languages: int, mels: int) -> Shape:
    """A model for one of openai-whisper's own vocabularies."""
    lines = (Path(whisper.tokenizer.__file__).parent / f"assets/{name}.tiktoken").read_text().split("\n")
    vocabulary = tuple(base64.b64decode(line.split()[0]) for line in lines if line)
    return Shape(
        name, multilingual=name == "multilingual", languages=languages, n_mels=mels, vocabulary=vocabulary, byte=0.0,
        time=7.0, end=4.0, n_text_ctx=60,
    )  # fmt: skip


def compare_live(shape: Shape, loaded: Any, ours: Any, compare: Any) -> None:
    """Every setting of LIVE, with both programs."""
    from .make_golden_transcribe import compact

    model, audio = build(shape), sound(40.0, 4)
    for settings in LIVE:
        options = {name: value for name, value in settings.items() if shape.multilingual or name not in ENGLISH}
        options = {"temperature": 0.0, **options}
        theirs = transcribe(model, audio, real_vocabulary=True, **options)
        compare(ours(loaded, audio, **options), compact(theirs), loaded.tokenizer.decode)
        assert theirs["segments"]
