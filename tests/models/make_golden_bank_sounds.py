"""Makes golden_bank_sounds/NAME.json with transformers, one for each configuration of bank_sound_configs.py:

    PYTHONPATH=. python tests/models/make_golden_bank_sounds.py

A file has what the processor makes of two recordings, logits of the first and of both with padding, the names and
shapes of the parameters, and their gradients. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.bank_sound_configs import CONFIGS, LABELS, SAMPLES, SETTINGS
from tests.models.parakeet_configs import sounds
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration, fill


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name], eager=True)
    model = transformers.AutoModelForCTC.from_config(made).float().eval()
    fill(model, sound_weights)
    extractor = transformers.SeamlessM4TFeatureExtractor(**SETTINGS)
    recordings = [sounds(count) for count in SAMPLES]
    alone = extractor(recordings[0], sampling_rate=16000, return_tensors="pt")
    batch = extractor(recordings, sampling_rate=16000, padding=True, return_tensors="pt")
    ends = batch["attention_mask"].unsqueeze(-1)
    with torch.no_grad():
        padded = model(**batch).logits
    found = model(**alone, labels=torch.tensor([LABELS]))
    found.loss.backward()
    return {
        "parameters": gradients_of(model), "loss": float(found.loss.detach()),
        "input": rounded(shown((batch["input_features"] * ends).numpy())),
        "logits": rounded(shown(found.logits.detach().numpy(), 96)), "padded": rounded(padded[1, :7].reshape(-1)),
        "numbers": found.logits[0].argmax(-1).tolist(), "moments": [found.logits.shape[1], int(ends[1].sum())],
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
