"""Makes golden_spec_augment.json with transformers:

    PYTHONPATH=. python tests/models/make_golden_spec_augment.py

It has the hidden steps of each row of MASKS, the loss of models in training mode without dropout, with what they hide
at random, the gradient of what stands for hidden moments, and some numbers of what the encoder of a Whisper reads.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForCTC,
    SeamlessM4TFeatureExtractor,
    Wav2Vec2FeatureExtractor,
    WhisperFeatureExtractor,
)
from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices

from tests.goldens import write_json
from tests.models import bank_sound_configs as banks
from tests.models.make_golden_whisper import transformers_model
from tests.models.parakeet_configs import sounds
from tests.models.seeded import direction, rounded, shown, sound_weights
from tests.models.seeded_folders import fill
from tests.models.sound_configs import CONFIGS, SAMPLES, recording
from tests.models.spec_augment_cases import HIDDEN, MASKS, MODELS, SEED, WHISPER
from tests.models.spec_augment_cases import SAMPLES as HEARD
from tests.models.whisper_model import SMALL

DROPOUTS = ("hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout", "final_dropout",
            "layerdrop", "conformer_conv_dropout")  # fmt: skip
PADDED = ("hubert-large", "sew")  # transformers forgets what is padding when it hides time of these


def masks() -> list[list[list[int]]]:
    found = []
    for counts, size, probability, length, least, seed in MASKS:
        np.random.seed(seed)
        mask = torch.arange(size)[None] < torch.tensor(counts)[:, None]
        drawn = _compute_mask_indices((len(counts), size), probability, length, mask.long(), least)
        found.append([np.flatnonzero(row).tolist() for row in drawn])
    return found


def loss_of(name: str) -> dict[str, Any]:
    more, texts = MODELS[name]
    config = dict((CONFIGS | banks.CONFIGS)[name])
    made = AutoConfig.for_model(config.pop("model_type"), **config | HIDDEN | more | dict.fromkeys(DROPOUTS, 0.0))
    made._attn_implementation = "eager"
    model = AutoModelForCTC.from_config(made).float().train()
    fill(model, sound_weights)
    if name in banks.CONFIGS:
        extractor: Any = SeamlessM4TFeatureExtractor(**banks.SETTINGS)
        heard = [sounds(count) for count in banks.SAMPLES]
    else:
        extractor = Wav2Vec2FeatureExtractor(return_attention_mask=config.get("feat_extract_norm") == "layer")
        heard = [recording(count) for count in SAMPLES]
    batch = extractor(heard, sampling_rate=16000, padding=True, return_tensors="pt")
    base = model.base_model
    if name in PADDED and "attention_mask" in batch:
        frames = model._get_feat_extract_output_lengths(max(SAMPLES))
        heard_mask = base._get_feature_vector_attention_mask(int(frames), batch.attention_mask)
        base._mask_hidden_states = partial(base._mask_hidden_states, attention_mask=heard_mask)
    longest = max(map(len, texts))
    labels = torch.tensor([[*text, *[-100] * (longest - len(text))] for text in texts])
    np.random.seed(SEED)
    loss = model(**batch, labels=labels).loss
    loss.backward()
    embed = next(value for key, value in model.named_parameters() if key.endswith("masked_spec_embed"))
    grad = np.zeros(embed.shape) if embed.grad is None else embed.grad.double().numpy()
    numbers = [grad.sum(), (grad * direction("masked_spec_embed", grad.shape)).sum()]
    return {"loss": float(loss.detach()), "embed": rounded(numbers)}


def spectrograms() -> list[float]:
    model = transformers_model(SMALL).train()
    for name, value in WHISPER.items():
        setattr(model.config, name, value)
    extractor = WhisperFeatureExtractor(feature_size=SMALL.n_mels, chunk_length=1)
    extractor.n_samples = 2 * SMALL.n_audio_ctx * 160
    batch = extractor(
        [recording(count) for count in HEARD], sampling_rate=16000, return_tensors="pt", return_attention_mask=True
    )
    seen: list[Any] = []
    model.model.encoder.register_forward_pre_hook(lambda module, given: seen.append(given[0].clone()))
    np.random.seed(SEED)
    model(batch.input_features, batch.attention_mask, decoder_input_ids=torch.tensor([[2], [2]]))
    return rounded(shown(seen[0].numpy(), 120))


if __name__ == "__main__":
    torch.manual_seed(0)
    found = {"masks": masks(), "models": {name: loss_of(name) for name in MODELS}, "spectrograms": spectrograms()}
    write_json(Path(__file__).with_name("golden_spec_augment.json"), found, separators=(",", ":"))
    print({name: one["loss"] for name, one in found["models"].items()})
