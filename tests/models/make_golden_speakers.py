"""Makes golden_speakers/NAME.json and golden_moments/NAME.json with transformers, one for each configuration of
speaker_configs.py:

    PYTHONPATH=. python tests/models/make_golden_speakers.py [NAME …]

A file has the names and shapes of the parameters, the vectors (or the logits of moments) of a recording and of a batch
with padding, and of each parameter's gradient the sum and the product with a fixed vector. The weights are not stored:
seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForAudioFrameClassification,
    AutoModelForAudioXVector,
    SeamlessM4TFeatureExtractor,
    Wav2Vec2FeatureExtractor,
)

from tests.goldens import write_json
from tests.models.bank_sound_configs import SETTINGS
from tests.models.seeded import gradients_of, rounded, sound_weights
from tests.models.seeded_folders import along, fill
from tests.models.sound_configs import recording
from tests.models.speaker_configs import CONFIGS, MOMENTS, samples

FOLDER = Path(__file__).with_name("golden_speakers")


def model_of(name: str, moments: bool) -> Any:
    config = dict((MOMENTS if moments else CONFIGS)[name])
    made = AutoConfig.for_model(config.pop("model_type"), **config)
    made._attn_implementation = "eager"
    kind = AutoModelForAudioFrameClassification if moments else AutoModelForAudioXVector
    model = kind.from_config(made).float().eval()
    fill(model, sound_weights)
    return model


def vectors(model: Any, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The vectors. transformers 5 sums, of models whose last norm is behind all layers, what is before that norm; the
    published weights were trained with what is behind it.
    """
    base = getattr(model, model.base_model_prefix)
    if getattr(model.config, "use_weighted_layer_sum", False):
        whole = base.forward

        def with_norm(*given: Any, **more: Any) -> Any:
            found = whole(*given, **more | {"output_hidden_states": True})
            found.hidden_states = (*found.hidden_states[:-1], found.last_hidden_state)
            return found

        base.forward = with_norm
    outputs = model(values, attention_mask=mask)
    found: torch.Tensor = outputs.embeddings if "embeddings" in outputs else outputs.logits
    base.__dict__.pop("forward", None)
    return found


def golden(name: str, moments: bool = False) -> dict[str, Any]:
    model = model_of(name, moments)
    banks = name == "wav2vec2-bert"
    extractor: Any = (
        SeamlessM4TFeatureExtractor(**SETTINGS) if banks else Wav2Vec2FeatureExtractor(return_attention_mask=True)
    )
    key = "input_features" if banks else "input_values"
    sounds = [recording(count) for count in samples(name)]
    alone = extractor(sounds[0], sampling_rate=16000, return_tensors="pt")
    batch = extractor(sounds, sampling_rate=16000, padding=True, return_tensors="pt")
    with torch.no_grad():
        padded = vectors(model, batch[key], batch.attention_mask)
    found = vectors(model, alone[key])
    loss = along(found, "vectors")
    loss.backward()
    return {
        "parameters": gradients_of(model), "vectors": rounded(found.detach()), "padded": rounded(padded),
        "loss": float(loss.detach()),
    }  # fmt: skip


if __name__ == "__main__":
    moments = FOLDER.with_name("golden_moments")
    for folder, configs in ((FOLDER, CONFIGS), (moments, MOMENTS)):
        folder.mkdir(exist_ok=True)
        for name in sys.argv[1:] or configs:
            if name in configs:
                write_json(folder / f"{name}.json", golden(name, folder == moments), separators=(",", ":"))
