"""Makes golden_styled_voices/kokoro.json with the package kokoro (which needs loguru and transformers, and no misaki):

    PYTHONPATH=.:FOLDER_OF_KOKORO python tests/models/make_golden_styled_voices.py

The file has the names and shapes of the parameters once the norms of weights are applied, and those of the file's own
names; the durations, the pitch, the loudness and the samples of phonemes at two rates, and of each parameter's gradient
of a sum over the samples the sum and the product with a fixed vector. Numbers of features that the program has in its
text become those of the configuration. The phases of the first window of the source are 0, or π or -π as rounding
decides: they are made π.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.nn.utils import remove_weight_norm

from tests.goldens import write_each
from tests.models.seeded import gradients_of, rounded, shown
from tests.models.seeded_folders import along
from tests.models.styled_voice_configs import CONFIGS, PHONEMES, noise, voice, weights

MARGIN = 2e-3  # between a duration and where rounding changes


def program(config: dict[str, Any]) -> Any:
    """The module kokoro.model with the numbers of a configuration; without the package's other parts."""
    width, text, own = config["decoder_dim"], config["asr_dim"], config["istftnet"]
    changes = {
        "istftnet": [
            (r"\b1024\b", f"{width}"), (r"\+ 64\b", f"+ {text}"),
            (r"Conv1d\(512, 64", f"Conv1d({config['hidden_dim']}, {text}"),
            (r", 512, style_dim", f", {own['upsample_initial_channel']}, style_dim"),
        ],
        "model": [(r":128\]", f":{config['style_dim']}]"), (r"128:\]", f"{config['style_dim']}:]")],
    }  # fmt: skip
    spec = importlib.util.find_spec("kokoro")
    assert spec is not None and spec.submodule_search_locations
    place = Path(spec.submodule_search_locations[0])
    package = types.ModuleType("kokoro")
    package.__path__ = [str(place)]
    other_stft = types.ModuleType("kokoro.custom_stft")  # which needs a package more, and is not used
    other_stft.CustomSTFT = None  # type: ignore[attr-defined]
    sys.modules |= {"kokoro": package, "kokoro.custom_stft": other_stft}
    for name in ("istftnet", "modules", "model"):
        source = (place / f"{name}.py").read_text()
        for old, new in changes.get(name, ()):
            source, count = re.subn(old, new, source)
            assert count, old
        module = types.ModuleType(f"kokoro.{name}")
        sys.modules[f"kokoro.{name}"] = module
        exec(compile(source, name, "exec"), module.__dict__)
    return sys.modules["kokoro.model"]


def model_of(name: str) -> tuple[Any, dict[str, list[int]]]:
    """The model with ordinary weights, and the shapes of its parameters by the names of files."""
    config = CONFIGS[name]
    module = program(config)
    config = {key: value for key, value in config.items() if key not in ("decoder_dim", "asr_dim", "affine_norms")}
    with mock.patch("torch.load", lambda *_, **__: {}):
        model = module.KModel("small", config, "none").eval()
    filed = {key: list(value.shape) for key, value in model.state_dict().items()}
    for part in model.modules():
        if hasattr(part, "weight_g"):
            remove_weight_norm(part)
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(weights(names(key), tuple(tensor.shape))))
    return model, filed


def names(key: str) -> str:
    """The name of a parameter here."""
    return key.replace(".gamma", ".weight").replace(".beta", ".bias")


def run(model: Any, rate: float) -> dict[str, Any]:
    """The samples of the phonemes, and what comes before them."""
    seen: dict[str, Any] = {}
    ids = torch.tensor([[0, *(model.vocab[letter] for letter in PHONEMES), 0]])
    style = torch.from_numpy(voice())[len(PHONEMES) - 1]
    curves, plain, angle = model.predictor.F0Ntrain, torch.round, torch.angle

    def upwards(spectrum: Any) -> Any:
        found = angle(spectrum)
        found[:, :, 0].abs_()
        return found

    def kept(*given: Any) -> Any:
        seen["pitch"], seen["loudness"] = found = curves(*given)
        return found

    def near(x: Any) -> Any:
        if x.ndim == 2:
            assert float((x - x.floor() - 0.5).abs().min()) > MARGIN, "choose other weights"
        return plain(x)

    with (
        mock.patch.object(model.predictor, "F0Ntrain", kept),
        mock.patch("torch.round", near),
        mock.patch("torch.angle", upwards),
        mock.patch("torch.rand", lambda *shape, **_: torch.full(shape, 0.3)),
        mock.patch("torch.randn_like", lambda x: torch.from_numpy(noise(tuple(x.shape)))),
    ):
        samples, durations = type(model).forward_with_tokens.__wrapped__(model, ids, style, rate)
    return seen | {"samples": samples, "durations": durations}


def entry(found: dict[str, Any]) -> dict[str, Any]:
    shown_ones = {key: rounded(shown(found[key].detach().numpy(), 200)) for key in ("pitch", "loudness", "samples")}
    return shown_ones | {"durations": found["durations"].tolist(), "length": found["samples"].shape[-1]}


def golden(name: str) -> dict[str, Any]:
    model, filed = model_of(name)
    usual, slow = run(model, 1.0), run(model, 0.6)
    samples = usual["samples"]
    along(samples, "samples").backward()
    pitch = usual["pitch"].detach().numpy()
    assert (pitch > 12).any() and (pitch < 8).any(), "choose other weights"
    own = {key: names(key) for key, _ in model.named_parameters()}
    return {"parameters": gradients_of(model, own), "filed": filed, "usual": entry(usual), "slow": entry(slow)}


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
