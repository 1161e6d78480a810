"""Makes golden_sound_matches/NAME.json with transformers, one for each configuration of sound_match_configs.py:

    PYTHONPATH=. python tests/models/make_golden_sound_matches.py [NAME …]

A file has the names and shapes of the parameters, what the feature extractor makes of recordings, logits of these and
of texts, of which one is padded, vectors, and of each parameter's gradient of the loss the sum and the product with a
fixed vector. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, ClapFeatureExtractor, ClapModel

from tests.goldens import write_each
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.sound_configs import recording
from tests.models.sound_match_configs import CONFIGS, FUSED, FUSED_SAMPLES, SAMPLES, SETTINGS, TEXTS


def golden(name: str) -> dict[str, Any]:
    config = dict(CONFIGS[name])
    model = ClapModel(AutoConfig.for_model(config.pop("model_type"), **config)).float().eval()
    with torch.no_grad():
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(sound_weights(key, tuple(tensor.shape))))
    fused = name == "clap-fused"
    extractor = ClapFeatureExtractor(**(FUSED if fused else SETTINGS))
    sounds = [recording(count) for count in (FUSED_SAMPLES if fused else SAMPLES)]
    np.random.choice = lambda places: places[len(places) // 2]  # where it draws a stretch
    features = extractor(sounds, sampling_rate=48000, return_tensors="pt").input_features.float()
    more = {"is_longer": torch.ones(len(sounds), 1)} if fused else {}  # each, as where it is alone
    longest = max(map(len, TEXTS))
    ids = torch.tensor([[*text, *[1] * (longest - len(text))] for text in TEXTS])
    found = model(input_ids=ids, attention_mask=(ids != 1).long(), input_features=features, **more)
    logits = found.logits_per_audio
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1]))
    loss.backward()
    return {
        "parameters": gradients_of(model),
        "input": rounded(shown(features.numpy(), 80)),
        "logits": rounded(logits.detach()),
        "sounds": rounded(found.audio_embeds.detach()),
        "texts": rounded(found.text_embeds.detach()),
        "loss": float(loss.detach()),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
