"""Makes golden_forecasters/NAME.json, one for each configuration of forecaster_configs.py, with transformers, and those
of Chronos with the package chronos-forecasting (pip install chronos-forecasting):

    PYTHONPATH=. python tests/models/make_golden_forecasters.py [NAME …]

A file has the names and shapes of the parameters, outputs, forecasts beyond the horizon of a pass, and of each
parameter's gradient the product with a fixed vector. The weights are not stored: seeded.py makes them here and in the
tests.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from chronos import ChronosPipeline
from chronos.chronos import ChronosConfig, ChronosModel
from chronos.chronos2 import Chronos2Model, Chronos2Pipeline
from chronos.chronos2.config import Chronos2CoreConfig
from chronos.chronos_bolt import ChronosBoltModelForForecasting, ChronosBoltPipeline

from tests.goldens import write_each
from tests.models.forecaster_configs import CLASSES, CONFIGS, GROUPS, HORIZON, LENGTHS, LEVELS, gaps, series
from tests.models.seeded import direction, picture_weights, rounded
from tests.models.seeded_folders import along, load_seeded

FREQUENCY = 1


def model_of(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """(the model with its drawn weights, its stored parameters by name)."""
    config = dict(CONFIGS[name])
    kind = config.pop("model_type")
    made = transformers.AutoConfig.for_model("t5" if kind.startswith("chronos") else kind, **config)
    classes: Any = ChronosBoltModelForForecasting
    if kind == "chronos2":
        made, classes = Chronos2CoreConfig(**config), Chronos2Model
    elif kind != "chronos_bolt":
        classes = getattr(transformers, CLASSES[kind])
    model, stored = load_seeded(classes(made), picture_weights, lambda key: "inv_timescales" not in key, folder)
    known = {key for key, _ in model.named_parameters(remove_duplicate=False)}
    return model.requires_grad_(True), {key: value for key, value in stored.items() if loaded(key) in known}


def loaded(key: str) -> str:
    """transformers' name of a parameter of a file."""
    return key.replace("mlp.ff0", "mlp.fc1").replace("mlp.ff1", "mlp.fc2")


def predicted(model: Any, past: torch.Tensor) -> Any:
    """What TimesFM names after series (B, T)."""
    kinds = {"freq": [FREQUENCY] * len(past)} if hasattr(model.config, "freq_size") else {}
    return model(list(past), **kinds)


def outputs(model: Any, name: str) -> list[torch.Tensor]:
    """The outputs of whole passes."""
    kind = CONFIGS[name]["model_type"]
    if kind.startswith("timesfm"):
        return [predicted(model, torch.from_numpy(series(2, length))).full_predictions for length in LENGTHS]
    if kind == "chronos":
        ids, tokens = torch.arange(2, 14).reshape(2, 6), torch.tensor([[0, 5, 9], [0, 40, 3]])
        return [model(input_ids=ids, decoder_input_ids=tokens).logits]
    if kind == "chronos_bolt":
        reads = CONFIGS[name]["chronos_config"]["context_length"]
        return [model(torch.from_numpy(series(2, min(length, reads)))).quantile_preds for length in LENGTHS]
    if kind == "chronos2":
        known, future = map(torch.from_numpy, gaps())
        found = [model(torch.from_numpy(series(2, min(length, 24)))).quantile_preds for length in LENGTHS]
        groups = torch.tensor(GROUPS)
        return [
            *found,
            model(known, group_ids=groups, future_covariates=future, num_output_patches=2).quantile_preds,
        ]
    past = torch.from_numpy(series(2 * CONFIGS[name]["num_input_channels"], CONFIGS[name]["context_length"]))
    past = past.reshape(2, -1, past.shape[1]).transpose(1, 2)
    found = model(past)
    parts = found.prediction_outputs
    if CONFIGS[name].get("distribution_output") == "negative_binomial":
        # PatchTSMixer's pass adds the logarithm of the scale to these in place, and its `generate` does so again.
        parts = (parts[0], parts[1] - found.scale.log())
    return [torch.stack(parts) if isinstance(parts, tuple) else parts[None], found.loc, found.scale]


def forecasts(model: Any, name: str) -> list[Any]:
    """Forecasts beyond the horizon, and their quantiles."""
    kind, found = CONFIGS[name]["model_type"], []
    for length in LENGTHS if not kind.startswith("patch") else ():
        past = torch.from_numpy(series(1, length))
        if kind.startswith("timesfm"):  # as TimesFM's own program goes on
            parts = []
            while sum(part.shape[1] for part in parts) < HORIZON:
                named = predicted(model, past)
                parts.append(torch.cat([named.mean_predictions[..., None], named.full_predictions[..., 1:]], 2))
                past = torch.cat([past, named.mean_predictions], 1)
            found.append(torch.cat(parts, 1)[0, :HORIZON])
        elif kind == "chronos":
            config = ChronosConfig(**CONFIGS[name]["chronos_config"])
            pipeline = ChronosPipeline(config.create_tokenizer(), ChronosModel(config, model))
            found.append(pipeline.predict(past[0], HORIZON)[0, 0])
        else:
            pipeline = Chronos2Pipeline(model) if kind == "chronos2" else ChronosBoltPipeline(model)
            past = past[None] if kind == "chronos2" else past
            quantiles, middle = pipeline.predict_quantiles(
                past if kind == "chronos2" else past[0], HORIZON, list(LEVELS)
            )
            found.append(torch.cat([middle[0].reshape(-1, 1), quantiles[0].reshape(-1, len(LEVELS))], 1))
    return [rounded(part.detach()) for part in found]


def golden(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        model, stored = model_of(name, Path(place))
        with torch.no_grad():
            written = forecasts(model, name)
        results = outputs(model, name)
        total = sum(along(part, name) for part in results)
        total.backward()
        grads = {key: value.grad for key, value in model.named_parameters(remove_duplicate=False)}
        parameters = {}
        for key, value in stored.items():
            grad = np.zeros(value.shape) if grads[loaded(key)] is None else grads[loaded(key)].double().numpy()
            parameters[key] = [list(value.shape), *rounded([(grad * direction(key, grad.shape)).sum()])]
    return {"outputs": [rounded(part.detach()) for part in results], "forecasts": written, "parameters": parameters}


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
