"""Pictures: read from files, resampled, prepared for models, and what models find in them drawn.

A picture is a tensor uint8 (height, width, 3), red, green and blue from 0 to 255. Each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from .drawing import draw_areas, draw_boxes, draw_matches, draw_points
    from .reading import from_pixels, read_image, read_image_async
    from .resampling import resize

__all__ = [
    "draw_areas",
    "draw_boxes",
    "draw_matches",
    "draw_points",
    "from_pixels",
    "read_image",
    "read_image_async",
    "resize",
]

__getattr__ = late_names(
    __name__,
    {
        "drawing": "draw_areas draw_boxes draw_matches draw_points",
        "reading": "from_pixels read_image read_image_async",
        "resampling": "resize",
    },
)
