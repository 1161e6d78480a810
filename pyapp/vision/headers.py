"""Texts above pictures, as Pix2Struct reads questions (Lee et al. 2022, arXiv 2210.03347)."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import OptionError

COLUMNS = 80  # characters of a line
POINTS = 36  # of the font
MARGIN = 5  # pixels around the text


def header(text: str, font: Any) -> Callable[[Tensor], Tensor]:
    """What puts a text above pictures uint8 (H, W, 3): black on white, as wide as the wider of both. font: a file of
    TrueType. OptionError for one that cannot be read, and for an empty text.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise ImportError("texts are drawn by Pillow, which is not installed: pip install pyapp[vision]") from error
    words = "\n".join(textwrap.wrap(text, COLUMNS))
    if not words:
        raise OptionError("is empty", where="prompt", hint="Ask what you want to know of the picture")
    try:
        face = ImageFont.truetype(font, POINTS, encoding="UTF-8")
    except OSError as error:
        raise OptionError(f"it cannot be read ({error})", where="font", hint="Give a .ttf file") from error
    left, top, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), words, font=face)
    title = Image.new("RGB", (int(right) + 2 * MARGIN, int(bottom) + 2 * MARGIN), "white")
    ImageDraw.Draw(title).text((MARGIN, MARGIN), words, fill="black", font=face)

    def draw(image: Tensor) -> Tensor:
        picture = Image.fromarray(np.ascontiguousarray(image.cpu().numpy()))
        wide = max(title.width, picture.width)
        high, above = int(picture.height * (wide / picture.width)), int(title.height * (wide / title.width))
        whole = Image.new("RGB", (wide, high + above), "white")
        whole.paste(title.resize((wide, above)), (0, 0))
        whole.paste(picture.resize((wide, high)), (0, above))
        return from_numpy(np.array(whole))

    return draw
