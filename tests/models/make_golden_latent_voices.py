"""Makes golden_latent_voices/NAME.json with transformers, one for each configuration of latent_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_latent_voices.py [NAME …]

A file has the names and shapes of the tensors of the model and of its codec, the vectors of a voice, states and scores
of the end after a text in it and some vectors, the vectors that are written without noise, and their sound. The weights
are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.latent_voice_configs import AFTER, CODEC, CONFIGS, GENERATION, IDS, SAMPLES, of_codec, weights
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import load_seeded


def seeded(kind: Any, config: dict[str, Any], values: Any) -> tuple[Any, dict[str, list[int]]]:
    """A model with seeded weights, and its tensors as files have them."""
    config = dict(config)
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    model, stored = load_seeded(kind(made), values)
    return model, {key: list(value.shape) for key, value in stored.items()}


def golden(name: str) -> dict[str, Any]:
    model, tensors = seeded(transformers.PocketTTSForConditionalGeneration, CONFIGS[name], weights)
    codec, codec_tensors = seeded(transformers.PocketTTSAudioTokenizerModel, CODEC, of_codec)
    heard = sound(1, SAMPLES)[0]
    frame = codec.config.frame_size
    heard = torch.nn.functional.pad(torch.from_numpy(heard), (0, -SAMPLES % frame)).unsqueeze(0)
    with torch.no_grad():
        voice = codec.encode(heard).latents
        ids = torch.tensor([[42, *[40] * voice.shape[1], *IDS, 43]])
        written = torch.linspace(-1, 1, 18).reshape(1, 3, 6)
        longer = torch.cat([ids, torch.full((1, 3), 41)], 1)
        whole = model(input_ids=longer, audio_prompt_latents=voice, audio_latents=written)
        found = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), audio_prompt_latents=voice, frames_after_eos=AFTER,
            do_sample=False, return_dict_in_generate=True, output_scores=True,
            **{key: value for key, value in GENERATION.items() if key != "temperature"},
        )  # fmt: skip
        samples = codec.decode(found.audio_latents).audio_values[0, 0]
    return {
        "tensors": tensors, "codec": codec_tensors, "voice": rounded(shown(voice.numpy(), 60)),
        "states": rounded(shown(whole.last_hidden_state.numpy(), 96)), "ends": rounded(whole.logits),
        "frames": found.audio_latents.shape[1], "latents": rounded(shown(found.audio_latents.numpy(), 60)),
        "scores": rounded(torch.stack(found.scores)), "sound": rounded(shown(samples.numpy(), 60)),
    }  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
