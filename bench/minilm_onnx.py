"""The encoder of embeddings.py as an ONNX file, for transformers.js: any number of texts and tokens, in the operators
of PyTorch's exporter, of which onnxruntime makes its fused ones while it loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyapp.formats.protobuf import bytes_field, float_field, int_field

FLOAT, UINT8, INT32, INT64 = 1, 2, 6, 7  # element types
CODES = {"float32": FLOAT, "uint8": UINT8, "int32": INT32, "int64": INT64}
OPSET = 17
MASKED = -1e9


class OnnxFile:
    """Nodes and tensors of a graph, written one after another."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def constant(self, name: str, value: np.ndarray) -> str:
        """A tensor of the file."""
        code = CODES.get(value.dtype.name, FLOAT)
        shape = b"".join(int_field(1, size) for size in value.shape)
        data = np.ascontiguousarray(value, np.float32 if code == FLOAT else None).tobytes()
        self._parts.append(bytes_field(5, shape + int_field(2, code) + bytes_field(8, name) + bytes_field(9, data)))
        return name

    def add(
        self, op: str, *inputs: str, output: str | None = None, more: Sequence[str] = (), domain: str = "",
        **attributes: Any,
    ) -> str:  # fmt: skip
        """A node; its output's name. `more` are the names of its other outputs."""
        self._count += 1
        made = output or f"value_{self._count}"
        body = b"".join(bytes_field(1, name) for name in inputs) + b"".join(
            bytes_field(2, name) for name in (made, *more)
        )
        body += bytes_field(4, op) + bytes_field(7, domain)
        self._parts.append(bytes_field(1, body + b"".join(map(_attribute, attributes, attributes.values()))))
        return made

    def write(
        self, path: Path, inputs: Mapping[str, list[Any]], output: str, shape: list[str | int],
        kinds: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`inputs` (int64, or of `kinds`) and the output (float32) with their dimensions: names, or sizes that are
        known.
        """
        parts = [bytes_field(2, "bench"), *self._parts]
        parts += [
            bytes_field(11, _info(name, CODES[str((kinds or {}).get(name, "int64"))], dims))
            for name, dims in inputs.items()
        ]
        parts.append(bytes_field(12, _info(output, FLOAT, shape)))
        opset = bytes_field(8, bytes_field(1, "") + int_field(2, OPSET))
        opset += bytes_field(8, bytes_field(1, "com.microsoft") + int_field(2, 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(int_field(1, 8) + bytes_field(7, b"".join(parts)) + opset)


def _attribute(name: str, value: Any) -> bytes:
    head = bytes_field(1, name)
    if isinstance(value, float):
        return bytes_field(5, head + float_field(2, value) + int_field(20, 1))
    if isinstance(value, int):
        return bytes_field(5, head + int_field(3, value) + int_field(20, 2))
    return bytes_field(5, head + b"".join(int_field(8, part) for part in value) + int_field(20, 7))


def _info(name: str, code: int, dims: Any) -> bytes:
    sizes = [bytes_field(2, size) if isinstance(size, str) else int_field(1, size) for size in dims]
    shape = b"".join(bytes_field(1, size) for size in sizes)
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, int_field(1, code) + bytes_field(2, shape)))


def write_bert(path: Path, weights: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> None:
    """input_ids, attention_mask and token_type_ids (B, T) → last_hidden_state (B, T, D)."""
    g = OnnxFile()
    heads = config["num_attention_heads"]
    width = config["hidden_size"]
    eps = float(config["layer_norm_eps"])

    def tensor(name: str) -> str:
        return g.constant(name, weights[name])

    def linear(x: str, name: str) -> str:
        matrix = g.constant(f"{name}.weight", weights[f"{name}.weight"].T)
        return g.add("Add", g.add("MatMul", x, matrix), tensor(f"{name}.bias"))

    def norm(x: str, name: str, output: str | None = None) -> str:
        scale, shift = tensor(f"{name}.weight"), tensor(f"{name}.bias")
        return g.add("LayerNormalization", x, scale, shift, output=output, axis=-1, epsilon=eps)

    one, two = g.constant("one", np.array(1, np.int64)), g.constant("two", np.array(2.0))
    split = g.constant("split", np.array([0, 0, heads, width // heads]))
    join = g.constant("join", np.array([0, 0, width]))
    length = g.add("Gather", g.add("Shape", "input_ids"), one, axis=0)
    positions = g.add("Range", g.constant("zero", np.array(0, np.int64)), length, one)
    x = g.add("Gather", tensor("embeddings.word_embeddings.weight"), "input_ids", axis=0)
    x = g.add("Add", x, g.add("Gather", tensor("embeddings.token_type_embeddings.weight"), "token_type_ids", axis=0))
    x = g.add("Add", x, g.add("Gather", tensor("embeddings.position_embeddings.weight"), positions, axis=0))
    x = norm(x, "embeddings.LayerNorm")
    # (B, 1, 1, T): 0 for tokens that count, MASKED for the others.
    mask = g.add("Unsqueeze", g.add("Cast", "attention_mask", to=FLOAT), g.constant("axes", np.array([1, 2])))
    mask = g.add("Mul", g.add("Sub", g.constant("one_float", np.array(1.0)), mask), g.constant("low", np.array(MASKED)))
    scale = g.constant("scale", np.array((width // heads) ** -0.5))
    root = g.constant("root", np.array(2**0.5))
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{index}"
        q, k, v = (
            g.add("Transpose", g.add("Reshape", linear(x, f"{layer}.attention.self.{name}"), split), perm=[0, 2, 1, 3])
            for name in ("query", "key", "value")
        )  # (B, H, T, D / H)
        scores = g.add("Mul", g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2])), scale)
        found = g.add("MatMul", g.add("Softmax", g.add("Add", scores, mask), axis=-1), v)
        found = g.add("Reshape", g.add("Transpose", found, perm=[0, 2, 1, 3]), join)
        found = linear(found, f"{layer}.attention.output.dense")
        x = norm(g.add("Add", found, x), f"{layer}.attention.output.LayerNorm")
        y = linear(x, f"{layer}.intermediate.dense")
        grown = g.add("Add", g.add("Erf", g.add("Div", y, root)), g.constant(f"{layer}.one", np.array(1.0)))
        y = g.add("Div", g.add("Mul", y, grown), two)
        last = "last_hidden_state" if index == config["num_hidden_layers"] - 1 else None
        x = norm(g.add("Add", linear(y, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm", last)
    dims = ["batch", "length"]
    g.write(path, {"input_ids": dims, "attention_mask": dims, "token_type_ids": dims}, x, [*dims, width])
