"""Small configurations of models that write the text of what they hear, in the form of config.json."""

from __future__ import annotations

from typing import Any

SMALL = {"vocab_size": 60, "intermediate_size": 48, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
MOONSHINE = SMALL | {
    "model_type": "moonshine", "hidden_size": 36, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2, "max_position_embeddings": 40,
}  # fmt: skip
STREAMING = SMALL | {
    "model_type": "moonshine_streaming", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
    "encoder_config": {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
        "num_key_value_heads": 2, "sliding_windows": [[6, 3], [4, 0], [16, 4]],
    },
}  # fmt: skip
SPEECH_TO_TEXT = {
    "model_type": "speech_to_text", "vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
    "max_source_positions": 60, "max_target_positions": 64, "conv_channels": 20, "conv_kernel_sizes": [5, 3],
    "input_feat_per_channel": 8, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
CONFORMER = {
    "model_type": "parakeet_encoder", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "conv_kernel_size": 5, "subsampling_factor": 4, "subsampling_conv_channels": 6,
    "num_mel_bins": 8, "scale_input": False,
}  # fmt: skip
WRITER = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 40, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BANKS = {"num_mel_bins": 8, "feature_size": 8}  # Speech2Text's
CONFIGS: dict[str, dict[str, Any]] = {
    "moonshine": MOONSHINE,
    "moonshine-biases": MOONSHINE | {"attention_bias": True, "tie_word_embeddings": False, "rope_theta": 500.0},
    "moonshine-streaming": STREAMING,
    "moonshine-streaming-wide": STREAMING
    | {"encoder_config": STREAMING["encoder_config"] | {"hidden_size": 24, "head_dim": 8}, "head_dim": 20},  # type: ignore[operator]
    "speech-to-text": SPEECH_TO_TEXT,
    "canary": {
        "model_type": "canary",
        "tie_word_embeddings": False,
        "vocab_size": 60,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "encoder_config": CONFORMER,
        "decoder_config": WRITER | {"head_dim": 12},
    },
    "cohere-asr": WRITER
    | {"model_type": "cohere_asr", "decoder_start_token_id": 1, "encoder_config": CONFORMER | {"hidden_size": 24}},
}
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["moonshine-streaming"]
OTHER_DEVICE = ["moonshine", "moonshine-streaming", "speech-to-text", "canary", "cohere-asr"]
SAMPLES = (5000, 3300)  # of the two recordings of a batch
_TEXT = [17, 5, 33, 9, 2]
MOST = 24  # new tokens of a text


def tokens_of(name: str) -> list[int]:
    """The tokens of a text, after the one with which the decoder begins."""
    return [CONFIGS[name]["decoder_start_token_id"], *_TEXT]
