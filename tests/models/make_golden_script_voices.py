"""Makes golden_script_voices/NAME.json with transformers, one for each configuration of script_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_script_voices.py [NAME …]

A file has the names and shapes of the tensors, the vectors of a voice, states of a prompt with it, and the tokens and
the sound that are written after it, with noise that the tests can make alike. The weights are not stored: seeded.py
makes them here and in the tests.

The guidance is for the vectors of sound. transformers, which has one name for all guidance, guides the tokens too; the
authors' code does not.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
import transformers

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.script_voice_configs import AFTER, BEFORE, CONFIGS, GENERATION, MOST, SAMPLES, TOKENS, weights
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import load_seeded


def golden(name: str) -> dict[str, Any]:
    config = {key: value for key, value in CONFIGS[name].items() if key != "model_type"}
    made = transformers.VibeVoiceConfig(**config)
    model, stored = load_seeded(transformers.VibeVoiceForConditionalGeneration(made), weights)
    step = made.audio_config.hop_length
    heard = torch.nn.functional.pad(torch.from_numpy(sound(1, SAMPLES)[0]), (0, -SAMPLES % step)).unsqueeze(0)
    mask = torch.ones(1, heard.shape[-1])
    audio = {"input_values": heard, "padding_mask": mask}
    ids = torch.tensor([[*BEFORE, *[TOKENS["audio_token_id"]] * (heard.shape[-1] // step), *AFTER]])
    latents = made.audio_config.hidden_size

    def noise(*shape: Any, **more: Any) -> torch.Tensor:
        return torch.linspace(-1, 1, latents).repeat(shape[0], 1) if len(shape) == 2 else torch.zeros(shape[0])

    tokens_alone = patch.object(
        transformers.generation.utils, "UnbatchedClassifierFreeGuidanceLogitsProcessor",
        lambda *_, **more: transformers.TemperatureLogitsWarper(1.0),
    )  # fmt: skip
    with torch.no_grad(), patch.object(torch, "randn", noise), tokens_alone:
        voice = model.model.get_audio_features(heard, mask).last_hidden_state
        states = model.model(input_ids=ids, **audio).last_hidden_state
        found = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), **audio, **GENERATION, max_new_tokens=MOST,
            return_dict_in_generate=True,
        )  # fmt: skip
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items()},
        "voice": rounded(shown(voice.numpy(), 60)),
        "states": rounded(shown(states.numpy(), 96)), "written": found.sequences[0, ids.shape[1] :].tolist(),
        "sound": rounded(shown(found.audio[0].numpy(), 120)),
    }  # fmt: skip


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
