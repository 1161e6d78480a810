"""Makes golden_sound_texts/NAME.json with transformers, one for each configuration of sound_text_configs.py:

    PYTHONPATH=. python tests/models/make_golden_sound_texts.py [NAME …]

A file has what those of make_golden_picture_texts.py have, and some numbers of the spectrograms. The weights are not
stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.goldens import write_each
from tests.models.make_golden_picture_texts import by_files, rounded
from tests.models.seeded import shown, sound_weights
from tests.models.seeded_folders import configuration
from tests.models.sound_configs import recording
from tests.models.sound_text_configs import (
    CONFIGS,
    EVEN,
    LEVELLED,
    LONG,
    LONGER,
    PAIRED,
    SAMPLES,
    SETTINGS,
    WHOLE,
    texts,
)

INPUTS = ("input_features", "input_features_mask")  # of Granite Speech
CLASSES = {
    "voxtral": "VoxtralForConditionalGeneration", "qwen2_audio": "Qwen2AudioForConditionalGeneration",
    "granite_speech": "GraniteSpeechForConditionalGeneration", "qwen3_asr": "Qwen3ASRForConditionalGeneration",
    "audioflamingo3": "AudioFlamingo3ForConditionalGeneration", "glmasr": "GlmAsrForConditionalGeneration",
    "musicflamingo": "MusicFlamingoForConditionalGeneration",
    "granite_speech_plus": "GraniteSpeechPlusForConditionalGeneration",
    "vibevoice_asr": "VibeVoiceAsrForConditionalGeneration",
}  # fmt: skip


# The masks of sound, as the models call them.
MASKS = {
    "qwen2_audio": "feature_attention_mask",
    **dict.fromkeys(("audioflamingo3", "glmasr", "musicflamingo"), "input_features_mask"),
}


def spectrograms(samples: Any, settings: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """As VoxtralProcessor makes them: (stretches, bins, frames), and the masks (stretches, frames) of sound."""
    extractor = transformers.WhisperFeatureExtractor(**settings)
    frames = 100 * settings["chunk_length"]
    found = extractor(
        samples, sampling_rate=16000, padding=True, truncation=False, pad_to_multiple_of=160 * frames,
        return_tensors="pt", return_attention_mask=True,
    )  # fmt: skip
    values = found.input_features.reshape(settings["feature_size"], -1, frames).transpose(0, 1)
    return values, found.attention_mask.reshape(-1, frames)


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    kind = getattr(transformers, CLASSES[made.model_type])
    if name.startswith("granite_speech"):
        extract = transformers.GraniteSpeechFeatureExtractor(**PAIRED)  # with torchaudio
        both, first = (extract([recording(count) for count in counts]) for counts in (SAMPLES, SAMPLES[:1]))
        whole, alone = ({key: found[key] for key in INPUTS} for found in (both, first))
        found = by_files(name, kind, made, sound_weights, torch.tensor(texts(name)), whole, alone)
        return found | {"mel": rounded(shown(first["input_features"].numpy(), 60))}
    if name == "qwen3_asr":
        extract = transformers.Qwen3ASRFeatureExtractor(**WHOLE)
        given = dict.fromkeys(("padding", "return_attention_mask"), True) | {"sampling_rate": 16000}
        both, first = (extract([recording(count) for count in counts], **given) for counts in (EVEN, EVEN[:1]))
        whole, alone = (dict(zip(INPUTS, (x.input_features, x.attention_mask), strict=True)) for x in (both, first))
        found = by_files(name, kind, made, sound_weights, torch.tensor(texts(name)), whole, alone)
        return found | {"mel": rounded(shown(first["input_features"].numpy(), 60))}
    if name == "vibevoice_asr":
        extract = transformers.VibeVoiceAcousticTokenizerFeatureExtractor(**LEVELLED)
        both, first = (
            extract([recording(n) for n in counts], sampling_rate=16000) for counts in (SAMPLES, SAMPLES[:1])
        )
        found = by_files(
            name, kind, made, sound_weights, torch.tensor(texts(name)), {**both, "sample": False},
            {**first, "sample": False},
        )  # fmt: skip
        return found | {"mel": rounded(shown(first["input_values"].numpy(), 60))}
    settings, counts = (LONGER, LONG) if name == "glmasr" else (SETTINGS, SAMPLES)
    sounds, masks = zip(*(spectrograms(recording(count), settings) for count in counts), strict=True)
    whole, alone = ({"input_features": values} for values in (torch.cat(sounds), sounds[0]))
    if name in MASKS:
        whole[MASKS[name]], alone[MASKS[name]] = torch.cat(masks), masks[0]
    found = by_files(name, kind, made, sound_weights, torch.tensor(texts(name)), whole, alone)
    return found | {"mel": rounded(shown(sounds[0].numpy(), 60))}


if __name__ == "__main__":
    torch.manual_seed(0)
    write_each(__file__, CONFIGS, golden)
