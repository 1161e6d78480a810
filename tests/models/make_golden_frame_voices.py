"""Makes golden_frame_voices/NAME.json with transformers, one for each configuration of frame_voice_configs.py:

    PYTHONPATH=. python tests/models/make_golden_frame_voices.py [NAME …]

A file has the names and shapes of the tensors as files have them, the codes of the sound of a turn, logits of first
codes after two turns and of the other codes of a moment, the codes that are written greedily, and their sound. The
weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import CsmForConditionalGeneration

from tests.goldens import write_each
from tests.models.codec_configs import sound
from tests.models.frame_voice_configs import CONFIGS, IDS, MOMENTS, SAMPLES
from tests.models.seeded import frame_weights, rounded, shown
from tests.models.seeded_folders import configuration, load_seeded


def golden(name: str) -> dict[str, Any]:
    config = dict(CONFIGS[name])
    made = configuration(CONFIGS[name])
    model, stored = load_seeded(CsmForConditionalGeneration(made), frame_weights)
    heard = torch.from_numpy(sound(1, SAMPLES)[:1])
    with torch.no_grad():
        codes = model.codec_model.encode(heard, num_quantizers=config["num_codebooks"]).audio_codes[0]
        frames = codes.shape[1]
        ids = torch.tensor([[*IDS[0], *[4] * frames, 5, *IDS[1]]])
        cutoffs = torch.tensor([[SAMPLES]])
        x = model._merge_input_ids_with_input_values(ids, heard, cutoffs)["inputs_embeds"]
        output = model(inputs_embeds=x, output_hidden_states=True)
        state = model.backbone_model(inputs_embeds=x).last_hidden_state[:, -1]
        depth = model.depth_decoder(
            input_ids=torch.tensor([[0, 7, 11]]), backbone_last_hidden_state=state, use_cache=False
        ).logits
        model.depth_decoder.generation_config.max_new_tokens = config["num_codebooks"] - 1
        model.depth_decoder.generation_config.do_sample = False
        written = model.generate(
            input_ids=ids,
            input_values=heard,
            input_values_cutoffs=cutoffs,
            do_sample=False,
            max_new_tokens=MOMENTS,
            pad_token_id=3,
        )
        rows = written[0].transpose(0, 1)
        samples = model.codec_model.decode(rows.clamp(max=15).unsqueeze(0)).audio_values
    return {
        "tensors": {key: list(value.shape) for key, value in stored.items()},
        "codes": codes.tolist(),
        "logits": rounded(shown(output.logits.numpy(), 100)),
        "others": rounded(depth),
        "written": rows.tolist(),
        "sound": rounded(shown(samples.numpy(), 60)),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
