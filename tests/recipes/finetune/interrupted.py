"""Fine-tunings that may be stopped in the middle, and the files of examples for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyapp.events import Cancel, Event, Progress
from pyapp.recipes.finetune import finetune


def trained(model: Path | str, data: Path, out: Path, stop: int = 0, **settings: Any) -> list[Event]:
    """The events of a fine-tuning, which is cancelled after the step `stop`; 0: it is not."""
    cancel, events = Cancel(), []
    for event in finetune(model, data, out, cancel=cancel, **settings):
        events.append(event)
        if isinstance(event, Progress) and event.what == "training" and event.done == stop:
            cancel.set()
    return events


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
