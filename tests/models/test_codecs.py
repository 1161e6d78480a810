"""Codecs of sound, against transformers (make_golden_codecs.py): names, vectors, codes, samples, chunks, padding, and
gradients; and their files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.codecs import decode_sound, encode_sound
from pyapp.errors import ArgumentError, ModelError
from pyapp.models.loading.codec import TASK, load_codec
from pyapp.nn import functional
from pyapp.nn.audio.sound_codes import Codes
from tests.models.codec_configs import CONFIGS, mask, noise, sound
from tests.models.seeded import codec_weights, direction, shown
from tests.models.small_models import golden_in, numbers, seeded_model
from tests.models.voice_folders import write_folder
from tests.together import fewer_in_browser

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
NOT_READ = ("inited", "initialized", "cluster_size", "embed_avg", "inv_freq")  # the ends of names
golden = golden_in("golden_codecs")


def make(name: str, **changed: Any) -> Any:
    """The model of a configuration, with its seeded weights."""
    return seeded_model(CONFIGS[name] | changed, TASK, codec_weights)


@pytest.fixture(scope="module", params=fewer_in_browser(CONFIGS, 2))
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Any]:
    return golden(request.param), make(request.param)


def test_names_and_shapes(case: Any) -> None:
    expected, model = case
    found = {key: list(value.shape) for key, value in model.state_dict().items()}
    wanted = {key: shape for key, (shape, *_) in expected["parameters"].items()}
    filed = {key.replace(".embed_sum", ".embed"): shape for key, shape in expected["filed"].items()}
    books = {key: shape for key, shape in filed.items() if key.endswith(".embed")}
    assert found == wanted | books


@pytest.mark.parametrize(("run", "padded"), [("small", False), ("large", True)])
def test_codes_and_samples(case: Any, run: str, padded: bool) -> None:
    expected, model = case
    config = model.config
    samples = pyapp.from_numpy(sound(config.audio_channels))
    if hasattr(config, "vq_strides"):
        draw = lambda shape: pyapp.from_numpy(noise(shape))  # noqa: E731
        settings: dict[str, Any] = {"codebooks": None if padded else 1, "noise": draw}
    elif hasattr(config, "n_codebooks") or hasattr(config, "num_quantizers"):
        settings = {"codebooks": None if padded else 1}
    else:
        padding = pyapp.from_numpy(mask(config.audio_channels))
        settings = {"bandwidth": config.target_bandwidths[-1], "mask": padding} if padded else {}
    with pyapp.no_grad():
        codes, found = model(samples, **settings)
    assert [chunk.tolist() for chunk in codes.chunks] == expected[run]["codes"]
    for scale, wanted in zip(codes.scales, expected[run]["scales"], strict=True):
        assert (scale is None) == (wanted is None)
        if scale is not None:
            np.testing.assert_allclose(numbers(scale).reshape(-1), wanted, rtol=1e-5)
    scale = max(1.0, max(map(abs, expected[run]["samples"])))
    np.testing.assert_allclose(shown(numbers(found), 400), expected[run]["samples"], rtol=1e-4, atol=1e-4 * scale)
    assert found.shape == samples.shape


def test_gradients(case: Any) -> None:
    expected, model = case
    model.requires_grad_()
    model.zero_grad()
    chunk = pyapp.from_numpy(sound(model.config.audio_channels))
    if getattr(model.config, "chunk", None):
        chunk = chunk.narrow(2, 0, model.config.chunk[0])
    elif hasattr(model.config, "n_codebooks"):
        chunk = functional.pad(chunk, (0, -chunk.shape[2] % model.config.step))
    elif hasattr(model.config, "vq_strides"):
        chunk = functional.pad(chunk, (0, -chunk.shape[2] % model.config.group))
    vectors = getattr(model, "vectors", model.encoder)(chunk)
    np.testing.assert_allclose(shown(numbers(vectors), 200), expected["vectors"], **CLOSE)
    along = direction("vectors", tuple(vectors.shape)).astype(np.float32)
    (vectors * pyapp.from_numpy(along)).sum().backward()
    levels = hasattr(model.config, "vq_strides")
    chunks = [pyapp.tensor(chunk) for chunk in expected["large"]["codes"][: None if levels else 1]]
    drawn = {"noise": lambda shape: pyapp.from_numpy(noise(shape))} if levels else {}
    samples = model.decode(Codes(tuple(chunks), (None,) * len(chunks)), **drawn)
    along = direction("samples", tuple(samples.shape)).astype(np.float32)
    (samples * pyapp.from_numpy(along)).sum().backward()
    for key, parameter in model.named_parameters():
        if key.endswith(".embed"):  # transformers trains it otherwise
            assert parameter.grad is not None
            continue
        _, total, product = expected["parameters"][key]
        grad = np.zeros(parameter.shape) if parameter.grad is None else numbers(parameter.grad)
        scale = max(1.0, abs(grad).max() * 20)
        found = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        np.testing.assert_allclose(found, [total, product], rtol=5e-3, atol=5e-3 * scale, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


def in_file(expected: dict[str, Any], model: Any, older: bool) -> dict[str, pyapp.Tensor]:
    """The tensors of a file by transformers' names, of today or older: the norms of weights are apart."""
    state, found = dict(model.state_dict()), {}
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    for key, shape in expected["filed"].items():
        owner, _, part = key.rpartition(".parametrizations.weight.")
        if key.endswith("cluster_usage"):
            value = pyapp.full(shape, 2.0)
        elif key.endswith("embed_sum"):
            value = 2 * state[key.removesuffix("_sum")]
        elif key.endswith(NOT_READ):
            value = pyapp.zeros(*shape)
        elif not owner:
            value = state[key]
        else:
            weight = state[f"{owner}.weight"]
            norms = (weight * weight).sum(list(range(1, weight.ndim)), True).sqrt()
            value = norms if part == "original0" else weight * 2
        assert list(value.shape) == shape, key
        for new, old in names.items():
            key = key.replace(new, old) if older else key
        found[key] = value.contiguous()
    return found


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    named = {"architectures": [f"{CONFIGS[name]['model_type'].title()}Model"]}
    return write_folder(folder, state, CONFIGS[name] | named | config)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", fewer_in_browser(CONFIGS, 2))
