"""Writes golden_whisper.npz: what openai-whisper and transformers compute for the models of whisper_model.py.

Run: python -m tests.models.make_golden_whisper (needs torch, openai-whisper and transformers).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration
from whisper.model import ModelDimensions
from whisper.model import Whisper as OpenaiWhisper

from pyapp.models.whisper import Config
from tests.goldens import write_npz

from .whisper_model import CONFIGS, inputs, weights

HERE = Path(__file__).parent
# transformers' names for openai's, in this order.
RENAMED = (
    ("decoder.token_embedding.weight", "decoder.embed_tokens.weight"),
    ("decoder.positional_embedding", "decoder.embed_positions.weight"),
    ("encoder.positional_embedding", "encoder.embed_positions.weight"),
    ("encoder.ln_post", "encoder.layer_norm"), ("decoder.ln.", "decoder.layer_norm."), (".blocks.", ".layers."),
    ("cross_attn_ln", "encoder_attn_layer_norm"), ("attn_ln", "self_attn_layer_norm"),
    ("cross_attn", "encoder_attn"), (".attn.", ".self_attn."), ("mlp_ln", "final_layer_norm"), ("mlp.0", "fc1"),
    ("mlp.2", "fc2"), ("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("attn.out", "attn.out_proj"),
)  # fmt: skip


def renamed(name: str) -> str:
    for old, new in RENAMED:
        name = name.replace(old, new)
    return f"model.{name}"


def openai_model(config: Config) -> Any:
    model = OpenaiWhisper(ModelDimensions(**config.to_dict()))
    values = {name: torch.from_numpy(value) for name, value in weights(config).items()}
    missing, unexpected = model.load_state_dict(values, strict=False)
    assert missing == ["encoder.positional_embedding"] and not unexpected
    return model.eval()


def transformers_model(config: Config) -> Any:
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=config.n_vocab, num_mel_bins=config.n_mels, d_model=config.n_audio_state,
            encoder_layers=config.n_audio_layer, decoder_layers=config.n_text_layer,
            encoder_attention_heads=config.n_audio_head, decoder_attention_heads=config.n_text_head,
            encoder_ffn_dim=4 * config.n_audio_state, decoder_ffn_dim=4 * config.n_audio_state,
            max_source_positions=config.n_audio_ctx, max_target_positions=config.n_text_ctx,
            pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, suppress_tokens=None,
            begin_suppress_tokens=None,
        )
    )  # fmt: skip
    values = {renamed(name): torch.from_numpy(value) for name, value in weights(config).items()}
    missing, unexpected = model.load_state_dict(values, strict=False)
    assert set(missing) <= {"model.encoder.embed_positions.weight", "proj_out.weight"} and not unexpected, missing
    return model.eval()


def gradients(model: Any, mel: torch.Tensor, tokens: torch.Tensor) -> dict[str, np.ndarray]:
    """Of the mean cross-entropy of each next token; all that is one number per row, to keep the file small."""
    logits = model(mel, tokens)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    sums = {name: p.grad.double().flatten(1).sum(1) if p.ndim > 1 else p.grad for name, p in model.named_parameters()}
    return {"loss": np.array(loss.item()), **{f"grad.{n}": g.numpy().astype(np.float32) for n, g in sums.items()}}


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for name, config in CONFIGS.items():
        mel, tokens = (torch.from_numpy(value) for value in inputs(config))
        first, second = openai_model(config), transformers_model(config)
        with torch.no_grad():
            audio, logits = first.encoder(mel), first(mel, tokens)
            other = second(input_features=mel, decoder_input_ids=tokens)
        print(name, "logits deviate by", float(logits.std()), "the two by", float((logits - other.logits).abs().max()))
        found[f"{name}.audio"], found[f"{name}.logits"] = audio.numpy(), logits.numpy()
        found[f"{name}.transformers"] = other.logits.numpy()
        if name == "small":
            found |= {f"{name}.{key}": value for key, value in gradients(first, mel, tokens).items()}
    write_npz(HERE / "golden_whisper.npz", found, absolute=1e-6)  # some gradients are 0 but for rounding


if __name__ == "__main__":
    main()
