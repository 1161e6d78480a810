"""What plugins of TensorBoard show beside numbers: texts, curves of precision and recall, hyperparameters, graphs.

Sources: text/plugin_data.proto, pr_curve/plugin_data.proto, hparams/plugin_data.proto and hparams/api.proto of
tensorboard/plugins; graph.proto, node_def.proto, attr_value.proto and tensor_shape.proto of tensorflow/core/framework;
struct.proto of google/protobuf.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyapp.engine.lazy import np

from .protobuf import bytes_field, varint
from .tfevents import FLOAT, STRING, of_plugin, tensor_of

MOST_THRESHOLDS = 127
_TEXT, _BOOL, _NUMBER = 1, 2, 3  # DATA_TYPE_STRING, DATA_TYPE_BOOL, DATA_TYPE_FLOAT64
_SUCCESS = 1  # STATUS_SUCCESS
_PRODUCER = 22  # the version of GraphDef that torch writes


def text_value(name: str, text: str) -> bytes:
    """A text, in Markdown."""
    return of_plugin(f"{name}/text_summary", "text", tensor_of(STRING, (1,), bytes_field(8, text.encode())))


def pr_curve(labels: Any, predictions: Any, thresholds: int, weights: Any = None) -> Any:
    """labels (N,), 0 or 1, predictions (N,), from 0 to 1, weights (N,) or None → (6, thresholds) float64: true and
    false positives, true and false negatives, precision and recall, where what is predicted with
    i / (thresholds - 1) or more counts as positive.
    """
    labels, predictions = (np.asarray(x, np.float64).ravel() for x in (labels, predictions))
    weights = (
        np.ones_like(labels) if weights is None else np.broadcast_to(np.asarray(weights, np.float64), labels.shape)
    )
    places = np.floor(predictions * (thresholds - 1))
    inside = (places >= 0) & (places < thresholds)
    places, labels, weights = places[inside].astype(np.int64), labels[inside], weights[inside]

    def above(counts: Any) -> Any:
        return np.cumsum(np.bincount(places, counts, thresholds)[::-1])[::-1]

    tp, fp = above(labels * weights), above((1 - labels) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    return np.stack([tp, fp, tn, fn, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)])


def pr_curve_value(name: str, curve: Any) -> bytes:
    """A curve (6, thresholds) as `pr_curve` gives it."""
    data = np.asarray(curve, np.float32)
    content = bytes_field(5, data.astype("<f4").tobytes())
    settings = b"\x10" + varint(min(data.shape[1], MOST_THRESHOLDS))  # num_thresholds
    return of_plugin(name, "pr_curves", tensor_of(FLOAT, data.shape, content), settings)


def hparams_values(
    settings: Mapping[str, Any], metrics: Sequence[str], choices: Mapping[str, Sequence[Any]]
) -> list[bytes]:
    """The three values of a session: the experiment, its start with the settings, its end. `settings` are texts, bools
    and numbers; `choices` the values that some of them can have; `metrics` the names of numbers that are written
    beside them.
    """
    infos, held = b"", b""
    for name, value in settings.items():
        kind = _BOOL if isinstance(value, bool) else _TEXT if isinstance(value, str) else _NUMBER
        info = bytes_field(1, name.encode()) + b"\x20" + varint(kind)
        if name in choices:
            info += bytes_field(5, b"".join(bytes_field(1, _value(choice)) for choice in choices[name]))
        infos += bytes_field(4, info)
    for name in sorted(settings):
        held += bytes_field(1, bytes_field(1, name.encode()) + bytes_field(2, _value(settings[name])))
    infos += b"".join(bytes_field(5, bytes_field(1, bytes_field(2, name.encode()))) for name in metrics)
    parts = {"experiment": bytes_field(2, infos), "session_start_info": bytes_field(3, held),
             "session_end_info": bytes_field(4, b"\x08" + varint(_SUCCESS))}  # fmt: skip
    return [of_plugin(f"_hparams_/{part}", "hparams", None, content) for part, content in parts.items()]


def _value(value: Any) -> bytes:
    """A Value of struct.proto."""
    if isinstance(value, bool):
        return b"\x20" + varint(value)
    if isinstance(value, str):
        return bytes_field(3, value.encode())
    return b"\x11" + struct.pack("<d", value)


class GraphNode(NamedTuple):
    """A node of a graph: its name, with slashes between the names of what it is in; what it is, the names of the nodes
    whose results it takes, the shape of its own result, and a text about it."""

    name: str
    op: str
    inputs: Sequence[str]
    shape: Sequence[int] | None
    note: str


def graph_def(nodes: Sequence[GraphNode]) -> bytes:
    """A GraphDef."""
    return b"".join(bytes_field(1, _node(node)) for node in nodes) + bytes_field(4, b"\x08" + varint(_PRODUCER))


def _node(node: GraphNode) -> bytes:
    parts = [
        bytes_field(1, node.name.encode()),
        bytes_field(2, node.op.encode()),
        *(bytes_field(3, name.encode()) for name in node.inputs),
    ]
    if node.shape is not None:
        dims = b"".join(bytes_field(2, (b"\x08" + varint(size)) if size else b"") for size in node.shape)
        parts.append(_attribute("_output_shapes", bytes_field(1, bytes_field(7, dims))))
    parts.append(_attribute("attr", bytes_field(2, node.note.encode())))
    return b"".join(parts)


def _attribute(name: str, value: bytes) -> bytes:
    return bytes_field(5, bytes_field(1, name.encode()) + bytes_field(2, value))
