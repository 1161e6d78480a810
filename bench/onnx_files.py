"""ONNX files with random weights, in shapes that peers run too, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp import from_numpy, no_grad

from .embeddings import write_folder
from .minilm_onnx import OnnxFile
from .speech_workload import TINY, build

ROWS, TOKENS = 8, 32  # of the sentence encoder
PAST = 128  # tokens that the decoder has read
# SmolLM2-135M's shape.
LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY, BLOCK = 30, 576, 9, 3, 1536, 49152, 32
Inputs = Mapping[str, np.ndarray]


def minilm(path: Path) -> Inputs:
    """The encoder of all-MiniLM-L6-v2: 8 texts of 32 tokens."""
    path.write_bytes((write_folder() / "onnx" / "model.onnx").read_bytes())
    ids = np.random.default_rng(3).integers(5, 30000, (ROWS, TOKENS))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def whisper_encoder(path: Path) -> Inputs:
    """The encoder of whisper-tiny: 30 seconds."""
    return _exported(build("f32").encoder, np.random.default_rng(3).standard_normal((1, TINY.n_mels, 3000)), path)


def resnet(path: Path) -> Inputs:
    """ResNet-50: a picture of 224 x 224."""
    from pyapp.models.resnet import TASKS, Config

    return _classifier(TASKS, Config.from_dict({"model_type": "resnet"}), path)


def mobilenet(path: Path) -> Inputs:
    """MobileNet v2: a picture of 224 x 224."""
    from pyapp.models.mobilenet_v2 import TASKS, Config

    return _classifier(TASKS, Config.from_dict({"model_type": "mobilenet_v2", "tf_padding": False}), path)


def _classifier(tasks: Mapping[str, Callable[[Any], Any]], config: Any, path: Path) -> Inputs:
    pyapp.manual_seed(0)
    return _exported(
        tasks["image-classification"](config), np.random.default_rng(3).standard_normal((1, 3, 224, 224)), path
    )


def _exported(module: Any, values: np.ndarray, path: Path) -> Inputs:
    module.eval()
    x = values.astype(np.float32)
    with no_grad():
        pyapp.onnx.export(module, from_numpy(x), path, input_names=["x"])
    return {"x": x}


def decoder(path: Path) -> Inputs:
    """A token of a decoder whose weights have 4 bits, after 128: MatMulNBits and GroupQueryAttention, as exporters for
    onnxruntime write them.
    """
    g, random, size = OnnxFile(), np.random.default_rng(3), WIDTH // HEADS
    microsoft = {"domain": "com.microsoft"}

    def linear(x: str, name: str, inner: int, outer: int) -> str:
        blocks = random.integers(0, 256, (outer, inner // BLOCK, BLOCK // 2), np.uint8)
        scales = (random.random(outer * inner // BLOCK) * 0.01).astype(np.float32)
        weight = g.constant(f"{name}.weight", blocks), g.constant(f"{name}.scales", scales)
        return g.add("MatMulNBits", x, *weight, K=inner, N=outer, bits=4, block_size=BLOCK, **microsoft)

    def norm(x: str, name: str) -> str:
        scale = g.constant(name, np.ones(WIDTH, np.float32))
        return g.add("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)

    x = "x"
    cached = {}
    for layer in range(LAYERS):
        y = norm(x, f"{layer}.norm")
        q = linear(y, f"{layer}.q", WIDTH, WIDTH)
        k, v = (linear(y, f"{layer}.{part}", WIDTH, KV_HEADS * size) for part in "kv")
        past = [f"{layer}.past_{part}" for part in ("key", "value")]
        for name in past:
            cached[name] = random.standard_normal((1, KV_HEADS, PAST, size)).astype(np.float32)
        y = g.add("GroupQueryAttention", q, k, v, *past, "length", "total", num_heads=HEADS, kv_num_heads=KV_HEADS,
                  more=[f"{layer}.present_{part}" for part in ("key", "value")], **microsoft)  # fmt: skip
        x = g.add("Add", x, linear(y, f"{layer}.o", WIDTH, WIDTH))
        y = norm(x, f"{layer}.mlp_norm")
        gate = linear(y, f"{layer}.gate", WIDTH, HIDDEN)
        gate = g.add("Mul", gate, g.add("Sigmoid", gate))
        y = g.add("Mul", gate, linear(y, f"{layer}.up", WIDTH, HIDDEN))
        x = g.add("Add", x, linear(y, f"{layer}.down", HIDDEN, WIDTH))
    logits = linear(norm(x, "norm"), "head", WIDTH, VOCABULARY)
    inputs = {
        "x": random.standard_normal((1, 1, WIDTH)).astype(np.float32), **cached,
        "length": np.array([[PAST]], np.int32), "total": np.array([PAST + 1], np.int32),
    }  # fmt: skip
    g.write(path, {name: list(value.shape) for name, value in inputs.items()}, logits, [1, 1, VOCABULARY],
            {name: value.dtype for name, value in inputs.items()})  # fmt: skip
    return inputs


FILES: Mapping[str, Callable[[Path], Inputs]] = {
    "minilm": minilm, "whisper-tiny encoder": whisper_encoder, "resnet-50": resnet, "mobilenet-v2": mobilenet,
    "q4 decoder": decoder,
}  # fmt: skip
