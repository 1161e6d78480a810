"""Writes a trained speech model as a folder in Hugging Face's layout, which transformers and pyapp.models read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyapp.audio.mel import FFT_SIZE, HOP, SAMPLE_RATE
from pyapp.engine import Tensor, float16
from pyapp.engine.blocks.writing import quantize_blocks
from pyapp.formats import write_safetensors
from pyapp.formats.sink import open_sink
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.weights import POSITIONS, hugging_face_name, unfused
from pyapp.recipes.speech.tokens import SpeechTokens


def export(folder: Path, model: Whisper, tokens: SpeechTokens) -> None:
    """Writes model.safetensors, config.json, tokenizer.json, generation_config.json and preprocessor_config.json.

    Matrices are GGML's q8_0 blocks, stored as uint8 (rows, columns / 32 * 34), and the metadata hold name -> "q8_0" for
    each. The rest is float16. The encoder's positions are left out: they are not parameters.
    """
    tensors, metadata = {}, {"format": "pt"}
    for name, value in unfused(model):
        key = hugging_face_name(name)
        if value.ndim == 2 and value.shape[1] % 32 == 0 and name != POSITIONS:
            tensors[key], metadata[key] = as_blocks(value), "q8_0"
        elif name != POSITIONS:
            tensors[key] = value.to(float16)
    write_safetensors(folder / "model.safetensors", tensors, metadata)
    documents = {
        "config.json": model_config(model.config, tokens),
        "generation_config.json": generation_config(model.config, tokens),
        "preprocessor_config.json": preprocessor_config(model.config),
    }
    for name, document in documents.items():
        _write(folder / name, json.dumps(document, indent=1))
    _write(folder / "tokenizer.json", tokens.document)


def as_blocks(matrix: Tensor) -> Tensor:
    """float32 (rows, columns) as the bytes of its q8_0 blocks: uint8 (rows, columns / 32 * 34)."""
    rows, columns = matrix.shape
    blocks = quantize_blocks(matrix.detach().contiguous().numpy(), "q8_0")
    return Tensor.from_buffer(blocks.data, (rows, columns // 32 * 34), "uint8")


def _write(path: Path, text: str) -> None:
    with open_sink(path) as file:
        file.write(text.encode() + b"\n")


def model_config(config: Config, tokens: SpeechTokens) -> dict[str, Any]:
    """config.json: transformers' WhisperConfig."""
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "torch_dtype": "float16",
        "is_encoder_decoder": True,
        "num_mel_bins": config.n_mels,
        "max_source_positions": config.n_audio_ctx,
        "d_model": config.n_audio_state,
        "encoder_layers": config.n_audio_layer,
        "encoder_attention_heads": config.n_audio_head,
        "encoder_ffn_dim": 4 * config.n_audio_state,
        "decoder_layers": config.n_text_layer,
        "decoder_attention_heads": config.n_text_head,
        "decoder_ffn_dim": 4 * config.n_text_state,
        "vocab_size": config.n_vocab,
        "max_target_positions": config.n_text_ctx,
        "activation_function": "gelu",
        "scale_embedding": False,
        "bos_token_id": tokens.end,
        "eos_token_id": tokens.end,
        "pad_token_id": tokens.end,
        "decoder_start_token_id": tokens.start,
        "suppress_tokens": [],
        "begin_suppress_tokens": [tokens.end],
    }


def generation_config(config: Config, tokens: SpeechTokens) -> dict[str, Any]:
    """generation_config.json, as of the English-only Whisper models."""
    return {
        "is_multilingual": False,
        "bos_token_id": tokens.end,
        "eos_token_id": tokens.end,
        "pad_token_id": tokens.end,
        "decoder_start_token_id": tokens.start,
        "prev_sot_token_id": tokens.previous,
        "no_timestamps_token_id": tokens.no_timestamps,
        "max_initial_timestamp_index": 50,
        "max_length": config.n_text_ctx,
        "return_timestamps": True,
        "suppress_tokens": [],
        "begin_suppress_tokens": [tokens.end],
        "guess_limits": {"word_probability": 0.85, "logprob": -0.4},  # python -m scripts.speech_confidence
    }


def preprocessor_config(config: Config) -> dict[str, Any]:
    """preprocessor_config.json: transformers' WhisperFeatureExtractor."""
    frames = 2 * config.n_audio_ctx
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": config.n_mels,
        "sampling_rate": SAMPLE_RATE,
        "n_fft": FFT_SIZE,
        "hop_length": HOP,
        "chunk_length": frames * HOP // SAMPLE_RATE,
        "n_samples": frames * HOP,
        "nb_max_frames": frames,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }
