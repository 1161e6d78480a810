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


def main() -> None:
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    out: Any = io.BytesIO()
    writer = RecordWriter(out)
    writer.write(event_pb2.Event(wall_time=WALL_TIME, file_version="brain.Event:2").SerializeToString())
    for step, values in EVENTS:
        numbers = [summary_pb2.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = event_pb2.Event(wall_time=WALL_TIME, step=step, summary=summary_pb2.Summary(value=numbers))
        writer.write(event.SerializeToString())
    GOLDEN.write_text(json.dumps(out.getvalue().hex()) + "\n")


if __name__ == "__main__":
    main()
