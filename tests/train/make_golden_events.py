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
    for step, summary in summaries:
        writer.write(event_pb2.Event(wall_time=WALL_TIME, step=step, summary=summary).SerializeToString())
    GOLDEN.write_text(json.dumps(out.getvalue().hex()) + "\n")


if __name__ == "__main__":
    main()
