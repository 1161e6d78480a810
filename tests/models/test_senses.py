"""Language models that see and hear, against transformers (make_golden_senses.py): names, logits of texts with pictures
and recordings, and the tokens that they write; their files, conversations and transcription.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.processors.spectrograms import LongSpectrogramProcessor
from pyapp.errors import ModelError
from pyapp.events import Done, Segment
from pyapp.formats import write_safetensors
from pyapp.models import _index, load_model
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn.vision_language.picture_text import Seen, grid_positions
from pyapp.text.generation.options import SamplingOptions
from tests.models.seeded import picture, shown, sound_weights
from tests.models.sense_configs import (
    CONFIGS,
    FPS,
    GRID,
    PICTURE,
    QUANTISED,
    SAMPLES,
    SETTINGS,
    SOUND,
    TIMES,
    VIDEO,
    heard,
    mixed,
    watched,
)
from tests.models.small_models import golden_in, numbers
from tests.models.sound_configs import recording
from tests.models.test_sound_texts import run, tekken

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
TOKENS = {
    "qwen2_5_omni_thinker": (
        "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|IMAGE|>", "<|vision_bos|>", "<|vision_eos|>",
    ),
    "qwen3_omni_moe_thinker": (
        "<|audio_pad|>", "<|audio_start|>", "<|audio_end|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>",
    ),
}  # fmt: skip
TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.content is string %}\
{{ message.content }}{% else %}{% for part in message.content %}{% if part.type == 'audio' %}AUDIO{% elif part.type == \
'image' %}PICTURE{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{{ '<|im_start|>assistant\n' }}"""
golden = golden_in("golden_senses")


