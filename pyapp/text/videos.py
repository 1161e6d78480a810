"""Videos in conversations, as a model sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.dtype import uint8
from pyapp.engine.user_errors import describe
from pyapp.errors import ModelError, OptionError

from .pictures import ROOM_HINT, Picture, of_user


class Video(Picture):
    """Frames uint8 (height, width, 3), `fps` of which are a second, as a model sees them (nn.vision_language.videos).
    Each few frames are what a picture's tile is. OptionError for frames of several sizes, for those that the model's
    processor does not take, and for more than `room` tokens, before they are prepared.
    """

    def __init__(self, loaded: Any, frames: Sequence[Tensor], fps: float, room: int) -> None:
        model, sense = loaded.model, loaded.model.watcher
        processor = loaded.watching or sense.processor(loaded.processor)
        if not hasattr(processor, "of_frames"):
            raise ModelError(f"{processor.kind}VideoProcessor prepares no videos", where=loaded.name)
        for frame in frames:
            if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype is not uint8:
                raise OptionError(f"a frame is uint8 (height, width, 3), not {describe(frame)}", where="messages")
        high, wide = int(frames[0].shape[0]), int(frames[0].shape[1])
        if any(tuple(frame.shape) != (high, wide, 3) for frame in frames):
            raise OptionError(
                "the frames of a video have several sizes", where="messages", hint="Give frames of one size"
            )
        rows, columns = of_user(lambda: processor.frame_tiles(len(frames), sense.frames, high, wide))
        self.rows, self.columns, self.size = rows, columns, (high, wide)
        parts = -(-len(frames) // sense.frames)
        count = parts * rows * columns
        if count > room:
            raise OptionError(
                f"a video of {len(frames):,} frames takes {count:,} tokens: there is room for {room:,}",
                where="messages", hint=ROOM_HINT,
            )  # fmt: skip
        values = of_user(lambda: processor.of_frames(frames, sense.frames))  # (parts, frames, 3, H, W)
        head = repr((len(frames), high, wide, rows, columns, fps)).encode()
        data = head + b"".join(bytes(frame.contiguous().data_view()) for frame in frames)
        text = sense.text(parts, rows * columns, len(frames), fps)
        self.begin(model, text, count, data, [values])
        self.sees, self.placeholder, self.around = sense.sees, sense.placeholder, sense.around
        self.times = sense.times(parts, fps)
        self.group = len(self.times) * rows * columns
