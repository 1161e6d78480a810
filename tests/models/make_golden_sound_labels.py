"""Makes golden_sound_labels/NAME.json with transformers, one for each configuration of sound_label_configs.py:

    PYTHONPATH=. python tests/models/make_golden_sound_labels.py [NAME …]

A file has the names and shapes of the parameters, what the feature extractor makes of recordings, logits of one and of
a batch with padding, and of each parameter's gradient of the loss the sum and the product with a fixed vector. The
weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import torch
from safetensors import safe_open
from transformers import (
    ASTFeatureExtractor,
    AutoModelForAudioClassification,
    SeamlessM4TFeatureExtractor,
    Wav2Vec2FeatureExtractor,
)

from tests.goldens import write_each
from tests.models.bank_sound_configs import SETTINGS
from tests.models.seeded import gradients_of, rounded, shown, sound_weights
from tests.models.seeded_folders import configuration
from tests.models.sound_configs import recording
from tests.models.sound_label_configs import CONFIGS, LABEL, SAMPLES


def file_names(model: Any) -> dict[str, str]:
    """The names of a model's parameters in its files."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, tensor in enumerate(model.parameters(), 2):  # statistics of batches are 0 and 1
            tensor.fill_(number)
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            numbers = {round(file.get_tensor(name).reshape(-1)[0].item()): name for name in file.keys()}
        for number, (name, _) in enumerate(model.named_parameters(), 2):
            found[name] = numbers[number]
    return found


def model_of(name: str) -> tuple[Any, dict[str, str]]:
    made = configuration(CONFIGS[name], eager=True)
    model = AutoModelForAudioClassification.from_config(made).float().eval()
    names = file_names(model)
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(sound_weights(names[key], tuple(tensor.shape))))
        for key, tensor in model.named_buffers():
            if ".running_" in key:
                tensor.copy_(torch.from_numpy(sound_weights(key, tuple(tensor.shape))))
    return model, names


def extractor_of(name: str) -> Any:
    config = CONFIGS[name]
    if name == "spectrogram":
        return ASTFeatureExtractor(max_length=config["max_length"], num_mel_bins=config["num_mel_bins"])
    if config["model_type"] == "wav2vec2-bert":
        return SeamlessM4TFeatureExtractor(**SETTINGS)
    return Wav2Vec2FeatureExtractor(return_attention_mask=config.get("feat_extract_norm") == "layer")


def logits_of(model: Any, values: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """The logits. transformers 5 sums, of models whose last norm is after all layers, what is before that norm; the
    published weights were trained, and until version 4 read, with what is after it.
    """
    if not getattr(model.config, "use_weighted_layer_sum", False):
        found: torch.Tensor = model(
            values, **({} if attention_mask is None else {"attention_mask": attention_mask})
        ).logits
        return found
    base = getattr(model, model.base_model_prefix)
    outputs = base(values, attention_mask=attention_mask, output_hidden_states=True)
    states = torch.stack([*outputs.hidden_states[:-1], outputs.last_hidden_state], 1)
    x = model.projector((states * model.layer_weights.softmax(-1).view(-1, 1, 1)).sum(1))
    if attention_mask is None:
        return model.classifier(x.mean(1))
    heard = base._get_feature_vector_attention_mask(x.shape[1], attention_mask).unsqueeze(-1)
    return model.classifier((x * heard).sum(1) / heard.sum(1))


def golden(name: str) -> dict[str, Any]:
    model, names = model_of(name)
    extractor = extractor_of(name)
    sounds = [recording(count) for count in SAMPLES]
    options = {} if name == "spectrogram" else {"padding": True}
    alone = extractor(sounds[0], sampling_rate=16000, return_tensors="pt")
    batch = extractor(sounds, sampling_rate=16000, return_tensors="pt", **options)
    batch = {key: value if key == "attention_mask" else value.float() for key, value in batch.items()}
    key = next(key for key in batch if key.startswith("input"))
    heard = batch["attention_mask"].unsqueeze(2) if key == "input_features" else 1  # of banks: what is no padding
    with torch.no_grad():
        logits = logits_of(model, alone[key].float())
        padded = logits_of(model, batch[key], batch.get("attention_mask"))
    loss = torch.nn.functional.cross_entropy(logits_of(model, alone[key].float()), torch.tensor([LABEL]))
    loss.backward()
    return {
        "parameters": gradients_of(model, names),
        "settings": json.loads(extractor.to_json_string()),
        "input": rounded(shown((batch[key] * heard).numpy(), 100)),
        "logits": rounded(logits),
        "padded": rounded(padded),
        "loss": float(loss.detach()),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