def module_of(name: str) -> Any:
    return importlib.import_module(f"pyapp.models.{_index.MODEL_TYPES[name]}")


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them, and a tokenizer."""
    folder.mkdir(exist_ok=True)
    tensors = golden(name)["parameters"].items()
    write_safetensors(
        folder / "model.safetensors",
        {key: pyapp.from_numpy(sound_weights(key, tuple(shape))) for key, shape in tensors},
    )
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | config))
    pictures = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 4, "merge_size": 2, "min_pixels": 64,
                "max_pixels": 4096, "temporal_patch_size": 2}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS | pictures))
    sound, opens, closes, seen, above, below = TOKENS[name]
    special = {sound: SOUND, opens: 25, closes: 26, seen: PICTURE, above: 27, below: 28, "<|im_start|>": 3,
               "<|im_end|>": 4, "</s>": 2}  # fmt: skip
    (folder / "tekken.json").write_text(json.dumps(tekken(special)))
    template = TEMPLATE.replace("AUDIO", opens + sound + closes).replace("PICTURE", above + seen + below)
    (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = write(tmp_path_factory.mktemp("model"), request.param)
    return request.param, load_model(folder), folder


def sounds(*counts: int) -> tuple[pyapp.Tensor, list[tuple[int, int]]]:
    """The spectrograms of recordings, zeros after the shorter ones, and their sizes."""
    processor = LongSpectrogramProcessor.from_settings(SETTINGS)
    found = [processor(recording(count)) for count in counts]
    longest = max(part.shape[2] for part in found)
    padded = [pyapp.nn.functional.pad(part, (0, longest - part.shape[2])) for part in found]
    return pyapp.cat(padded), [processor.size(count) for count in counts]


def test_logits_and_tokens_are_those_of_transformers(case: Any) -> None:
    name, loaded, _ = case
    model, expected, row = loaded.model, golden(name), mixed(name)
    places = [i for i, token in enumerate(row) if token in (SOUND, PICTURE)]
    with pyapp.no_grad():
        vectors = model.ears.vectors_of(*sounds(*SAMPLES))
        seen = model.vectors_of(pyapp.from_numpy(picture(1, *(8 * side for side in GRID))), None)
        wide = seen.shape[1] - vectors.shape[1]  # columns of what a tower gives to the first layers
        vectors = pyapp.nn.functional.pad(vectors, (0, wide))
        first = model.ears.tokens_in(0, 0, sounds(*SAMPLES)[1][0])
        features = pyapp.cat([vectors[:first], seen, vectors[first:]])
        positions = grid_positions(len(row), [(row.index(PICTURE), *GRID)])
        cache, at = model.new_cache(len(row) + 30), pyapp.tensor([0], dtype="int32")
        what = Seen(features, places, rotary_positions=positions)
        logits = model.forward_cached(pyapp.tensor(row, dtype="int32"), at, cache, False, what)
        np.testing.assert_allclose(shown(numbers(logits), 96), expected["logits"], **CLOSE)
        found: list[int] = []
        for place in range(len(row), len(row) + 24):
            found.append(int(logits[-1].argmax()))
            at = pyapp.tensor([place], dtype="int32")
            logits = model.forward_cached(pyapp.tensor(found[-1:], dtype="int32"), at, cache)
        assert found == expected["tokens"]
        ids = pyapp.tensor(heard(name), dtype="int32")
        both = model.ears(ids, ids != 0, *sounds(*SAMPLES)) * (ids != 0).unsqueeze(-1)
    np.testing.assert_allclose(shown(numbers(both), 96), expected["heard"], **CLOSE)


def test_videos_are_seen_as_by_transformers(case: Any) -> None:
    name, loaded, _ = case
    model, row = loaded.model, watched()
    frames = pyapp.from_numpy(picture(2 * TIMES, *(8 * side for side in GRID)))
    with pyapp.no_grad():
        seen = model.vectors_of(frames.reshape(TIMES, 2, *frames.shape[1:]), None)
        start = row.index(VIDEO)
        times = model.watcher.times(TIMES, FPS)
        positions = grid_positions(len(row), [(start, *GRID, times)])
        assert times == [0, 25, 50] and positions[0] == (-6,) * 3
        what = Seen(seen, range(start, start + len(seen)), rotary_positions=positions)
        at = pyapp.tensor([0], dtype="int32")
        logits = model.forward_cached(pyapp.tensor(row, dtype="int32"), at, model.new_cache(len(row)), False, what)
    np.testing.assert_allclose(shown(numbers(logits), 96), golden(name)["watched"], **CLOSE)


def test_conversations_and_transcription(case: Any) -> None:
    """A conversation has both, in the order of its parts; what is written is what follows in the model itself."""
    pytest.importorskip("jinja2")
    name, loaded, folder = case
    samples = recording(SAMPLES[1])
    pixels = pyapp.tensor(np.arange(24 * 40 * 3).reshape(24, 40, 3) % 251, dtype="uint8")
    parts = [{"type": "image", "image": pixels}, {"type": "text", "text": "on"}, {"type": "audio", "audio": samples}]
    options = SamplingOptions(temperature=0.0, max_new_tokens=5)

    def written(content: list[Any]) -> list[int]:
        events = asyncio.run(run(tasks.chat(loaded, [{"role": "user", "content": content}], options)))
        assert isinstance(events[-1], Done), events[-1]
        return [event.id for event in events if event.type == "token" and event.id is not None]

    model, words = loaded.model, loaded.tokenizer
    with pyapp.no_grad():
        ears = model.ears.vectors_of(loaded.hearing(samples), [loaded.hearing.size(len(samples))])
        eyes = model.vectors_of(loaded.processor([pixels], "cpu").pixel_values, None)
    ears = pyapp.nn.functional.pad(ears, (0, eyes.shape[1] - ears.shape[1]))
    user, end, assistant = (words.encode(text, bos=False) for text in ("user\n", "\n", "assistant\n"))
    for given, middle in (
        (parts, [27, *[PICTURE] * 15, 28, *words.encode("on", bos=False), 25, *[SOUND] * len(ears), 26]),
        (parts[::-1], [25, *[SOUND] * len(ears), 26, *words.encode("on", bos=False), 27, *[PICTURE] * 15, 28]),
    ):
        row = [3, *user, *middle, 4, *end, 3, *assistant]
        places = [i for i, token in enumerate(row) if token in (SOUND, PICTURE)]
        features = pyapp.cat([eyes, ears] if given is parts else [ears, eyes])
        start = len(row)
        while len(row) < start + 5:
            seen = Seen(features, places, rotary_positions=grid_positions(len(row), [(row.index(PICTURE), 3, 5)]))
            with pyapp.no_grad():
                cache = model.new_cache(len(row))
                logits = model.forward_cached(
                    pyapp.tensor(row, dtype="int32"), pyapp.tensor([0], dtype="int32"), cache, seen=seen
                )
            row.append(int(logits.reshape(-1).argmax()))
        assert written(given) == row[start:]
    listens = load_speech_model(folder)
    events = asyncio.run(run(tasks.transcribe(samples, {}, model=listens, vad="energy")))
    told = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    asked = [{"type": "audio", "audio": samples}, {"type": "text", "text": "Transcribe the audio into text."}]
    assert told[:5] == written(asked) and isinstance(events[-1], Done)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", name)
    ids = pyapp.tensor(heard(name), dtype="int32")
    found = [load_speech_model(folder, dtype=dtype).model for dtype in (None, "q8_0")]
    assert any(parameter.dtype.is_quantized for parameter in found[1].parameters())
    with pyapp.no_grad():
        expected, other = (numbers(model(ids, ids != 0, *sounds(*SAMPLES))) for model in found)
    assert np.abs(other - expected).mean() < 0.06 * expected.std()


def test_files_with_a_talker_and_hostile_configurations(tmp_path: Path) -> None:
    name = "qwen2_5_omni_thinker"
    config = CONFIGS[name]
    own = {key: value for key, value in config.items() if key != "model_type"}
    module = module_of(name)
    assert module.Config.from_dict({"model_type": "qwen2_5_omni", "thinker_config": own}).vocab_size == 400
    for key, new in (("thinker.audio_tower.proj.bias", "multi_modal_projector.linear.bias"),
                     ("thinker.model.layers.0.mlp.up_proj.weight", "language_model.model.layers.0.mlp.up_proj.weight"),
                     ("thinker.visual.blocks.0.norm1.weight", "vision_tower.blocks.0.norm1.weight"),
                     ("thinker.lm_head.weight", "language_model.lm_head.weight")):  # fmt: skip
        assert module.renamed(key) == new
    audio = config["audio_config"]
    for changed, told in (
        ({"audio_config": audio | {"n_window": 7}}, "n_window is 7"), ({"audio_config": None}, "audio_config"),
        ({"audio_config": audio | {"output_dim": 30}}, "output_dim is 30"), ({"text_config": 3}, "text_config"),
        ({"vision_config": config["vision_config"] | {"out_hidden_size": 30}}, "vectors of 30"),
        ({"image_token_index": -1}, "image_token_id"), ({"audio_token_index": "a"}, "audio_token_index"),
        ({"audio_config": audio | {"n_window": 200}}, "above max_source_positions"), ({"thinker_config": 1}, "thinker"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            module.Config.from_dict(config | changed)
