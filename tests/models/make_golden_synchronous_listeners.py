"""Makes golden_synchronous_listeners/NAME.json with transformers, one for each configuration of
synchronous_listener_configs.py:

    PYTHONPATH=. python tests/models/make_golden_synchronous_listeners.py [NAME …]

A file has the names and shapes of the tensors as files have them, some numbers of what is prepared of a recording,
logits of a text that is read with the recording's first moments, and the tokens that are written greedily. The weights
are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.seeded import rounded, shown
from tests.models.seeded_folders import configuration, load_seeded
from tests.models.sound_configs import recording
from tests.models.synchronous_listener_configs import AT_CODEC, CONFIGS, PADDING, SAMPLES, SETTINGS, TOKENS, weights

CLASSES = {
    "kyutai": "KyutaiSpeechToTextForConditionalGeneration", "voxtral": "VoxtralRealtimeForConditionalGeneration",
}  # fmt: skip
BEFORE, BEHIND = 32, 11  # tokens of silence around a recording: mistral_common's AudioConfig and its buffer


def golden(name: str) -> dict[str, Any]:
    config = dict(CONFIGS[name])
    made = configuration(CONFIGS[name])
    kind = getattr(transformers, CLASSES[name])
    model, stored = load_seeded(kind(made), weights)
    tokens = torch.arange(5, 5 + TOKENS).unsqueeze(0)
    with torch.no_grad():
        if name == "kyutai":
            extract = transformers.KyutaiSpeechToTextFeatureExtractor(**SETTINGS[name])
            heard = sound(1, AT_CODEC)[0, 0]
            found = extract(heard, sampling_rate=SETTINGS[name]["sampling_rate"], return_tensors="pt")
            values = found["input_values"]
            step = made.codec_config.frame_size
            whole = values[..., : values.shape[-1] // step * step]
            codes = model.codec_model.encode(whole, num_quantizers=config["num_codebooks"]).audio_codes
            empty = torch.full((1, config["num_codebooks"], 1), config["audio_bos_token_id"])
            every = torch.cat([empty, codes], 2)[..., :TOKENS].transpose(1, 2)
            logits = model.model(torch.cat([tokens.unsqueeze(2), every], 2)).last_hidden_state
            logits = model.lm_head(logits)
            written = model.generate(**found, do_sample=False)[0].tolist()
            more = {"codes": codes[0].tolist()}
        else:
            step = 160 * config["audio_length_per_tok"]
            delay = config["default_num_delay_tokens"]
            heard = recording(SAMPLES)
            heard = np.pad(heard, (BEFORE * step, -SAMPLES % step + (delay + BEHIND) * step))
            extract = transformers.VoxtralRealtimeFeatureExtractor(**SETTINGS[name])
            values = extract(heard, sampling_rate=16000, return_tensors="pt").input_features
            few = values[..., : TOKENS * config["audio_length_per_tok"]]
            logits = model(input_ids=tokens, input_features=few, num_delay_tokens=delay).logits
            prompt = torch.tensor([[1, *[PADDING] * (BEFORE + delay)]])
            written = model.generate(
                input_ids=prompt, attention_mask=torch.ones_like(prompt), input_features=values,
                num_delay_tokens=delay, do_sample=False, eos_token_id=None, pad_token_id=0,
            )[0, prompt.shape[1] :].tolist()  # fmt: skip
            more = {}
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items()},
        "values": rounded(shown(values.numpy(), 60)), "logits": rounded(shown(logits.numpy(), 100)),
        "written": written, **more,
    }  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
