"""X-Codec and X-Codec 2 against transformers (make_golden_xcodecs.py): the tensors of its files, codes and sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.codecs import decode_sound, encode_sound
from pyapp.errors import ArgumentError, ModelError
from pyapp.models.loading.codec import load_codec
from tests.models.codec_configs import sound
from tests.models.seeded import shown
from tests.models.small_models import golden_of
from tests.models.voice_folders import drawn, write_folder
from tests.models.xcodec_configs import ACOUSTIC, CONFIGS, LENGTHS, weights


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any, Path]:
    expected = golden_of("golden_xcodecs", request.param)
    folder = write_folder(tmp_path_factory.mktemp("codec"), drawn(expected["tensors"], weights), CONFIGS[request.param])
    told: list[Any] = []
    loaded = load_codec(folder, report=told.append)
    assert not [event for event in told if event.type == "notice"]
    return request.param, expected, loaded, folder


def test_codes_and_samples(case: Any) -> None:
    name, expected, loaded, _ = case
    for length in LENGTHS[name]:
        samples = pyapp.from_numpy(sound(1, length))
        with pyapp.no_grad():
            codes = loaded.model.encode(samples)
            found = loaded.model.decode(codes)
        wanted = expected[str(length)]
        assert codes.chunks[0].tolist() == wanted["codes"]
        np.testing.assert_allclose(shown(found.numpy(), 200), wanted["samples"], rtol=1e-4, atol=1e-4)
    first, books = LENGTHS[name][0], 1 if name == "xcodec2" else 2
    some = encode_sound(loaded, sound(1, first)[0, 0], loaded.model.sample_rate, codebooks=books)
    assert some.chunks[0].tolist() == [expected[str(first)]["codes"][0][:books]]
    assert decode_sound(loaded, some, 300)[0].shape == (1, 300)


HOSTILE: dict[str, tuple[tuple[dict[str, Any], str], ...]] = {
    "hubert": (
        ({"semantic_model_config": {"model_type": "bert"}}, "bert"), ({"codebook_dim": 5}, "codebook_dim"),
        ({"acoustic_model_config": ACOUSTIC | {"downsampling_ratios": [2, 4]}}, "upsampling_ratios"),
        ({"strides": [2, 1]}, "do not fit"), ({"target_bandwidths": []}, "target_bandwidths"),
        ({"channel_ratios": [1, 2]}, "channel_ratios"), ({"target_bandwidths": [0.001]}, "0 codebooks"),
    ),
    "xcodec2": (
        ({"semantic_model_config": {"model_type": "bert"}}, "bert"), ({"quantization_dim": 5}, "the parts make 48"),
        ({"downsampling_ratios": [4, 4]}, "do not fit"), ({"quantization_levels": [1, 4]}, "quantization_levels"),
        ({"quantization_levels": [4096, 4096]}, "quantization_levels"), ({"num_key_value_heads": 1}, "expected 2"),
        ({"hidden_size": 40}, "multiple of 32"), ({"sampling_rate": 8000}, "expected 16000"),
        ({"semantic_model_config": CONFIGS["xcodec2"]["semantic_model_config"] | {"output_hidden_size": 32}}, "output"),
    ),
}  # fmt: skip


@pytest.mark.native_only
def test_refusals(case: Any) -> None:
    name, _, loaded, folder = case
    own = CONFIGS[name]
    for changed, told in HOSTILE[name]:
        (folder / "config.json").write_text(json.dumps({**own, **changed}))
        with pytest.raises(ModelError, match=told):
            load_codec(folder)
    if name == "xcodec2":
        with pytest.raises(ArgumentError, match="codebooks is 1 to 1"):
            loaded.model.encode(pyapp.zeros(1, 1, 400), 2)
        return
    with pytest.raises(ArgumentError, match="less than a moment"):
        loaded.model.encode(pyapp.zeros(1, 1, 5))
