"""Parakeet against transformers (make_golden_parakeets.py): spectrograms, names, logits, padding, what transducers
write, and gradients; its files, and recordings of any length.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.processors.banks import StandardizedProcessor
from pyapp.audio.transcribe import transcribe_events
from pyapp.errors import ArgumentError, ModelError
from pyapp.events import Done, Segment
from pyapp.models.loading.sound import TASK
from pyapp.models.loading.speech import load_speech_model
from pyapp.models.parakeet import Piece
from pyapp.nn import functional
from pyapp.text.tokenization.spoken_pieces import SpokenPieces
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.models.parakeet_configs import CONFIGS, ENCODER, LABELS, PIECES, SAMPLES, WRITTEN, sounds, weights
from tests.models.seeded import shown
from tests.models.small_models import along, check_gradients, numbers, parity_case, shapes_in, shapes_of
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
BLANK, STEP = 11, 640
PROCESSOR = StandardizedProcessor(8)
golden, make, case = parity_case("golden_parakeets", CONFIGS, TASK, weights)
VOCABULARY = {
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [[piece, -float(i)] for i, piece in enumerate(PIECES)]},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "added_tokens": [
        dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        | {"id": i, "content": piece, "special": True}
        for i, piece in ((0, "<unk>"), (2, "<pad>"))
    ],
}  # fmt: skip
TOKENIZER = SpokenPieces(Tokenizer(VOCABULARY), BLANK)


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    settings = {"feature_extractor": {"feature_size": 8, "sampling_rate": 16000, "hop_length": 160}}
    return write_folder(folder, state, CONFIGS[name] | config, tokenizer=VOCABULARY, processor_config=settings)


def test_logits_pieces_and_gradients(case: Any) -> None:
    name, expected, model = case
    assert shapes_of(model) == shapes_in(expected)
    assert {*model.state_dict()} == {*shapes_of(model), *expected["state"]}
    values, mask = PROCESSOR([sounds(SAMPLES[0])])
    assert mask is None
    model.requires_grad_()
    if name == "ctc":
        logits = model(values)
        scores = logits.log_softmax(-1).transpose(0, 1)  # (T, 1, V)
        lengths = pyapp.tensor([scores.shape[0]]), pyapp.tensor([len(LABELS)])
        loss = functional.ctc_loss(scores, pyapp.tensor([LABELS]), *lengths, blank=BLANK, reduction="sum")
        assert logits[0].argmax(-1).tolist() == expected["numbers"]
    else:
        logits = model(values, pyapp.tensor(WRITTEN, dtype="int32"))
        loss = along(logits, name)
        with pyapp.no_grad():
            pieces = [*model.pieces(model.encode(values)[0])]
        assert [[piece.token, piece.first] for piece in pieces] == expected["pieces"]
        assert all(piece.end - piece.first in ((1,) if name == "rnnt" else (0, 1, 2)) for piece in pieces)
    np.testing.assert_allclose(shown(numbers(logits), 96), expected["logits"], **CLOSE)
    check_gradients(model, loss, expected)


def test_a_batch_with_padding() -> None:
    expected, model = golden("ctc"), make("ctc")
    values, mask = PROCESSOR([sounds(count) for count in SAMPLES])
    np.testing.assert_allclose(shown(numbers(values)), expected["input"], **CLOSE)
    with pyapp.no_grad():
        logits = model(values, mask) * model.encoder.heard(mask)[-1].unsqueeze(-1)
    np.testing.assert_allclose(shown(numbers(logits), 96), expected["padded"], **CLOSE)
    assert [model.encoder.moments(count) for count in (*SAMPLES, 319)] == [12, 8, 0]
    for wrong, mask in ((pyapp.zeros(1, 9, 7), None), (pyapp.zeros(1, 9, 8), pyapp.zeros(1, 8))):
        with pytest.raises(ArgumentError, match="B, F|attention_mask"):
            model(wrong, mask)
    with pytest.raises(ArgumentError, match="frames"):
        PROCESSOR([np.zeros(319, np.float32)])


@pytest.mark.parametrize("name", ["ctc", "tdt"])
def test_folders_load_and_transcribe(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", name, dict(make(name).state_dict()))
    loaded, samples = load_speech_model(folder), sounds(SAMPLES[0])
    loaded.model.encoder.warm_up()
    if name == "ctc":
        numbers = golden(name)["numbers"]
        expected = loaded.tokenizer.decode([n for i, n in enumerate(numbers) if numbers[i - 1 : i] != [n]])
    else:
        expected = loaded.tokenizer.decode([token for token, _ in golden(name)["pieces"]])

    async def run() -> list[Any]:
        return [event async for event in tasks.transcribe(samples, {"word_timestamps": True}, model=loaded)]

    events = asyncio.run(run())
    assert isinstance(events[-1], Done), events
    assert events[-1].results["text"].split() == expected.split() and len(expected.split()) > 3
    [segment] = [event for event in events if isinstance(event, Segment)]
    starts = [word["start"] for word in segment.words or ()]
    assert starts == sorted(starts) and all(0 < word["probability"] <= 1 for word in segment.words or ())
    if name == "tdt":  # 40 ms a moment
        begins = [round(0.04 * first, 3) for token, first in golden(name)["pieces"] if TOKENIZER.begins(token)]
        assert starts == begins


class Reader:
    """Writes the pieces that stand in the samples: one at the beginning of each stretch of moments."""

    device = "cpu"

    def __init__(self) -> None:
        self.config = SimpleNamespace(samples_per_moment=STEP)
        self.encoder = SimpleNamespace(moments=lambda samples: samples // STEP)

    def encode(self, values: Any, mask: Any) -> Any:
        return values[:, ::STEP]  # (1, T)

    def pieces(self, heard: Any, check: Any) -> Any:
        tokens = np.rint(heard.numpy() * 64).astype(int)
        for at, token in enumerate(tokens.tolist()):
            if token != BLANK:
                yield Piece(token, at, at + 1, -0.5)


def test_words_across_windows() -> None:
    """Each piece of a recording of two minutes stands in the text once, in words with their times."""
    generator = np.random.default_rng(1)
    tokens = [BLANK] * 3000
    places = np.sort(generator.choice(3000, 900, replace=False))
    for place in places.tolist():
        tokens[place] = int(generator.choice([3, 4, 5, 6, 7, 8, 9]))
    tokens[places[0]] = 3
    samples = np.repeat(np.float32(tokens) / 64, STEP)
    model = SimpleNamespace(
        name="reader", model=Reader(), tokenizer=TOKENIZER,
        processor=lambda recordings: (pyapp.from_numpy(np.stack(recordings)), None),
    )  # fmt: skip
    events = [*transcribe_events(model, samples, TranscribeOptions.from_dict({"word_timestamps": True}))]
    words = [word for event in events if isinstance(event, Segment) for word in event.words or ()]
    expected: list[tuple[str, float]] = []
    for place in places.tolist():
        piece = PIECES[tokens[place]]
        if piece.startswith("▁"):
            expected.append((piece[1:], round(place * STEP / 16000, 3)))
        else:
            expected[-1] = expected[-1][0] + piece, expected[-1][1]
    assert [(word["word"].strip(), word["start"]) for word in words] == expected
    assert {round(word["probability"], 3) for word in words} == {0.607}


def test_pieces_of_moments() -> None:
    row = [BLANK, 3, 3, BLANK, 4, 4, BLANK, 4, 6, 6, 7]
    found = [(word.text, word.first, word.end, word.tokens) for word in TOKENIZER.words(row, 5)]
    assert found == [("soonon", 6, 13, (3, 4, 4)), ("ta", 13, 16, (6, 7))]
    assert [TOKENIZER.ended(row[:n]) for n in (1, 5, 8, 10, 11)] == [0, 1, 1, 8, 8] and TOKENIZER.vocab_size == 11


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"encoder_config": None}, "encoder_config"), ({"durations": [0, "x"]}, "durations"),
    ({"blank_token_id": 12}, "blank"), ({"decoder_hidden_size": 1 << 20}, "decoder_hidden_size"),
    ({"durations": 3}, "durations"), ({"num_decoder_layers": 1 << 20}, "num_decoder_layers"),
    ({"encoder_config": ENCODER | {"num_attention_heads": 5}}, "divide"),
    ({"encoder_config": ENCODER | {"subsampling_factor": 6}}, "subsampling_factor"),
    ({"encoder_config": ENCODER | {"subsampling_conv_stride": 3}}, "stride"),
    ({"encoder_config": ENCODER | {"conv_kernel_size": 4}}, "conv_kernel_size"),
    ({"encoder_config": ENCODER | {"subsampling_conv_channels": 1 << 20}}, "channels"),
    ({"encoder_config": ENCODER | {"num_mel_bins": 16}}, "makes 8 bins"),
]  # fmt: skip


def test_hostile_configurations(tmp_path: Path) -> None:
    for changed, told in HOSTILE:
        with pytest.raises(ModelError, match=told):
            load_speech_model(write(tmp_path, "tdt", {"a": pyapp.ones(1)}, **changed))
