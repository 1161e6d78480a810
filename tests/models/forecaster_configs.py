"""Small configurations of models that forecast series, in the form of config.json (Chronos' say "t5" there)."""

from __future__ import annotations

from typing import Any

import numpy as np

_T5 = {
    "d_model": 16, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 3, "decoder_start_token_id": 0,
    "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
_BINS = {
    "tokenizer_class": "MeanScaleUniformBins", "tokenizer_kwargs": {"low_limit": -3.0, "high_limit": 3.0},
    "context_length": 24, "prediction_length": 5, "n_tokens": 60, "n_special_tokens": 2, "pad_token_id": 0,
    "eos_token_id": 1, "use_eos_token": True, "model_type": "seq2seq", "num_samples": 4, "temperature": 1.0,
    "top_k": 1, "top_p": 1.0,
}  # fmt: skip
_BOLT = {
    "context_length": 24, "prediction_length": 6, "input_patch_size": 4, "input_patch_stride": 4,
    "quantiles": [0.1, 0.2, 0.5, 0.7, 0.9], "use_reg_token": True,
}  # fmt: skip
_CHRONOS2 = {
    "context_length": 24, "output_patch_size": 4, "input_patch_size": 4, "input_patch_stride": 4,
    "quantiles": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95], "use_reg_token": True,
    "use_arcsinh": True, "max_output_patches": 2, "time_encoding_scale": 20,
}  # fmt: skip
_TIMESFM = {
    "model_type": "timesfm", "patch_length": 4, "context_length": 16, "horizon_length": 6, "num_hidden_layers": 2,
    "hidden_size": 12, "intermediate_size": 20, "head_dim": 4, "num_attention_heads": 3,
    "quantiles": [0.2, 0.5, 0.8],
}  # fmt: skip
_PATCHTST = {
    "model_type": "patchtst", "num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 3,
    "num_hidden_layers": 2, "d_model": 8, "num_attention_heads": 2, "ffn_dim": 12, "prediction_length": 5,
}  # fmt: skip
_MIXER = {
    "model_type": "patchtsmixer", "num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 3,
    "num_layers": 2, "d_model": 6, "prediction_length": 5,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "timesfm": _TIMESFM,
    "timesfm_positions": _TIMESFM | {"use_positional_embedding": True, "quantiles": [0.1, 0.2, 0.9]},
    "timesfm2_5": {
        key: value for key, value in _TIMESFM.items() if key != "num_attention_heads"
    } | {
        "model_type": "timesfm2_5", "num_attention_heads": 4, "num_key_value_heads": 2, "output_quantile_len": 5,
        "decode_index": 2, "use_bias": True,
    },
    "timesfm2_5_plain": _TIMESFM | {
        "model_type": "timesfm2_5", "num_key_value_heads": 3, "output_quantile_len": 8, "decode_index": 1,
        "force_flip_invariance": False, "use_continuous_quantile_head": False, "infer_is_positive": False,
    },
    "chronos": {"model_type": "chronos", **_T5, "vocab_size": 60, "chronos_config": _BINS},
    "chronos_unscaled": {
        "model_type": "chronos", **_T5, "vocab_size": 64, "feed_forward_proj": "gated-gelu",
        "scale_decoder_outputs": False, "chronos_config": _BINS | {"use_eos_token": False},
    },
    "chronos_bolt": {"model_type": "chronos_bolt", **_T5, "vocab_size": 2, "chronos_config": _BOLT},
    "chronos_bolt_overlapping": {
        "model_type": "chronos_bolt", **_T5, "vocab_size": 1,
        "chronos_config": _BOLT | {"use_reg_token": False, "input_patch_stride": 2},
    },
    "chronos2": {"model_type": "chronos2", **_T5, "vocab_size": 2, "rope_theta": 50.0, "chronos_config": _CHRONOS2},
    "patchtst": _PATCHTST,
    "patchtst_class_token": _PATCHTST | {
        "use_cls_token": True, "norm_type": "layernorm", "channel_attention": True, "share_embedding": False,
        "pre_norm": False, "scaling": "mean", "activation_function": "relu",
    },
    "patchtst_flat": _PATCHTST | {"pooling_type": None, "loss": "nll", "channel_attention": True, "scaling": None},
    "patchtst_normal": _PATCHTST | {
        "num_input_channels": 1, "pooling_type": "max", "loss": "nll", "distribution_output": "normal",
    },
    "patchtsmixer": _MIXER,
    "patchtsmixer_series": _MIXER | {
        "mode": "mix_channel", "norm_mlp": "BatchNorm", "self_attn": True, "self_attn_heads": 2,
        "use_positional_encoding": True, "prediction_channel_indices": [2, 0], "scaling": "mean",
    },
    "patchtsmixer_counts": _MIXER | {
        "loss": "nll", "distribution_output": "negative_binomial", "gated_attn": False, "scaling": True,
    },
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["timesfm", "chronos_bolt", "chronos2"]
OTHER_DEVICE = [
    "timesfm_positions",
    "timesfm2_5",
    "chronos",
    "chronos_bolt",
    "chronos2",
    "patchtst_class_token",
    "patchtsmixer_series",
]
CLASSES = {
    "timesfm": "TimesFmModelForPrediction", "timesfm2_5": "TimesFm2_5ModelForPrediction",
    "chronos": "T5ForConditionalGeneration",
    "chronos_bolt": "ChronosBoltModelForForecasting", "chronos2": "Chronos2Model",
    "patchtst": "PatchTSTForPrediction",
    "patchtsmixer": "PatchTSMixerForPrediction",
}  # fmt: skip
LENGTHS = (30, 16, 7, 1)  # of the series that TimesFM and Chronos read
HORIZON = 14  # more than they name at once
LEVELS = (0.2, 0.5, 0.9)  # of those that Chronos-Bolt knows


GROUPS = (0, 1, 0)  # which of three series Chronos-2 reads together


def gaps() -> tuple[np.ndarray, np.ndarray]:
    """Three series (3, 13) without some values and whole patches, and what is known of their future (3, 6)."""
    known, future = series(3, 13), np.full((3, 6), np.nan, np.float32)
    known[0, :5], known[1, 7], known[2, 9:] = np.nan, np.nan, np.nan
    future[2, :5] = [9.0, 8.0, 9.5, np.nan, 7.0]
    return known, future


def series(count: int, length: int) -> np.ndarray:
    """float32 (count, length): waves that grow, far from 0."""
    times = np.arange(length)
    rows = [5 + k + 0.1 * times + (k + 1) * np.sin(times / (1.3 + k)) for k in range(count)]
    return np.asarray(rows, np.float32)
