"""Makes golden_listeners/NAME.json with transformers, one for each configuration of listener_configs.py:

    PYTHONPATH=. python tests/models/make_golden_listeners.py [NAME …]

A file has the names and shapes of the parameters, the names of the tensors in files, logits of a recording and of a
batch with padding, the tokens that are written of both, and of each parameter's gradient of the loss the sum and the
product with a fixed vector. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForSpeechSeq2Seq,
    ParakeetFeatureExtractor,
    Speech2TextFeatureExtractor,
    Wav2Vec2FeatureExtractor,
)

from tests.goldens import write_each
from tests.models.listener_configs import BANKS, CONFIGS, MOST, SAMPLES, tokens_of
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration
from tests.models.sound_configs import recording


def model_of(name: str) -> Any:
    made = configuration(CONFIGS[name], eager=True)
    for part in vars(made).values():
        if hasattr(part, "_attn_implementation"):
            part._attn_implementation = "eager"
    model = AutoModelForSpeechSeq2Seq.from_config(made).float().eval()
    with torch.no_grad():
        stored = {*model.state_dict()}
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if key in stored and tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(sound_weights(key, tuple(tensor.shape))))
    return model


def golden(name: str) -> dict[str, Any]:
    model = model_of(name)
    extractors: dict[str, Any] = {
        "speech_to_text": Speech2TextFeatureExtractor(**BANKS),
        **dict.fromkeys(("canary", "cohere_asr"), ParakeetFeatureExtractor(**BANKS)),
    }
    banks = extractors.get(model.config.model_type)
    extractor = banks or Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)
    sounds = [recording(count) for count in SAMPLES]
    multiple = {"padding": True} | ({} if banks else {"pad_to_multiple_of": 80})  # as models for streams have it
    alone = extractor(sounds[:1], sampling_rate=16000, return_tensors="pt", **multiple)
    batch = extractor(sounds, sampling_rate=16000, return_tensors="pt", **multiple)
    tokens = torch.tensor([tokens_of(name)])
    with torch.no_grad():
        logits = model(**alone, decoder_input_ids=tokens).logits
        padded = model(**batch, decoder_input_ids=tokens.expand(2, -1)).logits
        written = [model.generate(**inputs, max_new_tokens=MOST, do_sample=False) for inputs in (alone, batch)]
    output = model(**alone, decoder_input_ids=tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(output[0], tokens[0, 1:], reduction="sum")
    loss.backward()
    return {
        "parameters": gradients_of(model),
        "logits": rounded(shown(logits.numpy(), 100)),
        "padded": rounded(shown(padded.numpy(), 100)),
        "written": [rows.tolist() for rows in written],
        "loss": float(loss.detach()),
        "files": files_of(model),
    }


def files_of(model: Any) -> list[str]:
    """The names of the tensors in files."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return sorted(load_file(Path(folder, "model.safetensors")))


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
