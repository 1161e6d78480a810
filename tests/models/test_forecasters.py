"""Models that forecast series against transformers and Chronos' own package (make_golden_forecasters.py): names,
outputs, gradients, forecasts beyond a pass; drawn paths; folders and the task; series and configurations that are not
possible.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tasks
from pyapp.errors import ArgumentError, ModelError
from pyapp.events import Done, Error, Item, Notice, Progress
from pyapp.formats import write_safetensors
from pyapp.models.chronos import sampled
from pyapp.models.loading.forecasting import TASK, load_forecaster
from pyapp.nn.forecasting import Wanted, drawn
from tests.models.forecaster_configs import CLASSES, CONFIGS, GROUPS, HORIZON, LENGTHS, LEVELS, QUANTISED, gaps, series
from tests.models.seeded import direction, picture_weights
from tests.models.small_models import along, module_for, numbers, parity_case
from tests.together import collect

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden, make, case = parity_case("golden_forecasters", CONFIGS, TASK, picture_weights)
TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def outputs(model: Any, name: str, device: str = "cpu") -> list[pyapp.Tensor]:
    """The outputs of the same inputs as the golden file's."""

    def on(values: Any) -> pyapp.Tensor:
        return pyapp.from_numpy(np.ascontiguousarray(values)).to(device)

    kind = CONFIGS[name]["model_type"]
    if kind.startswith("timesfm"):
        kinds = (1,) if model.frequencies > 1 else ()
        return [model(on(series(2, length)[:, -model.reads :]), *kinds) for length in LENGTHS]
    if kind == "chronos":
        return [model(on(np.arange(2, 14).reshape(2, 6)), on(np.array([[0, 5, 9], [0, 40, 3]])))]
    if kind == "chronos_bolt":
        return [model(on(series(2, min(length, model.reads)))) for length in LENGTHS]
    if kind == "chronos2":
        found = [model(on(series(2, min(length, model.reads)))) for length in LENGTHS]
        known, future = map(on, gaps())
        return [*found, model(known, 2, pyapp.tensor(GROUPS, device=device), future)]
    past = series(2 * model.together, model.reads).reshape(2, model.together, -1).transpose(0, 2, 1)
    found, place, scale = model(on(past))
    return [found.transpose(2, 3), place.transpose(1, 2), scale.transpose(1, 2)]


def run(model: Any, past: np.ndarray, wanted: Wanted) -> tuple[np.ndarray, np.ndarray]:
    steps = model.forecasts(past[:, -model.reads :], wanted)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def write(folder: Path, name: str, **changed: Any) -> Path:
    """The folder of a model, as its library writes it."""
    folder.mkdir(exist_ok=True)
    model, kind = make(name), CONFIGS[name]["model_type"]
    state = {key: value for key, value in model.state_dict().items() if key not in TIED}
    write_safetensors(folder / "model.safetensors", state)
    said = {"model_type": "t5"} if kind.startswith("chronos") else {}
    config = CONFIGS[name] | {"architectures": [CLASSES[kind]]} | said | changed
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def events_of(*given: Any, **options: Any) -> list[Any]:
    return collect(tasks.forecast(*given, **options))


def test_outputs_and_gradients(case: Any) -> None:
    name, expected, model = case
    named = {key: value for key, value in model.named_parameters() if key not in TIED}
    assert {key: list(value.shape) for key, value in named.items()} == {
        key: shape for key, (shape, _) in expected["parameters"].items() if key != "lm_head.weight" or key in named
    }
    model.requires_grad_()
    total = pyapp.zeros(())
    for found, wanted in zip(outputs(model, name), expected["outputs"], strict=True):
        np.testing.assert_allclose(numbers(found).reshape(-1), wanted, **CLOSE)
        total = total + along(found, name)
    total.backward()
    for key, parameter in named.items():
        grad = np.zeros(parameter.shape) if parameter.grad is None else numbers(parameter.grad)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), expected["parameters"][key][1], rtol=3e-3, atol=3e-3, err_msg=key
        )
    model.zero_grad()
    model.requires_grad_(False)


