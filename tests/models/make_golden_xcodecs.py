"""Makes golden_xcodecs/NAME.json with transformers, one for each configuration of xcodec_configs.py:

    PYTHONPATH=. python tests/models/make_golden_xcodecs.py [NAME …]

A file has the names and shapes of the tensors, the codes of two recordings of different lengths, and the sound of these
codes. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import load_seeded
from tests.models.xcodec_configs import CONFIGS, LENGTHS, weights

MARGIN = 1e-4  # between the distances of the two nearest entries


def watched(model: Any) -> None:
    """Refuses codes that rounding decides."""
    for quantizer in model.quantizer.quantizers:

        def quantize(states: Any, book: Any = quantizer.codebook) -> Any:
            best = torch.cdist(states, book.embed).square().topk(2, largest=False)
            assert float((best.values[:, 1] - best.values[:, 0]).min()) > MARGIN, "choose other weights"
            return best.indices[:, 0]

        quantizer.codebook.quantize = quantize


def bounded(model: Any) -> None:
    """The same of numbers that are rounded."""
    own = model.quantizer.quantizer
    kept = own.bound

    def bound(states: Any, **more: Any) -> Any:
        found = kept(states, **more)
        assert float((found - found.floor() - 0.5).abs().min()) > MARGIN, "choose other weights"
        return found

    own.bound = bound


def newer(name: str) -> dict[str, Any]:
    """Of X-Codec 2. The filter banks are those of SeamlessM4T's feature extractor, as in its authors' program."""
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    model, stored = load_seeded(transformers.Xcodec2Model(transformers.Xcodec2Config(**config)), weights)
    bounded(model)
    step, bins = model.hop_length, model.config.semantic_model_config.feature_projection_input_dim // 2
    hear = transformers.SeamlessM4TFeatureExtractor(feature_size=bins, num_mel_bins=bins, sampling_rate=16000)
    found: dict[str, Any] = {"tensors": {key: list(value.shape) for key, value in stored.items()}}
    with torch.no_grad():
        for length in LENGTHS[name]:
            whole = np.pad(sound(1, length), ((0, 0), (0, 0), (0, step - length % step)))
            rows = [np.pad(row, step // 2) for row in whole[:, 0]]
            banks = hear(rows, sampling_rate=16000, return_tensors="pt").input_features
            codes = model.encode(torch.from_numpy(whole), input_features=banks).audio_codes
            made = model.decode(codes).audio_values
            found[str(length)] = {"codes": codes.tolist(), "samples": rounded(shown(made.numpy(), 200))}
            print(name, length, codes.tolist(), tuple(made.shape), float(made.abs().max()))
    return found


def golden(name: str) -> dict[str, Any]:
    if name == "xcodec2":
        return newer(name)
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    model, stored = load_seeded(transformers.XcodecModel(transformers.XcodecConfig(**config)), weights)
    watched(model)
    found: dict[str, Any] = {"tensors": {key: list(value.shape) for key, value in stored.items()}}
    with torch.no_grad():
        for length in LENGTHS[name]:
            codes = model.encode(torch.from_numpy(sound(1, length))).audio_codes
            made = model.decode(codes).audio_values
            found[str(length)] = {"codes": codes.tolist(), "samples": rounded(shown(made.numpy(), 200))}
            print(name, length, tuple(codes.shape), tuple(made.shape), float(made.abs().max()))
    return found


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
