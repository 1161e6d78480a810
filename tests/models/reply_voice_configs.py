"""Small configurations of models that speak their replies, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw, sound_weights
from tests.models.sense_configs import CONFIGS as SENSES
from tests.models.sense_configs import SOUND

_LAYERS = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 500,
}  # fmt: skip


def _reads_more(name: str) -> dict[str, Any]:
    """What writes, for longer texts."""
    found = SENSES[name]
    return found | {"text_config": found["text_config"] | {"max_position_embeddings": 500}}


CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2_5_omni": {
        "model_type": "qwen2_5_omni", "thinker_config": _reads_more("qwen2_5_omni_thinker"),
        "talker_config": _LAYERS | {
            "model_type": "qwen2_5_omni_talker", "vocab_size": 60, "embedding_size": 32, "head_dim": 16,
            "tts_text_start_token_id": 50, "tts_text_end_token_id": 51, "tts_text_pad_token_id": 52,
            "tts_codec_start_token_id": 55, "tts_codec_end_token_id": 56, "tts_codec_pad_token_id": 57,
            "tts_codec_mask_token_id": 58, "audio_token_index": 24, "image_token_index": 34, "video_token_index": 35,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        "token2wav_config": {
            "model_type": "qwen2_5_omni_token2wav",
            "dit_config": {
                "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "head_dim": 8, "emb_dim": 6,
                "block_size": 4, "look_ahead_layers": [1], "look_backward_layers": [0, 2], "num_embeds": 50,
                "mel_dim": 5, "enc_emb_dim": 4, "enc_dim": 3, "enc_channels": [4, 4, 4, 8],
                "enc_kernel_sizes": [3, 3, 3, 1], "enc_dilations": [1, 2, 3, 1], "enc_attention_channels": 3,
                "enc_se_channels": 2, "max_position_embeddings": 256,
            },
            "bigvgan_config": {
                "mel_dim": 5, "upsample_initial_channel": 8, "resblock_kernel_sizes": [3, 5],
                "resblock_dilation_sizes": [[1, 2, 3], [1, 3, 2]], "upsample_rates": [3, 2],
                "upsample_kernel_sizes": [7, 4],
            },
        },
    },
    "qwen3_omni_moe": {
        "model_type": "qwen3_omni_moe", "thinker_config": _reads_more("qwen3_omni_moe_thinker"),
        "im_start_token_id": 40, "im_end_token_id": 41, "user_token_id": 42, "assistant_token_id": 43,
        "tts_bos_token_id": 50, "tts_eos_token_id": 51, "tts_pad_token_id": 52,
        "talker_config": {
            "num_code_groups": 3, "thinker_hidden_size": 32, "accept_hidden_layer": 1, "spatial_merge_size": 2,
            "codec_nothink_id": 31,
            "codec_think_bos_id": 32, "codec_think_eos_id": 33, "codec_pad_id": 34, "codec_bos_id": 35,
            "codec_eos_token_id": 36, "speaker_id": {"ethan": 37, "aiden": 38},
            "audio_token_id": 24, "image_token_id": 34, "video_token_id": 35,
            "text_config": _LAYERS | {
                "model_type": "qwen3_omni_moe_talker_text", "vocab_size": 1064, "head_dim": 16,
                "moe_intermediate_size": 12, "num_experts": 4, "num_experts_per_tok": 2,
                "shared_expert_intermediate_size": 20,
                "rope_parameters": {
                    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2],
                    "mrope_interleaved": True,
                },
            },
            "code_predictor_config": _LAYERS | {
                "model_type": "qwen3_omni_moe_talker_code_predictor", "vocab_size": 40, "head_dim": 12,
                "num_hidden_layers": 1, "num_code_groups": 3,
            },
        },
        "code2wav_config": {
            "model_type": "qwen3_omni_moe_code2wav", "codebook_size": 40, "hidden_size": 16, "num_attention_heads": 2,
            "num_key_value_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2, "num_quantizers": 3,
            "sliding_window": 4, "upsample_rates": [3, 2], "upsampling_ratios": [2], "decoder_dim": 8,
            "max_position_embeddings": 64,
        },
    },
}  # fmt: skip
ASKED = [40, 42, 11, 12, 13, 41]  # what a user says, as Qwen3-Omni has it
ROLE = [40, 43, 14]
# A conversation with a recording in what the user says, behind instructions; by name: the vectors of the recording.
RECORDED, VECTORS = 8999, {"qwen2_5_omni": 14, "qwen3_omni_moe": 8}
MOST, DRAWN = 12, 9  # moments of sound, and those of which sound is made by themselves
VOICE = ("Chelsie", 53)  # and its token, in Qwen2.5-Omni


def conversation(name: str) -> list[tuple[int, list[int]]]:
    """The tokens of turns, with the recording's in the second, each with the token of who says it."""
    sound = [25, *[SOUND] * VECTORS[name], 26]
    return [(44, [40, 44, 15, 16, 41]), (42, [40, 42, *sound, 12, 13, 41])]


def recorded(bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The vector and the spectrogram of a voice in Qwen2.5-Omni."""
    return draw("a voice", (1, 4)), draw("a spectrogram", (1, 9, bins)) * np.float32(2)


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `sound_weights`; codes differ from moment to moment, and what makes sound is not silent."""
    if name.endswith((".alpha", ".beta", ".gamma", "_scale.scale")):
        return np.asarray(0.3 * draw(name, shape), np.float32)
    if name.startswith(("talker", "code2wav.code_embedding")) and len(shape) == 2:
        return draw(name, shape) * np.float32(3 if "embed" in name else 1.5)
    if len(shape) == 3 and name.startswith(("token2wav", "code2wav")):
        inputs = shape[0] * 2 if ".ups." in name or ".block.1." in name else float(np.prod(shape[1:]))
        loud = 0.2 if name.endswith(("conv_post.weight", "decoder.4.conv.weight")) else 1.0
        return draw(name, shape) * np.float32(loud * shape[-1] ** 0.5 * inputs**-0.5)
    return sound_weights(name, shape)