@pytest.mark.parametrize("name", [name for name in CONFIGS if not name.startswith("patch")])
def test_forecasts_beyond_a_pass(name: str) -> None:
    """With one word to choose from, Chronos' paths are all the same, and its package's."""
    model = make(name)
    kind = CONFIGS[name]["model_type"]
    levels = {"chronos_bolt": LEVELS, "chronos2": LEVELS, "chronos": (0.5,)}.get(kind, CONFIGS[name].get("quantiles"))
    wanted = Wanted(HORIZON, tuple(levels), frequency=int(kind == "timesfm"))
    with pyapp.no_grad():
        for length, expected in zip(LENGTHS, golden(name)["forecasts"], strict=True):
            found, quantiles = run(model, series(1, length), wanted)
            assert found.shape == (1, HORIZON)
            if name in ("chronos", "chronos_unscaled"):
                np.testing.assert_allclose(found[0], expected, **CLOSE)
                np.testing.assert_allclose(quantiles[0, :, 0], expected, **CLOSE)
            else:
                both = np.concatenate([found[0, :, None], quantiles[0]], 1)
                np.testing.assert_allclose(both.reshape(-1), expected, **CLOSE)


def test_drawn_words_have_their_probabilities() -> None:
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    generator = np.random.Generator(np.random.Philox(key=3))
    for top_k, top_p, chances in (
        (0, 1.0, [0.5, 0.3, 0.15, 0.05]), (3, 1.0, np.array([0.5, 0.3, 0.15, 0]) / 0.95), (0, 0.6, [0.625, 0.375, 0, 0])
    ):  # fmt: skip
        found = sampled(np.repeat(logits, 20000, 0), top_k, top_p, generator)
        np.testing.assert_allclose(np.bincount(found, minlength=4) / 20000, chances, atol=0.012)


def test_paths_have_the_mean_and_the_deviation_of_their_distribution() -> None:
    generator, count = np.random.Generator(np.random.Philox(key=1)), 40000
    place, scale = np.array([[3.0]]), np.array([[2.0]])
    for kind, parameters, mean, deviation in (
        ("normal", [1.0, 0.5], 5.0, 1.0), ("student_t", [9.0, -1.0, 0.7], 1.0, 1.4 * (9 / 7) ** 0.5),
        ("negative_binomial", [4.0, np.log(1.5)], 4 * 3.0, (4 * 3.0 * 4.0) ** 0.5),
    ):  # fmt: skip
        given = np.reshape(parameters, (-1, 1, 1))
        paths = drawn(kind, given, place, scale, count, generator)
        assert paths.shape == (count, 1, 1)
        np.testing.assert_allclose([paths.mean(), paths.std()], [mean, deviation], rtol=0.03)
    with pytest.raises(ModelError, match="NaN"):
        drawn("normal", np.full((2, 1, 1), np.nan), place, scale, 2, generator)


def test_folders_load_and_forecast(tmp_path: Path) -> None:
    """The task's values are the model's; a seed draws the same again."""
    for name, horizon in (("timesfm", 9), ("chronos", 3), ("chronos_bolt", 8), ("chronos2", 11), ("patchtst_flat", 4)):
        folder = write(tmp_path / name, name)
        loaded = load_forecaster(folder)
        count = loaded.model.together
        past = series(count, 40)
        asked = dict(zip("ab", past.tolist(), strict=False))
        events = events_of(asked, model=str(folder), horizon=horizon, quantiles=[0.5, 0.25] if count == 1 else None)
        items = [event.values for event in events if isinstance(event, Item)]
        levels = (0.25, 0.5) if count == 1 else (0.1, 0.5, 0.9)
        with pyapp.no_grad():
            found, quantiles = run(loaded.model, past, Wanted(horizon, levels))
        assert [entry["name"] for entry in items] == list(asked)
        np.testing.assert_allclose([entry["forecast"] for entry in items], found)
        for number, level in enumerate(levels):
            np.testing.assert_allclose([entry["quantiles"][f"{level:g}"] for entry in items], quantiles[:, :, number])
        told = [event.what for event in events if isinstance(event, Notice)]
        assert told == [f"only the last {loaded.model.reads} values of a are read"]
        steps = [event for event in events if isinstance(event, Progress) and event.what == "forecast"]
        assert steps[-1].done == steps[-1].total == horizon * count
        assert isinstance(events[-1], Done) and events[-1].results == {"count": count, "horizon": horizon}
        again = events_of(asked, model=loaded, horizon=horizon, seed=0)
        assert [e.values["forecast"] for e in again if isinstance(e, Item)] == [entry["forecast"] for entry in items]
    drawn_anew = events_of(asked, model=loaded, horizon=horizon, seed=1)
    assert [e.values["forecast"] for e in drawn_anew if isinstance(e, Item)] != [entry["forecast"] for entry in items]


