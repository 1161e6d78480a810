"""Small Whisper models, the same weights everywhere, by openai's names: for the tests and make_golden_whisper."""

from __future__ import annotations

import numpy as np

from pyapp.models.whisper import Config

# Uneven on purpose: every number differs from every other it could be taken for.
SMALL = Config(
    n_mels=8, n_audio_ctx=12, n_audio_state=32, n_audio_head=2, n_audio_layer=1, n_vocab=90, n_text_ctx=20,
    n_text_state=32, n_text_head=4, n_text_layer=2,
)  # fmt: skip
DEEP = Config(
    n_mels=12, n_audio_ctx=30, n_audio_state=48, n_audio_head=3, n_audio_layer=3, n_vocab=70, n_text_ctx=16,
    n_text_state=48, n_text_head=6, n_text_layer=3,
)  # fmt: skip
CONFIGS = {"small": SMALL, "deep": DEEP}
# With room for all control tokens of a vocabulary of 269 pieces and three languages (tests/text).
SPEAKING = Config(
    n_mels=8, n_audio_ctx=10, n_audio_state=16, n_audio_head=2, n_audio_layer=1, n_vocab=1781, n_text_ctx=12,
    n_text_state=16, n_text_head=2, n_text_layer=2,
)  # fmt: skip


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter of openai's model but the encoder's fixed positions."""
    state, mlp = config.n_audio_state, 4 * config.n_audio_state
    result: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (state, config.n_mels, 3),
        "encoder.conv1.bias": (state,),
        "encoder.conv2.weight": (state, state, 3),
        "encoder.conv2.bias": (state,),
        "encoder.ln_post.weight": (state,),
        "encoder.ln_post.bias": (state,),
        "decoder.token_embedding.weight": (config.n_vocab, state),
        "decoder.positional_embedding": (config.n_text_ctx, state),
        "decoder.ln.weight": (state,),
        "decoder.ln.bias": (state,),
    }
    layers = {"encoder": config.n_audio_layer, "decoder": config.n_text_layer}
    for part, count in layers.items():
        for block in (f"{part}.blocks.{i}." for i in range(count)):
            for attention in ("attn", "cross_attn") if part == "decoder" else ("attn",):
                for name in ("query", "key", "value", "out"):
                    result[f"{block}{attention}.{name}.weight"] = (state, state)
                    if name != "key":
                        result[f"{block}{attention}.{name}.bias"] = (state,)
                result |= {f"{block}{attention}_ln.{kind}": (state,) for kind in ("weight", "bias")}
            result |= {f"{block}mlp_ln.{kind}": (state,) for kind in ("weight", "bias")}
            result |= {f"{block}mlp.0.weight": (mlp, state), f"{block}mlp.0.bias": (mlp,)}
            result |= {f"{block}mlp.2.weight": (state, mlp), f"{block}mlp.2.bias": (state,)}
    return result


def weights(config: Config, seed: int = 0) -> dict[str, np.ndarray]:
    """Random values, the same on every platform (RandomState's stream is frozen), that keep activations near 1."""
    random = np.random.RandomState(seed)
    result = {}
    for name, shape in shapes(config).items():
        value = random.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            value = value * np.float32(0.3) + np.float32(1.0 if name.endswith("weight") else 0.0)
        elif "embedding" not in name:
            value *= np.float32(1.6 / np.prod(shape[1:]) ** 0.5)
        result[name] = value.astype(np.float32)
    return result


def inputs(config: Config, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """mel (2, n_mels, 2 * n_audio_ctx) float32, tokens (2, n_text_ctx) int64."""
    random = np.random.RandomState(seed)
    mel = random.standard_normal((2, config.n_mels, 2 * config.n_audio_ctx)).astype(np.float32)
    return mel, random.randint(0, config.n_vocab, (2, config.n_text_ctx)).astype(np.int64)
