"""Writes golden_events.json: the bytes that TensorBoard's own writer gives for some events.

python -m tests.train.make_golden_events (needs tensorboard)
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden_events.json")
WALL_TIME = 1712345678.25
EVENTS: list[tuple[int, dict[str, float]]] = [
    (0, {"epoch_loss": 0.5}), (1, {"epoch_loss": 0.25, "epoch_accuracy": 1.0}), (70000, {"größe": -3.5e9}),
]  # fmt: skip
DISTRIBUTIONS = [(1, "dense/kernel", [0.5, -1.25, 3.0, 0.5, 2.999, 1e-3]), (2, "same", [2.0, 2.0, 2.0])]
PICTURES = [(3, "drawn", (4, 2, 5, 3))]  # of which the first three are written
PICTURE = b"\x89PNG of a picture"  # in place of the file: compressors differ
TEXT = (4, "notes", "# A *text* ü")
LABELS, PREDICTIONS, WEIGHTS, THRESHOLDS = [1, 0, 1, 1, 0], [0.9, 0.4, 0.6, 0.1, 0.95], [1.0, 2.0, 0.5, 1.0, 1.0], 5
SETTINGS = {"rate": 0.125, "layers": 3, "name": "größe", "bias": True}
CHOICES = {"rate": [0.125, 0.25], "name": ["größe", "b"], "bias": [True, False]}
METRICS = ["loss", "accuracy"]
NODES: list[tuple[str, str, list[str], list[int] | None, str]] = [
    ("input/x", "IO Node", [], [4, 300], ""), ("Net/Linear[0]/weight", "Parameter", [], [0, 3], ""),
    ("Net/Linear[0]/linear", "linear", ["input/x", "Net/Linear[0]/weight"], [4, 3], "(None)"),
    ("output/y", "IO Node", ["Net/Linear[0]/linear"], None, ""),
]  # fmt: skip


def plugins() -> list[tuple[int, Any]]:
    """Summaries of texts, curves and hyperparameters."""
    import numpy as np
    from google.protobuf import struct_pb2
    from tensorboard.compat.proto import summary_pb2, tensor_pb2, types_pb2
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
    from tensorboard.util.tensor_util import make_tensor_proto

    def summary(tag: str, plugin: str, content: bytes, tensor: Any = None) -> Any:
        held = summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
        )
        return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, metadata=held, tensor=tensor)])

    found = [(TEXT[0], summary(f"{TEXT[1]}/text_summary", "text", b"", make_tensor_proto([TEXT[2]])))]
    rows = np.array(_curve(np.array(LABELS), np.array(PREDICTIONS), np.array(WEIGHTS)), np.float32)
    numbers = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=rows.ravel().tolist())
    for size in rows.shape:
        numbers.tensor_shape.dim.add(size=size)
    plugin = PrCurvePluginData(num_thresholds=THRESHOLDS).SerializeToString()
    found.append((5, summary("curve", "pr_curves", plugin, numbers)))

    def value(of: Any) -> Any:
        kind = "bool_value" if isinstance(of, bool) else "string_value" if isinstance(of, str) else "number_value"
        return struct_pb2.Value(**{kind: of})

    kinds = {float: "FLOAT64", int: "FLOAT64", str: "STRING", bool: "BOOL"}
    infos = [
        api_pb2.HParamInfo(
            name=name, type=api_pb2.DataType.Value(f"DATA_TYPE_{kinds[type(of)]}"),
            domain_discrete=struct_pb2.ListValue(values=map(value, CHOICES[name])) if name in CHOICES else None,
        )
        for name, of in SETTINGS.items()
    ]  # fmt: skip
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in METRICS]
    start = plugin_data_pb2.SessionStartInfo(hparams={name: value(of) for name, of in SETTINGS.items()})
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    for tag, part in (
        (metadata.EXPERIMENT_TAG, {"experiment": experiment}),
        (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
        (metadata.SESSION_END_INFO_TAG, {"session_end_info": end}),
    ):
        content = plugin_data_pb2.HParamsPluginData(**part).SerializeToString(deterministic=True)
        found.append((6, summary(tag, metadata.PLUGIN_NAME, content)))
    return found


def _curve(labels: Any, predictions: Any, weights: Any) -> Any:
    """The rows of a curve of precision and recall, from their meaning."""
    rows = []
    for at in range(THRESHOLDS):
        positive = predictions >= at / (THRESHOLDS - 1)
        tp, fp, tn, fn = (
            float((weights * (labels == k) * (positive == chosen)).sum())
            for k, chosen in ((1, True), (0, True), (0, False), (1, False))
        )
        rows.append((tp, fp, tn, fn, tp / max(1e-7, tp + fp), tp / max(1e-7, tp + fn)))
    return list(zip(*rows, strict=True))


def graph() -> bytes:
    """A GraphDef."""
    from tensorboard.compat.proto import graph_pb2

    found = graph_pb2.GraphDef()
    found.versions.producer = 22
    for name, op, inputs, shape, note in NODES:
        node = found.node.add(name=name, op=op, input=inputs)
        node.attr["attr"].s = note.encode()
        if shape is not None:
            sizes = node.attr["_output_shapes"].list.shape.add()
            for size in shape:
                sizes.dim.add(size=size)
    data: bytes = found.SerializeToString(deterministic=True)
    return data


def main() -> None:
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb
    from tensorboard.plugins.image.metadata import create_summary_metadata
    from tensorboard.summary.writer.record_writer import RecordWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    out: Any = io.BytesIO()
    writer = RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=WALL_TIME, file_version="brain.Event:2").SerializeToString())
    for step, values in EVENTS:
        numbers = [summary_pb2.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = event_pb2.Event(wall_time=WALL_TIME, step=step, summary=summary_pb2.Summary(value=numbers))
        writer.write(event.SerializeToString())
    summaries = [(step, histogram_pb(name, numbers)) for step, name, numbers in DISTRIBUTIONS]
    for step, name, (count, height, width, _) in PICTURES:
        tensor = make_tensor_proto([str(width).encode(), str(height).encode(), *[PICTURE] * min(count, 3)])
        value = summary_pb2.Summary.Value(tag=name, tensor=tensor, metadata=create_summary_metadata(None, None))
        summaries.append((step, summary_pb2.Summary(value=[value])))
    summaries += plugins()
    for step, summary in summaries:
        writer.write(event_pb2.Event(wall_time=WALL_TIME, step=step, summary=summary).SerializeToString())
    writer.write(event_pb2.Event(wall_time=WALL_TIME, graph_def=graph()).SerializeToString())
    GOLDEN.write_text(json.dumps(out.getvalue().hex()) + "\n")


if __name__ == "__main__":
    main()