def test_series_that_cannot_be_forecast() -> None:
    class Loaded:
        name, tokenizer = "small", None

    def error(name: str, given: Any, **options: Any) -> str:
        loaded: Any = Loaded()
        loaded.model = make(name)
        *_, last = events_of(given, model=loaded, **options)
        assert isinstance(last, Error)
        return f"{last.where}: {last.what}"

    for given, options, told in (
        ([1.0, None, 2.0], {}, "series: 0: value 2 is missing"), ([1.0, float("nan")], {}, "value 2 is missing"),
        ({"sales": [1, "two"]}, {}, "series: sales: value 2 is 'two', not a number"),
        ([1.0, float("inf")], {}, "value 2 is inf"), ([10**400], {}, "too large"), ([], {}, "it has 0 values"),
        ("abc", {}, "expected numbers"), ([True, 2], {}, "value 1 is True"), ({}, {}, "at least one"),
        ({"a": 3}, {}, "series: a: 3 is not a list"),
        ([1.0], {"horizon": 0}, "horizon"), ([1.0], {"horizon": 1 << 20}, "horizon"),
        ([1.0], {"quantiles": [1.5]}, "quantiles: 1.5"), ([1.0], {"quantiles": [0.1]}, "from 0.2 to 0.8"),
        ([1.0], {"samples": 5}, "samples"), ([1.0], {"frequency": 3}, "3 kinds"), ([1.0], {"seed": -1}, "seed"),
    ):  # fmt: skip
        assert told in error("timesfm", given, **options), (given, options)
    for given, options, told in (
        (series(2, 15).tolist(), {}, "has 15 values, the model needs 16"), (series(3, 16).tolist(), {}, "3 are given"),
        ([[1.0] * 16, [1.0] * 17], {}, "it has 17 values"),
        (series(2, 16).tolist(), {"horizon": 6}, "5 values at most"),
        (series(2, 16).tolist(), {"quantiles": [0.5]}, "no quantiles"),
        (series(2, 16).tolist(), {"frequency": 1}, "takes none"),
    ):  # fmt: skip
        assert told in error("patchtst", given, **options), options
    with pytest.raises(ArgumentError, match=r"\(B, 16, 2\)"):
        make("patchtst")(pyapp.zeros(1, 16, 3))


def test_a_series_that_does_not_change_is_forecast() -> None:
    for name in ("timesfm", "chronos", "chronos_bolt", "chronos2", "patchtst"):
        model = make(name)
        for value in (0.0, 7.0):
            with pyapp.no_grad():
                found, _ = run(model, np.full((model.together, 16), value, np.float32), Wanted(3))
            assert np.isfinite(found).all() and found.shape == (model.together, 3)


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    wide = {"hidden_size": 32, "intermediate_size": 32} if name == "timesfm" else {"d_model": 32, "d_ff": 32}
    model = make(name, **wide)
    with pyapp.no_grad():
        exact = outputs(model, name)[0].numpy()
        assert nn.quantize(model, "q8_0")
        found = outputs(model, name)[0].numpy()
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


