"""Makes golden_musics/NAME.json with transformers, one for each configuration of music_configs.py:

    PYTHONPATH=. python tests/models/make_golden_musics.py [NAME …]

A file has the names and shapes of the parameters, logits of codes, the codes that are written greedily with guidance
and without, the sound of them, and of each parameter's gradient of the loss the sum and the product with a fixed
vector. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.utils import parametrize
from transformers import AutoConfig, MusicgenForConditionalGeneration, MusicgenMelodyForConditionalGeneration
from transformers.audio_utils import chroma_filter_bank

from tests.goldens import write_each
from tests.models.music_configs import CODES, CONFIGS, GUIDANCE, IDS, MELODY, MOMENTS, tune
from tests.models.seeded import gradients_of, music_weights, rounded, shown

RATES = (32000, 16000)


def model_of(name: str) -> Any:
    config = dict(CONFIGS[name])
    kind = MusicgenMelodyForConditionalGeneration if "melody" in name else MusicgenForConditionalGeneration
    model: Any = kind(AutoConfig.for_model(config.pop("model_type"), **config)).float().eval()
    model.set_attn_implementation("eager")
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    with torch.no_grad():
        for key, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if key in model.state_dict() and tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(np.asarray(music_weights(key, tuple(tensor.shape)))))
    return model


def golden(name: str) -> dict[str, Any]:
    model = model_of(name)
    ids, codes = torch.tensor([IDS]), torch.tensor(CODES)
    mask = torch.ones_like(ids)
    start = model.config.decoder.pad_token_id
    model.generation_config.decoder_start_token_id = start
    model.generation_config.pad_token_id = start
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=codes).logits[:, -len(CODES[0]) :]
    written, sounds = [], []
    decode = model.audio_encoder.decode

    def watched(audio_codes: Any, **options: Any) -> Any:
        written.append(audio_codes[0].tolist())
        return decode(audio_codes, **options)

    model.audio_encoder.decode = watched
    for guidance in (GUIDANCE, 1.0):
        sounds.append(
            model.generate(
                input_ids=ids, attention_mask=mask, do_sample=False, guidance_scale=guidance,
                max_new_tokens=MOMENTS + len(CODES) - 1,
            )
        )  # fmt: skip
    more = {}
    if "melody" in name:
        notes = {"input_features": torch.nn.functional.one_hot(torch.tensor([MELODY]), 12).float()}
        with torch.no_grad():
            heard = model(input_ids=ids, attention_mask=mask, decoder_input_ids=codes, **notes).logits[
                :, -len(CODES[0]) :
            ]
            model.generate(
                input_ids=ids, attention_mask=mask, do_sample=False, guidance_scale=GUIDANCE, **notes,
                max_new_tokens=MOMENTS + len(CODES) - 1,
            )  # fmt: skip
        more = {"with_melody": rounded(shown(heard.numpy(), 100)), "notes": [loudest(*tune(rate)) for rate in RATES]}
    scores = model(input_ids=ids, attention_mask=mask, decoder_input_ids=codes[:, :-1]).logits
    scores = scores[:, -len(CODES[0]) + 1 :]  # behind what stands before the codes
    wanted = codes[:, 1:].clamp(max=15)
    loss = torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), wanted.reshape(-1), reduction="sum")
    loss.backward()
    return {
        "parameters": gradients_of(model),
        "logits": rounded(shown(logits.numpy(), 100)),
        "written": written,
        "sounds": [rounded(shown(sound.numpy(), 60)) for sound in sounds],
        "loss": float(loss.detach()),
    } | more


def loudest(samples: Any, rate: int) -> list[int]:
    """The notes of transformers' feature extractor, whose spectrogram torchaudio makes with these settings."""
    bank = torch.from_numpy(chroma_filter_bank(num_frequency_bins=16384, num_chroma=12, sampling_rate=rate))
    spectrum = torch.stft(
        torch.from_numpy(samples).double(), 16384, 4096, window=torch.hann_window(16384, dtype=torch.float64),
        center=True, pad_mode="reflect", return_complex=True,
    )  # fmt: skip
    return (bank @ spectrum.abs() ** 2).argmax(0).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden, ensure_ascii=False)
