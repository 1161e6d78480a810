"""Weights that two libraries can make alike: drawn from a generator that the parameter's name seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np


def draw(name: str, shape: tuple[int, ...], salt: int = 0) -> np.ndarray:
    """float32 values of a parameter: norms near 1, biases small, matrices with the deviation 1 / sqrt(columns), so that
    activations keep their size."""
    generator = np.random.Generator(np.random.Philox(key=crc32(name.encode()) + (salt << 32)))
    values = generator.standard_normal(shape, dtype=np.float64)
    if len(shape) < 2:
        centre = 1.0 if "norm" in name.lower() or "ln_" in name or "layernorm" in name.lower() else 0.0
        if name.endswith(("ln1.weight", "ln2.weight", "pre_ln.weight")):  # of RWKV
            centre = 1.0
        if name.endswith(("states_scale", "residual_scale", "qk_norm.temp")):  # of ZAYA
            centre = 1.0
        if name.endswith("bias"):
            centre = 0.0
        return np.asarray(centre + 0.1 * values, np.float32)
    embedding = any(part in name for part in ("embed", "wte", "wpe"))
    return (values * (0.3 if embedding else shape[-1] ** -0.5)).astype(np.float32)


def direction(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A fixed vector to compare gradients with."""
    generator = np.random.Generator(np.random.Philox(key=crc32(b"direction " + name.encode())))
    return generator.standard_normal(shape, dtype=np.float64)


def picture_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw`, for models of pictures: filters have the deviation 1 / sqrt(their inputs), variances of batches are
    near 0.6, and the tables of tokens and positions small.
    """
    if name.endswith("running_var"):  # so that values keep their size through a filter and half an activation
        return np.abs(0.6 * draw("norm " + name, shape)).astype(np.float32)
    if name.endswith("running_mean"):
        return draw(f"{name} bias", shape)
    if name.endswith(("put_min", "put_max")):  # limits of a layer's numbers
        return np.asarray((1.0 + np.abs(draw(name, shape))) * (-1 if name.endswith("min") else 1), np.float32)
    if len(shape) == 1 and any(
        part in name for part in ("lambda", "layer_scale", "gamma", ".bn", "_bn", "normalization")
    ):
        return draw("norm " + name, shape) if not name.endswith("bias") else draw(name, shape)
    values = draw(name, shape)
    if len(shape) == 2 and any(
        part in name for part in ("token_confidence", "matchability", "final_projection.weight")
    ):
        return values * np.float32(6)  # so that matchers of points are sure of some
    if len(shape) == 4:
        values = values * np.float32(shape[-1] ** 0.5 * float(np.prod(shape[1:])) ** -0.5)
    elif len(shape) == 3 or "position_bias" in name:
        values = values * np.float32(0.3 * shape[-1] ** 0.5)
    return values


def sound_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw`, for encoders of sound: filters have the deviation 1 / sqrt(their inputs), norms of weights are near 1,
    and batches have statistics.
    """
    if len(shape) != 3:
        return picture_weights(name, shape)
    if name.endswith("original0"):
        return np.asarray(1 + 0.1 * draw(name, shape), np.float32)
    return draw(name, shape) * np.float32(shape[-1] ** 0.5 * float(np.prod(shape[1:])) ** -0.5)


def voice_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw`, for models that speak: filters have the deviation 1 / sqrt(their inputs), so that sound keeps its
    size, and durations are a few frames.
    """
    if name.endswith(("log_scale", "translate")):
        return (0.5 * draw(name, shape)).astype(np.float32)
    if len(shape) != 3 or "emb_rel" in name:
        values = draw(name, shape)
        return values + np.float32(0.5 if name == "duration_predictor.proj.bias" else 0)
    inputs = shape[0] * shape[2] / 2 if "upsampler" in name else float(np.prod(shape[1:]))
    return draw(name, shape) * np.float32(shape[-1] ** 0.5 * inputs**-0.5)


def codec_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `voice_weights`, for codecs: entries of codebooks are as large as vectors of sound."""
    if name.endswith("alpha"):
        return np.exp(0.3 * draw(name, shape)).astype(np.float32)
    if name.endswith(("embed", "codebook.weight")):
        return (draw(name, shape) * np.float32(1 / 0.3 if "embed" in name else shape[-1] ** 0.5)).astype(np.float32)
    inputs = shape[0] * shape[2] / 2 if len(shape) == 3 and _is_transposed(name) else float(np.prod(shape[1:]))
    of_snac = name.startswith("decoder.model.") and shape[0] == 1
    loud = 0.1 if name == "decoder.conv2.weight" else 0.02 if of_snac else 1.0  # the last, before a hyperbolic tangent
    return draw(name, shape) * np.float32(loud * shape[-1] ** 0.5 * inputs**-0.5 if len(shape) == 3 else 1)


def _is_transposed(name: str) -> bool:
    """Whether this is the weight of a transposed convolution; those of EnCodec's decoder do not say it."""
    of_encodec = name.startswith("decoder.layers.") and name.endswith(".conv.weight") and ".block." not in name
    of_snac = name.startswith("decoder.model.") and name.endswith(".block.1.weight") and name.count(".block.") == 1
    return of_encodec or of_snac or ".conv_t1." in name


def picture(count: int, height: int, width: int) -> np.ndarray:
    """(count, 3, height, width) float32, as an image processor could make them."""
    generator = np.random.Generator(np.random.Philox(key=height * 1000 + width))
    return generator.standard_normal((count, 3, height, width)).astype(np.float32)


def shown(values: np.ndarray, most: int = 48) -> np.ndarray:
    """Some numbers of an output, of all of its parts: at most `most`, at equal distances."""
    flat = np.asarray(values).reshape(-1)
    return flat[:: max(1, -(-len(flat) // most) | 1)]


def music_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw` and `codec_weights`, for models that write the codes of a codec."""
    own = name.removeprefix("audio_encoder.")
    return codec_weights(own, shape) if own != name else draw(name, shape)


def rounded(values: Any) -> list[float]:
    """The numbers of an array, short in JSON."""
    return [float(f"{value:.6g}") for value in np.asarray(values, np.float64).reshape(-1)]


def gradients_of(model: Any, names: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
    """Of each parameter of a torch model, by its name (in files, as `names` says): the shape, the sum of its gradient,
    and the product of that with a fixed vector.
    """
    found = {}
    for key, parameter in model.named_parameters():
        own = key if names is None else names[key]
        grad = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.double().numpy()
        found[own] = [list(parameter.shape), *rounded([grad.sum(), (grad * direction(own, grad.shape)).sum()])]
    return found


def frame_weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `codec_weights` for the codec of a model that writes codes, and as `draw` for the rest; uses of codebooks'
    entries are 1.
    """
    if name.endswith("cluster_usage"):
        return np.ones(shape, np.float32)
    if "codebooks_head" in name:
        return draw(name, shape) * np.float32((shape[2] / shape[1]) ** 0.5)
    if not name.startswith("codec_model."):
        return draw(name, shape) * np.float32(3 if "embed" in name else 1)
    return codec_weights(name.removesuffix("_sum"), shape)
