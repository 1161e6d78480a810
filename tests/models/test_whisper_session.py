"""Decoding with caches, against the decoder that reads the whole text at once."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ModelError
from pyapp.models.whisper import Whisper
from tests.models.test_whisper import make
from tests.models.whisper_model import CONFIGS, DEEP, inputs

TEXT = [3, 7, 1, 40, 22, 9, 9, 0, 31]


def encoded(model: Whisper, seed: int = 1) -> pyapp.Tensor:
    mel, _ = inputs(model.config, seed)
    with pyapp.no_grad():
        return model.encode(pyapp.from_numpy(mel[:1]))


def whole(model: Whisper, tokens: list[int], audio: pyapp.Tensor) -> np.ndarray:
    with pyapp.no_grad():
        return model.decode(pyapp.tensor([tokens], dtype=pyapp.int32), audio).numpy()[0]


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_read_one_by_one_and_all_at_once_agree(name: str, rows: int, eager: bool) -> None:
    model = make(CONFIGS[name])
    audio = encoded(model)
    expected = whole(model, TEXT, audio)
    with model.new_session(audio, rows, eager=eager) as session:
        np.testing.assert_allclose(session.feed(TEXT[:4]), expected[:4], atol=5e-5)
        for position, token in enumerate(TEXT[4:], 4):
            logits = session.step([token] * rows)
            assert logits.shape == (rows, model.config.n_vocab)
            np.testing.assert_allclose(logits, np.repeat(expected[position : position + 1], rows, 0), atol=5e-5)
        assert session.position == len(TEXT)


@pytest.mark.parametrize("dtype", ["float16", "q8_0"])
def test_weights_of_fewer_bits_decode_through_the_graph_as_without(dtype: str) -> None:
    model = make(DEEP if dtype == "float16" else CONFIGS["small"], dtype)
    audio = encoded(model)
    found = []
    for eager in (False, True):
        with model.new_session(audio, 2, eager=eager) as session:
            session.feed(TEXT[:2])
            found.append([session.step([token, token]).copy() for token in TEXT[2:]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_int8_models_keep_the_audio_in_int8() -> None:
    """Near the same model in float32; other windows and rows are heard, and word times see exact keys."""
    exact, model = make(CONFIGS["small"]), make(CONFIGS["small"], "q8_0")
    for seed in (1, 2):
        mel = pyapp.from_numpy(inputs(model.config, seed)[0][:1])
        with pyapp.no_grad():
            audio, expected = model.encode(mel), exact.encode(mel)
        assert relative_error(audio.numpy(), expected.numpy()) < 0.03
        with model.new_session(audio, 3) as session:
            assert all(isinstance(cache, nn.Int8CrossCache) for cache in session.memory.layers)
            session.feed(TEXT[:2])
            for position, token in enumerate(TEXT[2:], 2):
                found, meant = session.step([token] * 3), whole(exact, TEXT, expected)[position]
                np.testing.assert_array_equal(found[1:], found[:2])
                assert relative_error(found[0], meant) < 0.05
        _, scores = model.cross_attention(TEXT, audio)
        _, meant = exact.cross_attention(TEXT, audio)
        assert relative_error(scores, meant) < 0.05


def test_models_of_other_weights_attend_in_float32() -> None:
    for dtype in (None, "float16"):
        model = make(DEEP, dtype)
        with model.new_session(encoded(model)) as session:
            assert all(isinstance(cache, nn.CrossCache) for cache in session.memory.layers)


def test_rows_go_on_from_what_others_have_read() -> None:
    model = make(DEEP)
    audio = encoded(model)
    texts = [[3, 7, 5, 6], [3, 7, 8, 9], [3, 7, 1, 2]]
    with model.new_session(audio, 3) as session:
        session.feed([3, 7])
        for column in (2, 3):
            session.step([text[column] for text in texts])
        session.reorder([1, 2, 1])
        logits = session.step([10, 11, 12])
    for row, (source, last) in enumerate(((1, 10), (2, 11), (1, 12))):
        np.testing.assert_allclose(logits[row], whole(model, [*texts[source], last], audio)[-1], atol=5e-5)


@pytest.mark.parametrize("order", [[1, 2, 0, 4, 3], [0, 0, 1, 1, 4], [4, 3, 2, 1, 0], [2, 0, 2, 4, 4]])
def test_rows_may_go_on_from_one_another_in_circles(order: list[int]) -> None:
    model = make(DEEP)
    audio = encoded(model)
    texts = [[3, 7, 5, 6], [3, 7, 8, 9], [3, 7, 1, 2], [3, 7, 5, 4], [3, 7, 8, 9]]
    with model.new_session(audio, 5) as session:
        session.feed([3, 7])
        for column in (2, 3):
            session.step([text[column] for text in texts])
        session.reorder(order)
        logits = session.step([10, 11, 12, 13, 14]).copy()
        session.reorder([4, 0, 1, 2, 3])
        later = session.step([20, 21, 22, 23, 24])
    read = [[*texts[source], 10 + row] for row, source in enumerate(order)]
    for row in range(5):
        np.testing.assert_allclose(logits[row], whole(model, read[row], audio)[-1], atol=5e-5)
        text = [*read[(row + 4) % 5], 20 + row]
        np.testing.assert_allclose(later[row], whole(model, text, audio)[-1], atol=5e-5)


def test_the_next_window_finds_caches_and_other_sound() -> None:
    model = make(DEEP)
    for seed in (1, 2, 3):
        audio = encoded(model, seed)
        expected = whole(model, TEXT, audio)
        with model.new_session(audio, 2) as session:
            session.feed(TEXT[:3])
            for position, token in enumerate(TEXT[3:], 3):
                np.testing.assert_allclose(session.step([token] * 2)[1], expected[position], atol=5e-5)


def test_two_sessions_at_once_do_not_mix() -> None:
    model = make(DEEP)
    first, second = encoded(model, 1), encoded(model, 2)
    with model.new_session(first) as a, model.new_session(second) as b:
        a.feed([3])
        b.feed([4])
        np.testing.assert_allclose(a.step([5])[0], whole(model, [3, 5], first)[-1], atol=5e-5)
        np.testing.assert_allclose(b.step([6])[0], whole(model, [4, 6], second)[-1], atol=5e-5)


def test_cross_attention_gives_the_scores_of_all_heads() -> None:
    model = make(DEEP)
    audio = encoded(model)
    logits, scores = model.cross_attention(TEXT, audio)
    np.testing.assert_allclose(logits, whole(model, TEXT, audio), atol=5e-5)
    assert scores.shape == (3, 6, len(TEXT), 30)
    block = model.decoder.blocks[0]  # the first layer's, by hand
    with pyapp.no_grad():
        x = model.decoder.token_embedding(pyapp.tensor([TEXT], dtype=pyapp.int32))
        x = x + model.decoder.positional_embedding.narrow(0, 0, len(TEXT))
        x = block.attn(block.attn_ln(x), x)
        q = block.cross_attn.query(block.cross_attn_ln(x)).numpy()[0].reshape(len(TEXT), 6, 8)
        k = block.cross_attn.keys_and_values(audio)[0].numpy()[0]  # (S, H, D)
    np.testing.assert_allclose(scores[0], np.einsum("thd,shd->hts", q, k) / np.sqrt(8), atol=1e-4)


def test_wrong_use_is_told() -> None:
    model = make(DEEP)
    audio = encoded(model)
    with model.new_session(audio, 2) as session:
        with pytest.raises(ValueError, match="each of the 2 rows"):
            session.step([1])
        with pytest.raises(ValueError, match="at least one token"):
            session.feed([])
        with pytest.raises(ModelError, match="vocabulary of 70"):
            session.feed([70])
        with pytest.raises(ModelError, match="text context of 16"):
            session.feed([1] * 17)
        with pytest.raises(ValueError, match="rows from 0 to 1"):
            session.reorder([0, 2])
    with pytest.raises(ValueError, match="closed"):
        session.feed([1])
    with pytest.raises(ValueError, match="one window"):
        model.new_session(pyapp.zeros(1, 31, 48))


def test_a_converted_model_forgets_its_graphs() -> None:
    model = make(DEEP)
    audio = encoded(model)
    with model.new_session(audio) as session:
        session.feed([3])
        session.step([7])
    with pyapp.no_grad():
        for name, parameter in list(model.named_parameters()):
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, pyapp.nn.Parameter(parameter * 0.5, requires_grad=False))
    expected = whole(model, [3, 7], audio)[-1]
    with model.new_session(audio) as session:
        session.feed([3])
        np.testing.assert_allclose(session.step([7])[0], expected, atol=5e-5)


def test_a_copied_model_begins_without_caches() -> None:
    model = make(DEEP)
    audio = encoded(model)
    expected = model.cross_attention(TEXT, audio)[0]
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin.cross_attention(TEXT, audio)[0], expected)
