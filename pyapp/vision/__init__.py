"""Pictures: read from files, resampled, prepared for models, and what models find in them drawn.

A picture is a tensor uint8 (height, width, 3), red, green and blue from 0 to 255. Each name is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drawing import draw_areas, draw_boxes
    from .reading import from_pixels, read_image, read_image_async
    from .resampling import resize

_HOMES = {
    "draw_areas": "drawing",
    "draw_boxes": "drawing",
    "from_pixels": "reading",
    "read_image": "reading",
    "read_image_async": "reading",
    "resize": "resampling",
}

__all__ = ["draw_areas", "draw_boxes", "from_pixels", "read_image", "read_image_async", "resize"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