def test_hostile_configurations_are_refused() -> None:
    bins, bolt, ahead = (CONFIGS[name]["chronos_config"] for name in ("chronos", "chronos_bolt", "chronos2"))
    for name, changes in (
        ("timesfm", (
            {"patch_length": 0}, {"patch_length": 3}, {"context_length": 10**9}, {"horizon_length": 10**12},
            {"quantiles": []}, {"quantiles": [0.5, 0.1]}, {"quantiles": "many"}, {"quantiles": [2.0]},
            {"head_dim": 10**8}, {"freq_size": 0}, {"tolerance": 0.0}, {"hidden_size": "wide"},
            {"use_positional_embedding": True, "hidden_size": 13},
        )),
        ("timesfm2_5", (
            {"decode_index": 4}, {"num_key_value_heads": 3}, {"output_quantile_len": 10**12}, {"head_dim": 3},
            {"rope_parameters": {"rope_type": "yarn"}}, {"patch_length": 3}, {"quantiles": [0.5, 0.5]},
        )),
        ("patchtst", (
            {"num_attention_heads": 3}, {"patch_length": 16}, {"patch_stride": 0}, {"context_length": 10**12},
            {"norm_type": "none"}, {"pooling_type": "sum"}, {"share_projection": False}, {"scaling": "most"},
            {"loss": "mae"}, {"loss": "nll", "distribution_output": "cauchy"}, {"d_model": 10**9}, {"d_model": "8"},
            {"activation_function": "magic"}, {"num_input_channels": 10**9}, {"scaling": 3}, {"ffn_dim": -1},
        )),
        ("patchtsmixer", (
            {"mode": "flatten"}, {"prediction_channel_indices": [3]}, {"prediction_channel_indices": [0, 0]},
            {"prediction_channel_indices": []}, {"self_attn": True, "self_attn_heads": 4}, {"num_layers": 10**6},
            {"expansion_factor": 10**6}, {"prediction_length": 10**12},
        )),
        ("chronos", (
            {"d_kv": -1}, *({"chronos_config": bins | change} for change in (
                {"tokenizer_class": "Words"}, {"model_type": "causal"}, {"n_tokens": 61}, {"n_special_tokens": 60},
                {"n_tokens": 10**12}, {"eos_token_id": 5}, {"temperature": 0}, {"top_p": 1.5}, {"top_k": -1},
                {"tokenizer_kwargs": {"low_limit": 3, "high_limit": -3}}, {"tokenizer_kwargs": "wide"},
                {"use_eos_token": 1}, {"context_length": 0}, {"prediction_length": 10**9}, {"num_samples": 10**9},
            )), {"chronos_config": "bins"},
        )),
        ("chronos_bolt", tuple({"chronos_config": bolt | change} for change in (
            {"input_patch_size": 0}, {"input_patch_stride": 5}, {"quantiles": [0.1, 0.9]}, {"quantiles": None},
            {"prediction_length": 10**12}, {"context_length": "long"}, {"use_reg_token": "yes"},
        ))),
        ("chronos2", ({"feed_forward_proj": "gated-gelu"}, {"d_kv": 5}, *(
            {"chronos_config": ahead | change} for change in (
                {"input_patch_size": 0}, {"input_patch_stride": 3}, {"output_patch_size": 16}, {"quantiles": [0.1]},
                {"max_output_patches": 10**9}, {"use_reg_token": False}, {"time_encoding_scale": 0}, {"use_arcsinh": 1},
            )
        ))),
    ):  # fmt: skip
        module = module_for(CONFIGS[name])
        config = module.Config.from_dict(CONFIGS[name])
        assert module.Config.from_dict(config.to_dict()) == config
        for change in changes:
            with pytest.raises(ModelError):
                module.TASKS[TASK](module.Config.from_dict(CONFIGS[name] | change))
                pytest.fail(f"{name}: {change}")


def test_files_of_another_task_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is made for"):
        load_forecaster(write(tmp_path / "a", "patchtst", architectures=["PatchTSTForTokenClassification"]))
    with pytest.raises(ModelError, match="not known for time-series-forecasting"):
        load_forecaster(write(tmp_path / "b", "patchtst", model_type="informer"))
