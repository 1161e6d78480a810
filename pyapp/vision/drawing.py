"""Draw on pictures what models find in them: boxes of objects, areas of labels, and key points. Natively, by Pillow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from pyapp.engine import Tensor
from pyapp.engine.lazy import np

STEPS = 360  # hues
OPACITY = 0.5  # of an area over the picture


def colour_of(label: str) -> tuple[int, int, int]:
    """The colour (red, green, blue) of a label, always the same."""
    from PIL import ImageColor

    number = crc32(label.encode())
    found = ImageColor.getrgb(f"hsv({number % STEPS}, {70 + number // STEPS % 31}%, 90%)")
    return found[0], found[1], found[2]


def draw_boxes(image: Tensor, objects: Sequence[Mapping[str, Any]]) -> Tensor:
    """A picture uint8 (H, W, 3) and objects (`label`, `score`, `box`: left, top, right, bottom in pixels; turned boxes
    have `corners`, four [x, y], poses `points`, each [x, y, …]) → the picture with their boxes, the most probable on
    top. ImportError without Pillow.
    """
    from PIL import Image, ImageDraw, ImageFont

    height, width = int(image.shape[0]), int(image.shape[1])
    picture = Image.fromarray(image.numpy())
    pen, side = ImageDraw.Draw(picture), max(height, width)
    line, font = max(1, side // 300), ImageFont.load_default(max(10, side // 50))
    for found in reversed(objects):
        colour, text = (
            colour_of(found["label"]),
            found["label"] + (f" {found['score']:.2f}" if "score" in found else ""),
        )
        left, top, right, bottom = (
            min(max(value, 0), most) for value, most in zip(found["box"], (width, height) * 2, strict=True)
        )
        if "corners" in found:
            corners = [(x, y) for x, y in found["corners"]]
            pen.line([*corners, corners[0]], fill=colour, width=line, joint="curve")
            x, y = min(corners, key=lambda corner: corner[1])  # its name stands at the highest corner
            left, top = min(max(x, 0), width), min(max(y, 0), height)
        else:
            pen.rectangle((left, top, max(left, right), max(top, bottom)), outline=colour, width=line)
        for x, y, *_ in found.get("points", ()):
            pen.ellipse((x - 2 * line, y - 2 * line, x + 2 * line, y + 2 * line), fill=colour)
        place = pen.textbbox((left + line, top + line), text, font=font)
        pen.rectangle(place, fill=colour)
        pen.text((left + line, top + line), text, fill=(0, 0, 0), font=font)
    return Tensor.from_buffer(picture.tobytes(), (height, width, 3), "uint8")


def draw_points(image: Tensor, points: Sequence[Sequence[float]]) -> Tensor:
    """A picture uint8 (H, W, 3) and points, each [x, y, …] in pixels → the picture with them. ImportError without
    Pillow.
    """
    from PIL import Image, ImageDraw

    height, width = int(image.shape[0]), int(image.shape[1])
    picture = Image.fromarray(image.numpy())
    pen, radius = ImageDraw.Draw(picture), max(1, max(height, width) // 300)
    for x, y, *_ in points:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(0, 255, 0))
    return Tensor.from_buffer(picture.tobytes(), (height, width, 3), "uint8")


def draw_matches(first: Tensor, second: Tensor, matches: Sequence[Sequence[float]]) -> Tensor:
    """Two pictures uint8 (H, W, 3) and the matches of their points, each [x, y, x', y', how sure it is from 0 to 1] in
    pixels → both side by side (the larger H, both W, 3), with a line for each match: green if it is sure, red if not.
    ImportError without Pillow.
    """
    from PIL import Image, ImageDraw

    height, wide = max(int(first.shape[0]), int(second.shape[0])), int(first.shape[1])
    width = wide + int(second.shape[1])
    picture = Image.new("RGB", (width, height))
    picture.paste(Image.fromarray(first.numpy()), (0, 0))
    picture.paste(Image.fromarray(second.numpy()), (wide, 0))
    pen, line = ImageDraw.Draw(picture), max(1, height // 300)
    for x, y, u, v, sure in sorted(matches, key=lambda match: match[4]):
        colour = (round(255 * (1 - sure)), round(255 * sure), 0)
        pen.line([(x, y), (u + wide, v)], fill=colour, width=line)
    return Tensor.from_buffer(picture.tobytes(), (height, width, 3), "uint8")


def draw_areas(image: Tensor, areas: Any, labels: Sequence[str]) -> Tensor:
    """A picture uint8 (H, W, 3) and the number of each pixel's label (H, W) → the picture in the labels' colours."""
    colours = np.array([colour_of(label) for label in labels], "float32")  # (labels, 3)
    mixed = (1 - OPACITY) * image.numpy() + OPACITY * colours[np.asarray(areas)]
    return Tensor.from_buffer(mixed.round().astype("uint8").tobytes(), tuple(image.shape), "uint8")
