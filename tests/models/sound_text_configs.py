"""Small configurations of language models that hear, in the form of config.json."""

from __future__ import annotations

from typing import Any

SOUND = 24  # the token of a recording's vectors
_WHISPER = {
    "hidden_size": 24, "intermediate_size": 60, "num_hidden_layers": 2, "num_attention_heads": 2, "num_mel_bins": 8,
    "max_source_positions": 50,
}  # fmt: skip
_TEXT = {
    "model_type": "llama", "vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 192,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "voxtral": {
        "model_type": "voxtral", "text_config": _TEXT, "audio_token_id": SOUND,
        "audio_config": _WHISPER | {"model_type": "voxtral_encoder"},
    },
    "qwen2_audio": {
        "model_type": "qwen2_audio", "text_config": _TEXT | {"model_type": "qwen2"}, "audio_token_index": SOUND,
        "audio_config": _WHISPER | {"model_type": "qwen2_audio_encoder"},
    },
    "granite_speech": {
        "model_type": "granite_speech", "audio_token_index": SOUND, "has_lora_adapter": False,
        "text_config": _TEXT | {"model_type": "granite", "embedding_multiplier": 3.0, "tie_word_embeddings": True},
        "encoder_config": {
            "model_type": "granite_speech_encoder", "input_dim": 16, "num_layers": 2, "hidden_dim": 24, "num_heads": 2,
            "feedforward_mult": 2, "output_dim": 12, "context_size": 30, "max_pos_emb": 32, "conv_kernel_size": 5,
        },
        "projector_config": {
            "model_type": "blip_2_qformer", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 20, "encoder_hidden_size": 24, "cross_attention_frequency": 1,
        },
    },
    "qwen3_asr": {
        "model_type": "qwen3_asr", "text_config": _TEXT | {"model_type": "qwen3", "tie_word_embeddings": True},
        "audio_token_id": SOUND, "tie_word_embeddings": True,
        "audio_config": {
            "model_type": "qwen3_asr_encoder", "num_mel_bins": 8, "d_model": 24, "encoder_layers": 2,
            "encoder_attention_heads": 2, "encoder_ffn_dim": 60, "downsample_hidden_size": 6, "output_dim": 32,
            "n_window_infer": 100,
        },
    },
    "audioflamingo3": {
        "model_type": "audioflamingo3", "text_config": _TEXT | {"model_type": "qwen2"}, "audio_token_id": SOUND,
        "audio_config": _WHISPER | {"model_type": "audioflamingo3_encoder"},
    },
    "musicflamingo": {
        "model_type": "musicflamingo", "text_config": _TEXT | {"model_type": "qwen2"}, "audio_token_id": SOUND,
        "audio_config": _WHISPER | {"model_type": "audioflamingo3_encoder"}, "audio_bos_token_id": 25,
        "audio_eos_token_id": 26,
        "rope_parameters": {"rope_type": "default", "rope_theta": 60.0, "partial_rotary_factor": 0.35},
    },
    "granite_speech_plus": {
        "model_type": "granite_speech_plus", "audio_token_index": SOUND, "has_lora_adapter": False,
        "text_config": _TEXT | {"model_type": "granite", "embedding_multiplier": 3.0, "tie_word_embeddings": True},
        "encoder_config": {
            "model_type": "granite_speech_encoder", "input_dim": 16, "num_layers": 3, "hidden_dim": 24, "num_heads": 2,
            "feedforward_mult": 2, "output_dim": 12, "context_size": 30, "max_pos_emb": 32, "conv_kernel_size": 5,
            "cat_hidden_layers": [0, 1],
        },
        "projector_config": {
            "model_type": "blip_2_qformer", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 20, "encoder_hidden_size": 72, "cross_attention_frequency": 1,
        },
    },
    "glmasr": {
        "model_type": "glmasr", "text_config": _TEXT, "audio_token_id": SOUND, "tie_word_embeddings": True,
        "audio_config": {
            "model_type": "glmasr_encoder", "hidden_size": 24, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "num_mel_bins": 8, "max_position_embeddings": 100,
        },
    },
}  # fmt: skip
# Of the two recordings.
VECTORS = {
    "voxtral": (40, 20), "qwen2_audio": (39, 14), "granite_speech": (18, 6), "qwen3_asr": (20, 7),
    "audioflamingo3": (39, 14), "glmasr": (35, 7), "musicflamingo": (39, 14), "granite_speech_plus": (18, 6),
}  # fmt: skip
SETTINGS = {"feature_size": 8, "chunk_length": 1, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400}
PAIRED = {"n_mels": 8}  # Granite Speech's
WHOLE = {"feature_size": 8}  # Qwen3-ASR's
LONGER = SETTINGS | {"chunk_length": 2}  # GLM-ASR's, whose moments are joined by four
SAMPLES = (25000, 9000)  # of the two recordings: two stretches and one
EVEN = (25000, 8960)  # Qwen3-ASR's: transformers counts a part of a frame before silence, but not at the end
LONG = (45000, 9000)  # GLM-ASR's


def texts(name: str) -> list[list[int]]:
    """Two texts with a recording each, of which the second is padded."""
    first = [1, 3, 25, *[SOUND] * VECTORS[name][0], 131, 58, 4]
    second = [1, 3, 25, *[SOUND] * VECTORS[name][1], 77, 4]
    return [first, [*second, *[0] * (len(first) - len(second))]]


# Those that the tests run with their weights in block types.
QUANTISED = ["voxtral"]
