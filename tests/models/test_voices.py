"""Models that speak, against transformers (make_golden_voices.py): names, hidden states, durations, samples without and
with noise, a batch with padding, and gradients; and their files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, ModelError
from pyapp.models.loading.voice import TASK, load_voice
from tests.models.seeded import direction, shown, voice_weights
from tests.models.small_models import golden_in, numbers, seeded_model
from tests.models.voice_configs import CONFIGS, QUANTISED, SPEAKER, TEXTS, VOCABULARY, noise
from tests.models.voice_folders import write_folder
from tests.together import fewer_in_browser

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
SETTINGS = {"phonemize": False, "pad_token": "_", "language": "eng", "add_blank": True, "normalize": True}
golden = golden_in("golden_voices")


def make(name: str, **changed: Any) -> Any:
    """The model of a configuration, with its seeded weights."""
    return seeded_model(CONFIGS[name] | changed, TASK, voice_weights)


def drawn(shape: tuple[int, ...]) -> pyapp.Tensor:
    return pyapp.from_numpy(noise(shape))


def batch() -> tuple[pyapp.Tensor, pyapp.Tensor]:
    """The texts, and their mask."""
    longest = max(map(len, TEXTS))
    ids = [[*text, *[0] * (longest - len(text))] for text in TEXTS]
    return pyapp.tensor(ids), pyapp.tensor([[int(i < len(text)) for i in range(longest)] for text in TEXTS])


def speaker_of(name: str) -> int | None:
    return SPEAKER if CONFIGS[name].get("num_speakers", 1) > 1 else None


@pytest.fixture(scope="module", params=fewer_in_browser(CONFIGS, 2))
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], Any]:
    return request.param, golden(request.param), make(request.param)


def is_of_training(name: str) -> bool:
    return name.startswith(("posterior_encoder.", "duration_predictor.post_"))


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    found = {key: list(parameter.shape) for key, parameter in model.named_parameters()}
    assert found == {k: shape for k, (shape, *_) in expected["parameters"].items() if not is_of_training(k)}
    assert {*model.state_dict()} == {*found}


def test_what_a_text_sounds_like(case: Any) -> None:
    """Hidden states, means and log-variances of a batch with padding."""
    _, expected, model = case
    with pyapp.no_grad():
        text = model.read(*batch())
    for key in ("hidden", "means", "log_variances"):
        found = numbers(getattr(text, key).transpose(1, 2))
        np.testing.assert_allclose(shown(found, 200), expected[key], **CLOSE, err_msg=key)


@pytest.mark.parametrize("run", ["batch", "noisy", "slow", "quiet"])
def test_durations_and_samples(case: Any, run: str) -> None:
    name, expected, model = case
    expected = expected[run]
    ids, mask = batch() if run == "batch" else (pyapp.tensor([TEXTS[0]]), None)
    speaker = model.speaker(None if run == "quiet" else speaker_of(name))
    config = model.config
    scales = (0.0, 0.0) if run == "quiet" else (config.noise_scale_duration, config.noise_scale)
    with pyapp.no_grad():
        text = model.read(ids, mask)
        durations = model.durations(
            text, drawn((len(ids), 2, ids.shape[1])) * scales[0], speaker, 0.7 if run == "slow" else None
        )
        assert durations == expected["durations"]
        frames, lengths = model.frames(text, durations, lambda shape: drawn(shape) * scales[1], speaker)
        np.testing.assert_allclose(shown(numbers(frames), 200), expected["frames"], **CLOSE)
        assert [count * model.decoder.frame_samples for count in lengths] == expected["lengths"]
        samples = model.decoder(frames, speaker)
        steps = [*model.decoder.in_windows(frames, speaker, window=7)]
    np.testing.assert_allclose(shown(numbers(samples), 400), expected["samples"], **CLOSE)
    parts = [part for part in steps if part is not None]
    assert 1 < len(parts) < len(steps)
    np.testing.assert_allclose(numbers(pyapp.cat(parts, 1)), numbers(samples), atol=2e-6)


def test_forward(case: Any) -> None:
    name, expected, model = case
    with pyapp.no_grad():
        samples, lengths = model(*batch(), speaker_of(name), noise=drawn)
        slow, _ = model(pyapp.tensor([TEXTS[0]]), None, speaker_of(name), 0.7, noise=drawn)
        quiet, _ = model(pyapp.tensor([TEXTS[0]]), noise_scale=0.0, noise_scale_duration=0.0, noise=drawn)
    assert lengths == expected["batch"]["lengths"]
    for found, run in ((samples, "batch"), (slow, "slow"), (quiet, "quiet")):
        np.testing.assert_allclose(shown(numbers(found), 400), expected[run]["samples"], **CLOSE)


def test_gradients(case: Any) -> None:
    _, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    samples, _ = model(pyapp.tensor([TEXTS[0]]), noise_scale=0.0, noise_scale_duration=0.0, noise=drawn)
    np.testing.assert_allclose(shown(numbers(samples), 400), expected["quiet"]["samples"], **CLOSE)
    along = pyapp.from_numpy(direction("samples", tuple(samples.shape)).astype(np.float32))
    (samples * along).sum().backward()
    for key, parameter in model.named_parameters():
        grad = numbers(parameter.grad) if parameter.grad is not None else np.zeros(parameter.shape)
        _, total, product = expected["parameters"][key]
        found = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        scale = max(1.0, abs(grad).max() * 20)
        np.testing.assert_allclose(found, [total, product], rtol=5e-3, atol=5e-3 * scale, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


def in_file(expected: dict[str, Any], model: Any, older: bool) -> dict[str, pyapp.Tensor]:
    """The tensors of a file by transformers' names, of today or older: the norms of weights are apart."""
    state, found = dict(model.state_dict()), {}
    for key, shape in expected["filed"].items():
        owner, _, part = key.rpartition(".parametrizations.weight.")
        if is_of_training(key):
            value = pyapp.zeros(*shape)
        elif not owner:
            value = state[key]
        else:
            weight = state[f"{owner}.weight"]
            norms = (weight * weight).sum(list(range(1, weight.ndim)), True).sqrt()
            value = norms if part == "original0" else weight * (0.5 + norms)  # another length, the same direction
        assert list(value.shape) == shape, key
        for new, old in (
            ("parametrizations.weight.original0", "weight_g"),
            ("parametrizations.weight.original1", "weight_v"),
        ):
            key = key.replace(new, old) if older else key
        found[key] = value.contiguous()
    return found


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    named = {"architectures": ["VitsModel"]}
    return write_folder(folder, state, CONFIGS[name] | named | config, vocab=VOCABULARY, tokenizer_config=SETTINGS)