def test_folders_load(name: str, older: bool, tmp_path: Path) -> None:
    expected, model = golden(name), make(name)
    told: list[Any] = []
    loaded = load_codec(write(tmp_path / "a", name, in_file(expected, model, older)), report=told.append)
    assert not [event for event in told if event.type == "notice"]
    assert loaded.config == model.config.to_dict()
    for (key, value), wanted in zip(loaded.model.state_dict().items(), model.state_dict().values(), strict=True):
        np.testing.assert_allclose(numbers(value), numbers(wanted), rtol=1e-5, atol=1e-7, err_msg=key)


def test_files_of_snac_do_not_name_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "snac", dict(make("snac").state_dict()))
    settings = json.loads((folder / "config.json").read_text())
    del settings["model_type"], settings["architectures"]
    (folder / "config.json").write_text(json.dumps(settings))
    loaded = load_codec(folder)
    codes = encode_sound(loaded, sound(1)[0, 0], 1600)
    assert [chunk.shape[2] for chunk in codes.chunks] == [38, 76, 152]
    assert decode_sound(loaded, codes, 901)[0].shape == (1, 901)


def test_sound_of_any_rate_and_channels(tmp_path: Path) -> None:
    """From samples at another rate to codes and back: as long as before, and the codes of the model's own rate."""
    name = "encodec-chunks"
    model = make(name)
    loaded = load_codec(write(tmp_path / "a", name, dict(model.state_dict())))
    samples = sound(2)[0]  # (2, N)
    codes = encode_sound(loaded, samples, 1600, bandwidth=3.2)
    with pyapp.no_grad():
        wanted = model.encode(pyapp.from_numpy(samples[None]), 3.2)
    assert [chunk.tolist() for chunk in codes.chunks] == [chunk.tolist() for chunk in wanted.chunks]
    found, rate = decode_sound(loaded, codes, samples.shape[1])
    assert rate == 1600 and found.dtype == np.float32 and found.shape == samples.shape
    both = encode_sound(loaded, np.repeat(samples.mean(0)[None], 2, 0), 1600)
    assert encode_sound(loaded, samples.mean(0), 1600).chunks[0].tolist() == both.chunks[0].tolist()
    assert abs(decode_sound(loaded, encode_sound(loaded, samples, 3200))[0].shape[1] - 451) < 32
    for wrong, told in (
        (np.zeros((3, 50)), "channels"),
        (np.zeros(0), "at least one"),
        (np.full(50, np.nan), "finite"),
    ):
        with pytest.raises(ArgumentError, match=told):
            encode_sound(loaded, wrong, 1600)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"upsampling_ratios": [4, -2]}, "upsampling_ratios"), ({"upsampling_ratios": []}, "upsampling_ratios"),
    ({"upsampling_ratios": [2] * 30}, "30 entries"), ({"target_bandwidths": ["x"]}, "target_bandwidths"),
    ({"target_bandwidths": [1e9]}, "target_bandwidths"), ({"num_filters": 1 << 20}, "num_filters"),
    ({"compress": 3}, "compress"), ({"num_residual_layers": 1000}, "num_residual_layers"),
    ({"dilation_growth_rate": 9000, "num_residual_layers": 3}, "dilation"), ({"audio_channels": 5}, "audio_channels"),
    ({"sampling_rate": 3}, "sampling_rate"), ({"norm_type": "batch"}, "norm_type"), ({"pad_mode": "x"}, "pad_mode"),
    ({"codebook_size": 17}, "power of 2"), ({"codebook_size": 1 << 40}, "codebook_size"), ({"overlap": 1.0}, "overlap"),
    ({"codebook_dim": 5}, "codebook_dim"), ({"target_bandwidths": [0.1]}, "0 codebooks"), ({"overlap": 0.5}, "belong"),
    ({"hidden_size": 1 << 30}, "hidden_size"), ({"trim_right_ratio": 3.0}, "trim_right_ratio"),
    ({"chunk_length_s": -1.0, "overlap": 0.1}, "chunk_length_s"), ({"model_type": "xcodec9"}, "'xcodec9' is not known"),
]  # fmt: skip


