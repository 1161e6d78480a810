"""Small configurations of models that speak scripts, in the form of config.json, and what the authors' files say."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw

_FILTERS = {
    "kernel_size": 3, "num_filters": 2, "downsampling_ratios": [2, 4], "depths": [1, 2, 1], "ffn_expansion": 2,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
TOKENS = {"audio_bos_token_id": 40, "audio_eos_token_id": 41, "audio_token_id": 42, "eos_token_id": 43}
CONFIGS: dict[str, dict[str, Any]] = {
    "vibevoice": {
        "model_type": "vibevoice", **TOKENS, "pad_token_id": 43, "tie_word_embeddings": False,
        "text_config": {
            "model_type": "qwen2", "vocab_size": 44, "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
            "max_position_embeddings": 256, "tie_word_embeddings": False,
        },
        "audio_config": _FILTERS | {
            "model_type": "vibevoice_acoustic_tokenizer", "hidden_size": 6, "vae_std": 0.0,
        },
        "semantic_model_config": _FILTERS | {
            "model_type": "vibevoice_acoustic_tokenizer_encoder", "hidden_size": 10, "depths": [2, 1, 1],
        },
        "diffusion_head_config": {
            "model_type": "vibevoice_diffusion", "num_hidden_layers": 2, "intermediate_size": 96,
            "frequency_embedding_size": 16,
        },
    },
}  # fmt: skip
# The same in the form of the authors' config.json.
_AUTHORS = {
    "encoder_n_filters": 2, "encoder_ratios": [4, 2], "decoder_ratios": [4, 2], "ffn_expansion": 2, "kernel_size": 3,
    "layernorm_eps": 1e-5,
}  # fmt: skip
AUTHORS: dict[str, Any] = {
    "model_type": "vibevoice", **TOKENS, "decoder_config": CONFIGS["vibevoice"]["text_config"],
    "acoustic_tokenizer_config": _AUTHORS | {"encoder_depths": "1-2-1", "vae_dim": 6},
    "semantic_tokenizer_config": _AUTHORS | {"encoder_depths": "2-1-1", "vae_dim": 10},
    "diffusion_head_config": {
        "head_layers": 2, "head_ffn_ratio": 3.0, "frequency_embedding_size": 16, "rms_norm_eps": 1e-5,
    },
}  # fmt: skip
GENERATION = {"guidance_scale": 1.3, "num_diffusion_steps": 4}
# Tokens, of which those of the voice are 42, and their vectors stand there.
SAMPLES, MOST = 100, 24
BEFORE, AFTER = [5, 17, 30, 40], [41, 8, 21, 33, 40]
# The names of tensors, those of transformers and of the authors, replaced in this order.
NAMES = (
    (r"^model\.audio_tower\.", "model.acoustic_tokenizer."),
    (r"^model\.semantic_tokenizer_encoder\.", "model.semantic_tokenizer.encoder."),
    (r"\.mixer\.conv\.", ".mixer.conv.conv.conv."), (r"\.head\.conv\.", ".head.conv.conv."),
    (r"encoder\.stem\.conv\.", "encoder.downsample_layers.0.0.conv."),
    (r"decoder\.stem\.conv\.", "decoder.upsample_layers.0.0.conv."),
    (r"\.stem\.stage\.", ".stages.0."), (r"\.conv_layers\.0\.stage\.", ".stages.1."),
    (r"\.conv_layers\.1\.stage\.", ".stages.2."), (r"\.conv_layers\.0\.conv\.", ".downsample_layers.1.0.conv."),
    (r"\.conv_layers\.1\.conv\.", ".downsample_layers.2.0.conv."),
    (r"\.conv_layers\.0\.convtr\.", ".upsample_layers.1.0.convtr."),
    (r"\.conv_layers\.1\.convtr\.", ".upsample_layers.2.0.convtr."),
    (r"diffusion_head", "prediction_head"), (r"timestep_proj\.fc1", "t_embedder.mlp.0"),
    (r"timestep_proj\.fc2", "t_embedder.mlp.2"), (r"(head\.layers\.\d)\.linear", r"\1.adaLN_modulation.1"),
    (r"final_layer\.linear_1", "final_layer.adaLN_modulation.1"), (r"final_layer\.linear_2", "final_layer.linear"),
    (r"multi_modal_projector\.", "acoustic_connector."), (r"connector\.linear_", "connector.fc"),
    (r"connector\.act", "connector.norm"), (r"latent_(\w+)_factor", r"speech_\1_factor"),
)  # fmt: skip


def weights(name: str, shape: tuple[int, ...], salt: int = 7) -> np.ndarray:
    """As `draw`; filters have the deviation 1 / sqrt(their inputs), scales of blocks are near 0.5, and the flow goes
    far. salt: of what says whether speech goes on; with 7 it begins anew, and ends.
    """
    if name.endswith("latent_scaling_factor"):
        return np.asarray(0.8, np.float32)
    if name.endswith("latent_bias_factor"):
        return np.asarray(-0.1, np.float32)
    values = draw(name, shape, salt=salt if name.startswith("lm_head") else 0)
    if "gamma" in name:
        return values + np.float32(0.5)
    if len(shape) == 3:
        inputs = shape[0] * 2 if "convtr" in name else float(np.prod(shape[1:]))
        return values * np.float32(shape[-1] ** 0.5 * inputs**-0.5)
    return values * np.float32(2 if "diffusion_head" in name and len(shape) == 2 else 1)