@pytest.mark.parametrize("kind", fewer_in_browser(["today", "older", "plain", "torch"], 2))
def test_folders_load(case: Any, kind: str, tmp_path: Path) -> None:
    """With today's names of norms, with older ones, without norms, and from a file of torch's."""
    name, expected, model = case
    state = dict(model.state_dict()) if kind == "plain" else in_file(expected, model, kind == "older")
    folder = write(tmp_path / "folder", name, state)
    if kind == "torch":
        (folder / "model.safetensors").unlink()
        pyapp.save(state, folder / "pytorch_model.bin")
    told: list[Any] = []
    loaded = load_voice(folder, report=told.append)
    assert not [event for event in told if event.type == "notice"]
    assert loaded.config == model.config.to_dict() and loaded.speakers == model.config.num_speakers
    for (key, value), wanted in zip(loaded.model.state_dict().items(), model.state_dict().values(), strict=True):
        np.testing.assert_allclose(numbers(value), numbers(wanted), rtol=1e-5, atol=1e-7, err_msg=key)


@pytest.mark.native_only  # its layers are those of the others, and it is large
@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    folder = write(tmp_path, name, dict(model.state_dict()))
    with pyapp.no_grad():
        expected = model.read(*batch())
        for dtype, most in (("q8_0", 0.02), ("q4_0", 0.2)):
            found = load_voice(folder, dtype=dtype).model
            assert any(parameter.dtype.is_quantized for parameter in found.parameters())
            for key in ("hidden", "means"):
                wanted = numbers(getattr(expected, key))
                assert (
                    np.abs(numbers(getattr(found.read(*batch()), key)) - wanted).mean() < most * np.abs(wanted).mean()
                )
            samples, _ = found(*batch(), noise=drawn)
            assert np.isfinite(numbers(samples)).all()


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"upsample_rates": [4, -2]}, "upsample_rates"), ({"upsample_rates": [4]}, "1 entries"),
    ({"upsample_kernel_sizes": [8, 5]}, "5 taps"), ({"upsample_kernel_sizes": [8, "x"]}, "upsample_kernel_sizes"),
    ({"resblock_kernel_sizes": [3, 4]}, "odd"), ({"resblock_dilation_sizes": [[1, 3], 5]}, "resblock_dilation_sizes"),
    ({"resblock_dilation_sizes": [[1]]}, "entries"), ({"resblock_dilation_sizes": [[1]] * 999}, "999"),
    ({"resblock_dilation_sizes": [[1], [1 << 40]]}, "resblock_dilation_sizes"), ({"hidden_size": 1 << 40}, "hidden_"),
    ({"hidden_size": 15}, "divide"), ({"flow_size": 7}, "even"), ({"flow_size": 1 << 20}, "flow_size"),
    ({"depth_separable_channels": 4}, "depth_separable_channels"), ({"upsample_initial_channel": 18}, "multiple of 4"),
    ({"duration_predictor_flow_bins": 5000}, "flow_bins"), ({"duration_predictor_tail_bound": 0.0}, "tail_bound"),
    ({"speaking_rate": 0}, "speaking_rate"), ({"num_speakers": 4}, "speaker_embedding_size is 0"),
    ({"wavenet_dilation_rate": 1 << 14}, "dilation"), ({"prior_encoder_num_flows": 1 << 20}, "prior_encoder_num_flows"),
    ({"window_size": 0}, "window_size"), ({"sampling_rate": 3}, "sampling_rate"), ({"hidden_act": "exec"}, "activ"),
    ({"wavenet_kernel_size": 4}, "odd"), ({"noise_scale": "x"}, "noise_scale"), ({"ffn_dim": 1 << 19}, "ffn_dim"),
    ({"pad_token_id": 12}, "pad_token_id"),
    ({"architectures": ["VitsForSequenceClassification"]}, "made for"),
    ({"model_type": "tacotron2"}, "'tacotron2' is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_voice(write(tmp_path, "vits", {"a": pyapp.ones(1)}, **changed))


def test_what_is_wrong_with_the_files_is_told(tmp_path: Path) -> None:
    folder = write(tmp_path, "vits", dict(make("vits").state_dict()))
    for file, text, told in (
        ("vocab.json", '{"A": 30}', "31 characters, the model has 12"), ("vocab.json", '{"A": "x"}', "number of 'A'"),
    ):  # fmt: skip
        before = (folder / file).read_text()
        (folder / file).write_text(text)
        with pytest.raises(ModelError, match=told):
            load_voice(folder)
        (folder / file).write_text(before)
    for file, told in (("vocab.json", "characters are missing"), ("config.json", "config.json is missing")):
        (folder / file).unlink()
        with pytest.raises(ModelError, match=told):
            load_voice(folder)


def test_wrong_arguments_are_refused() -> None:
    model = make("vits-speakers")
    long = pyapp.zeros(1, 5000, dtype="int64")
    for ids, mask in ((pyapp.tensor([3, 4]), None), (long, None), (pyapp.tensor([[3]]), pyapp.ones(2))):
        with pytest.raises(ArgumentError, match="ids"):
            model(ids, mask)
    with pytest.raises(ArgumentError, match="speakers 0 to 4, not 5"):
        model(pyapp.tensor([[3]]), speaker=5)


def test_durations_that_are_no_numbers_are_refused() -> None:
    """Of weights that were not trained, a text may take for ever."""
    model = make("vits")
    text = model.read(pyapp.tensor([TEXTS[0]]))
    for size in (1e6, float("nan")):
        with pytest.raises(ModelError, match="frames"):
            model.durations(text, drawn((1, 2, 9)) * size + 1e5)
