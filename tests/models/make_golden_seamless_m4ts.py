"""Makes golden_seamless_m4ts/NAME.json with transformers, one for each configuration of seamless_m4t_configs.py:

    PYTHONPATH=. python tests/models/make_golden_seamless_m4ts.py [NAME …]

For texts and for speech a file has the names and shapes of the parameters, logits of a source and of two with padding,
the tokens that are written of the two in a language, and of each parameter's gradient of a loss the sum and the product
with a fixed vector. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.seamless_m4t_configs import BANKS, CONFIGS, IDS, MOST, SAMPLES, TEXT
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration
from tests.models.sound_configs import recording

CLASSES = {"seq2seq-lm": "ForTextToText", "speech-recognition": "ForSpeechToText"}
VERSIONS = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}


def golden(name: str, task: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    # Its eager attention adds the mask of chunks as numbers.
    made._attn_implementation = "sdpa"
    model = getattr(transformers, VERSIONS[name] + CLASSES[task])(made).float().eval()
    with torch.no_grad():
        statistics = {key: tensor for key, tensor in model.named_buffers() if "running" in key}
        for key, tensor in [*model.named_parameters(), *statistics.items()]:
            tensor.copy_(torch.from_numpy(sound_weights(key, tuple(tensor.shape))))
    if task == "seq2seq-lm":
        ids = torch.tensor(IDS)
        both = {"input_ids": ids, "attention_mask": (ids != 0).long()}
        alone = {"input_ids": ids[:1], "attention_mask": torch.ones_like(ids[:1])}
    else:
        extractor = transformers.SeamlessM4TFeatureExtractor(**BANKS)
        both, alone = (
            dict(extractor([recording(count) for count in counts], sampling_rate=16000, return_tensors="pt"))
            for counts in (SAMPLES, SAMPLES[:1])
        )
    text = torch.tensor([TEXT])
    with torch.no_grad():
        padded = model(**both, decoder_input_ids=text.expand(2, -1)).logits
        model.generation_config.text_decoder_lang_to_code_id = {"eng": 8}
        written = model.generate(**both, tgt_lang="eng", do_sample=False, max_new_tokens=MOST)
    logits = model(**alone, decoder_input_ids=text).logits
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], text[0, 1:], reduction="sum")
    loss.backward()
    return {
        "parameters": gradients_of(model),
        "logits": rounded(shown(logits.detach().numpy(), 80)),
        "padded": rounded(shown(padded.numpy(), 80)),
        "written": written.tolist(),
        "loss": float(loss.detach()),
        "statistics": {key: list(tensor.shape) for key, tensor in statistics.items()},
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, lambda name: {task: golden(name, task) for task in CLASSES})