HOSTILE_DAC: list[tuple[dict[str, Any], str]] = [
    ({"downsampling_ratios": [2, 0]}, "downsampling_ratios"), ({"downsampling_ratios": [2] * 20}, "20 entries"),
    ({"encoder_hidden_size": 1 << 20}, "channels"), ({"decoder_hidden_size": 23}, "multiple of 4"),
    ({"decoder_hidden_size": 1 << 30}, "decoder_hidden_size"), ({"n_codebooks": 1000}, "n_codebooks"),
    ({"codebook_size": 15}, "power of 2"), ({"codebook_dim": 1 << 20}, "codebook_dim"), ({"sampling_rate": 1}, "Hz"),
]  # fmt: skip


HOSTILE_SNAC: list[tuple[dict[str, Any], str]] = [
    ({"encoder_rates": [2, "x"]}, "encoder_rates"), ({"vq_strides": [4, 3]}, "multiple"), ({"vq_strides": []}, "vq"),
    ({"decoder_rates": [3, 3]}, "longer"), ({"latent_dim": 5}, "latent_dim"), ({"decoder_dim": 22}, "multiple of 4"),
    ({"attn_window_size": 4}, "heads"), ({"encoder_dim": 1 << 20}, "hidden_size"), ({"codebook_size": 9}, "power of 2"),
]  # fmt: skip


HOSTILE_MIMI: list[tuple[dict[str, Any], str]] = [
    ({"num_quantizers": 1}, "1 of 1 codebooks"), ({"codebook_dim": 5}, "codebook_dim"), ({"frame_rate": 0.0}, "frame"),
    ({"frame_rate": 200.0}, "stand for 1"), ({"upsample_groups": 5}, "upsample_groups"), ({"head_dim": 3}, "in pairs"),
    ({"num_key_value_heads": 1}, "num_key_value_heads"), ({"max_position_embeddings": 1 << 24, "head_dim": 64}, "many"),
    ({"pad_mode": "x"}, "pad_mode"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        *(("encodec", *one) for one in HOSTILE),
        *(("dac", *one) for one in HOSTILE_DAC),
        *(("snac", *one) for one in HOSTILE_SNAC),
        *(("mimi", *one) for one in HOSTILE_MIMI),
    ],
)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_codec(write(tmp_path, name, {"a": pyapp.ones(1)}, **changed))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    model = make("encodec")
    samples = pyapp.from_numpy(sound(1))
    for wrong, told in (
        (samples[0], "samples are"),
        (samples.expand(2, 2, 901), "samples are"),
        (samples[..., :0], "are"),
    ):
        with pytest.raises(ArgumentError, match=told):
            model.encode(wrong)
    with pytest.raises(ArgumentError, match="bandwidth is one of 0.8, 1.6, 3.2, not 5"):
        model.encode(samples, 5)
    with pytest.raises(ArgumentError, match="mask"):
        model.encode(samples, mask=pyapp.ones(2, 1, 5))
    codes = pyapp.zeros(1, 2, 5, dtype="int64")
    for chunk, told in ((codes + 16, "codes are 0 to 15"), (codes - 1, "codes are 0"), (codes[0], "codes are"),
                        (codes.expand(1, 2, 5).repeat(1, 4, 1), "1 to 4")):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            model.decode(Codes((chunk,), (None,)))
    with pytest.raises(ArgumentError, match="2 chunks"):
        model.decode(Codes((codes, codes), (None, None)))
    with pytest.raises(ArgumentError, match="no codes"):
        model.decode(Codes((), ()))
    for name in ("dac", "snac"):
        with pytest.raises(ArgumentError, match="codebooks is 1 to 3, not 4"):
            make(name).encode(samples, 4)
    levels = [pyapp.zeros(1, 1, count, dtype="int64") for count in (2, 3, 8)]
    for chunks, told in ((levels, "8, 6, 8. moments"), ([levels[0]] * 4, "4 codebooks, expected 3")):
        with pytest.raises(ArgumentError, match=told):
            make("snac").decode(Codes(tuple(chunks), (None,) * len(chunks)))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        load_codec(tmp_path)


def test_sound_in_parts() -> None:
    """What a codec makes part by part is what it makes of all codes at once; odd steps shorten it at its end alone."""
    generator = np.random.default_rng(0)
    for ratios in ([2, 4], [3, 5]):
        model = make("dac", downsampling_ratios=ratios)
        codes = pyapp.tensor(generator.integers(0, 16, (1, 3, 70)))
        with pyapp.no_grad():
            whole = model.decode(Codes((codes,), (None,))).numpy()
            parts = [part.numpy() for part in model.in_windows(Codes((codes,), (None,)), 9)]
        assert len(parts) == 8
        np.testing.assert_allclose(np.concatenate(parts, 2), whole, atol=1e-5)
