"""Writes small ONNX files without the onnx package, damaged ones too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyapp.formats.onnx_file import ELEMENT_CODES
from pyapp.formats.protobuf import bytes_field, float_field, int_field


def tensor(name: str, array: Any, **external: Any) -> bytes:
    """A TensorProto; with `external` (location, offset, length) its data are elsewhere."""
    array = np.asarray(array)
    body = (
        b"".join(int_field(1, n) for n in array.shape)
        + int_field(2, ELEMENT_CODES[array.dtype.name])
        + bytes_field(8, name)
    )
    if external:
        pairs = (bytes_field(13, bytes_field(1, key) + bytes_field(2, str(value))) for key, value in external.items())
        return body + b"".join(pairs) + int_field(14, 1)
    return body + bytes_field(9, array.tobytes())


def attribute(name: str, value: Any) -> bytes:
    head = bytes_field(1, name)
    if isinstance(value, bytes):  # a graph
        return head + bytes_field(6, value) + int_field(20, 5)
    if isinstance(value, str):
        return head + bytes_field(4, value) + int_field(20, 3)
    if isinstance(value, float):
        return head + float_field(2, value) + int_field(20, 1)
    if isinstance(value, int):
        return head + int_field(3, value) + int_field(20, 2)
    return head + b"".join(int_field(8, part) for part in value) + int_field(20, 7)


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", domain: str = "", **attributes: Any
) -> bytes:
    body = b"".join(bytes_field(1, n) for n in inputs) + b"".join(bytes_field(2, n) for n in outputs)
    body += bytes_field(3, name) + bytes_field(4, op) + bytes_field(7, domain)
    return body + b"".join(bytes_field(5, attribute(key, value)) for key, value in attributes.items())


def value(name: str, shape: Sequence[int | str] | None = None, element: str = "float32") -> bytes:
    dims = b"" if shape is None else bytes_field(
        2, b"".join(bytes_field(1, bytes_field(2, n) if isinstance(n, str) else int_field(1, n)) for n in shape)
    )  # fmt: skip
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, int_field(1, ELEMENT_CODES[element]) + dims))


def graph(
    nodes: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes], tensors: Sequence[bytes] = ()
) -> bytes:
    parts = [bytes_field(1, n) for n in nodes] + [bytes_field(2, "test")] + [bytes_field(5, t) for t in tensors]
    return b"".join(parts + [bytes_field(11, v) for v in inputs] + [bytes_field(12, v) for v in outputs])


def model(body: bytes, opset: int = 20, **domains: int) -> bytes:
    opsets = bytes_field(8, bytes_field(1, "") + int_field(2, opset))
    for domain, version in domains.items():
        opsets += bytes_field(8, bytes_field(1, domain) + int_field(2, version))
    return int_field(1, 9) + bytes_field(2, "test") + bytes_field(7, body) + opsets
