"""Makes golden_sounds/NAME.json with transformers, one for each configuration of sound_configs.py:

    PYTHONPATH=. python tests/models/make_golden_sounds.py [NAME …]

A file has the names and shapes of the parameters, logits of a recording and of a batch with padding, what the processor
makes of the samples, the texts and the times of words, and of each parameter's gradient of the loss the sum and the
product with a fixed vector. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import torch
from transformers import AutoModelForCTC, Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor

from tests.goldens import write_each
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration, fill
from tests.models.sound_configs import CONFIGS, LABELS, SAMPLES, VOCABULARY, recording


def model_of(name: str) -> Any:
    made = configuration(CONFIGS[name], ctc_loss_reduction="sum", eager=True)
    model = AutoModelForCTC.from_config(made).float().eval()
    fill(model, sound_weights)
    return model


def golden(name: str) -> dict[str, Any]:
    model = model_of(name)
    by_layer = CONFIGS[name].get("feat_extract_norm") == "layer"
    extractor = Wav2Vec2FeatureExtractor(return_attention_mask=by_layer)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(VOCABULARY))
        file.flush()
        tokenizer = Wav2Vec2CTCTokenizer(file.name)
    sounds = [recording(count) for count in SAMPLES]
    alone = extractor(sounds[0], sampling_rate=16000, return_tensors="pt")
    batch = extractor(sounds, sampling_rate=16000, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits, padded = model(alone.input_values).logits, model(**batch).logits
    numbers = logits[0].argmax(-1).tolist()
    decoded = tokenizer.decode(numbers, output_word_offsets=True)
    loss = model(alone.input_values, labels=torch.tensor([LABELS])).loss
    loss.backward()
    return {
        "state": sorted({*model.state_dict()} - {key for key, _ in model.named_parameters()}),
        "parameters": gradients_of(model),
        "masks": by_layer,
        "input": rounded(shown(batch["input_values"].numpy())),
        "logits": rounded(shown(logits.numpy(), 200)),
        "padded": rounded(shown(padded[:, :: max(1, padded.shape[1] // 8)].numpy(), 200)),
        "numbers": numbers,
        "text": decoded.text,
        "texts": tokenizer.batch_decode(padded.argmax(-1)),
        "words": [[word["word"], int(word["start_offset"]), int(word["end_offset"])] for word in decoded.word_offsets],
        "loss": float(loss.detach()),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
