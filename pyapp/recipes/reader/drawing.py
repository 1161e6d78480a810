"""Draws lines of text as they are found in pictures of pages: a font on paper, its defects, and the crop around it."""

from __future__ import annotations

from io import BytesIO
from math import exp, log
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.reader.fonts import COMMON, COMMON_SHARE, SEEN, Font, installed, opened
from pyapp.recipes.reader.texts import line_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST, LARGEST = 11, 56  # pixels per em
EMPTY = 0.02  # of the lines have no text
ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """A drawn line: `pixels` uint8 (H, W), its text, and its font's family."""

    pixels: NDArray[np.uint8]
    text: str
    family: str


@dataclass(frozen=True, slots=True)
class Print:
    """How lines are printed: `families` of fonts, the most characters, how strong the defects are (0 to 1), and the
    shares of lines that have defects and of lines that are not text. `readable`: of texts.READABLE only. `margin`: the
    paper around the crop, of its height.
    """

    families: tuple[str, ...] = SEEN
    longest: int = 48
    defects: float = 1.0
    defective: float = 0.65
    empty: float = EMPTY
    readable: bool = False
    margin: float = 0.0


def choose_font(chooser: Chooser, families: tuple[str, ...], text: str = "") -> Font:
    """A face of the families, all equally likely except that some are common. It has the text's characters, if one of
    a few tries has.
    """
    known = installed()
    names = [name for name in families if name in known]
    common = [name for name in COMMON if name in known and name in families]
    for _ in range(ATTEMPTS):
        name = chooser.choose(common) if common and chooser.chance(COMMON_SHARE) else chooser.choose(names)
        font = chooser.choose(known[name])
        if font.has(text):
            break
    return font


def draw_lines(chooser: Chooser, how: Print, takes: int = 1) -> list[Line]:
    """A line of text as it is cut out of a page, with different defects in each take, because printing takes most of
    the time. A few lines are empty paper, or no text.
    """
    random = np.random.Generator(np.random.PCG64(int(chooser.random() * 2**53)))
    if chooser.chance(how.empty):
        return [Line(_no_text(chooser, random), "", "") for _ in range(takes)]
    text = line_text(chooser, how.longest, how.readable)
    font = choose_font(chooser, how.families, text)
    text = "".join(character for character in text if character == " " or ord(character) in font.characters)
    text = " ".join(text.split()) or "a"
    if chooser.chance(0.1 * how.defects):  # text of a low resolution
        size = int(chooser.between(SMALLEST, 15))
    else:
        size = round(exp(chooser.between(log(14), log(LARGEST))))
    printed = _printed(chooser, _spaced(chooser, text) if chooser.chance(0.1) else text, font, size)
    found = []
    for _ in range(takes):
        defects = how.defects if chooser.chance(how.defective) else 0.0
        ink = _bent(chooser, printed, defects) if defects else printed
        crop = _cut(chooser, ink, how.defects)
        ink, height = _with_margin(crop, how.margin), crop.height
        found.append(Line(_on_paper(chooser, random, ink, height, defects), text, font.family))
    return found


def _spaced(chooser: Chooser, text: str) -> str:
    """The text with wider spaces, as in justified lines and rows of tables."""
    most = chooser.choose((2, 3, 5))
    return "".join(" " * int(chooser.between(1, most + 1)) if character == " " else character for character in text)


def _printed(chooser: Chooser, text: str, font: Font, size: int) -> Any:
    """The text's ink, a Pillow picture of mode L: 0 paper, 255 ink, with a margin of an em."""
    from PIL import Image, ImageDraw

    face = opened(font.file, font.index, size, chooser.chance(0.5))
    spread = chooser.between(-0.04, 0.25) * size if chooser.chance(0.08) else 0.0
    bold = 1 if size > 24 and chooser.chance(0.04) else 0
    left, top, right, bottom = face.getbbox(text, stroke_width=bold)
    width = right - left + (spread * len(text) if spread > 0 else 0)
    image = Image.new("L", (int(width) + 2 * size + 4, int(bottom - top) + 2 * size + 4))
    draw = ImageDraw.Draw(image)
    x, y = size - left + chooser.random(), size - top + chooser.random()
    if spread:
        for character in text:
            draw.text((x, y), character, 255, face, stroke_width=bold)
            x += face.getlength(character) + spread
    else:
        draw.text((x, y), text, 255, face, stroke_width=bold)
    if chooser.chance(0.03):
        at = y + face.getmetrics()[0] + max(1, size // 12)
        draw.line((size - 2, at, image.width - size, at), 255, max(1, size // 16))
    return image


def _bent(chooser: Chooser, ink: Any, defects: float) -> Any:
    """Turned, sheared, stretched, or on a wave."""
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR
    width, height = ink.size
    if chooser.chance(0.6):
        tall = max(1.0, width / height)
        turn = defects * chooser.between(-0.035, 0.035) * min(1.0, 8 / tall)
        shear = chooser.between(-0.25, 0.25) if chooser.chance(0.2) else 0.0
        # A small turn is two shears: rows by columns here, columns by rows with `shear`.
        middle_x, middle_y = width / 2, height / 2
        matrix = (1.0, shear, -shear * middle_y, turn, 1.0, -turn * middle_x)
        room = int(abs(shear) * height / 2) + 1
        rise = int(abs(turn) * width / 2) + 1
        matrix = (1.0, shear, -shear * (middle_y + rise) - room, turn, 1.0, -turn * (middle_x + room) - rise)
        ink = ink.transform((width + 2 * room, height + 2 * rise), Image.Transform.AFFINE, matrix, bilinear)
    if chooser.chance(0.35):
        stretch = chooser.between(0.75, 1.3)
        ink = ink.resize((max(8, round(ink.width * stretch)), ink.height), bilinear)
    if chooser.chance(0.12):  # a page that is not flat
        array = np.asarray(ink)
        size, period = chooser.between(0, 0.06) * ink.height, ink.height * chooser.between(4, 20)
        shifts = np.rint(size * np.sin(np.arange(ink.width) / period * 6.28 + chooser.between(0, 6.28))).astype(int)
        rows = (np.arange(ink.height)[:, None] + shifts[None]) % ink.height
        ink = Image.fromarray(array[rows, np.arange(ink.width)[None]])
    return ink


def _cut(chooser: Chooser, ink: Any, defects: float) -> Any:
    """The crop around the ink, with the room that a line finder leaves, and at times more or less of it; and what a
    crop sees beside its line: parts of other lines, rules.
    """
    from PIL import Image, ImageDraw

    box = ink.point(lambda value: 255 if value > 100 else 0).getbbox() or (0, 0, *ink.size)
    height = max(6, box[3] - box[1])
    usual = (0.02, 0.22) if chooser.chance(0.7) else (0.0, 0.6)
    above, below, before, after = (height * chooser.between(*usual) for _ in range(4))
    if chooser.chance(0.15):
        before, after = before + height * chooser.between(0, 2), after + height * chooser.between(0, 2)
    sides = (
        max(0, int(box[0] - before)), max(0, int(box[1] - above)), min(ink.width, int(box[2] + after) + 1),
        min(ink.height, int(box[3] + below) + 1),
    )  # fmt: skip
    crop = ink.crop(sides)
    if chooser.chance(0.12 * defects):
        draw = ImageDraw.Draw(crop)
        thick = max(1, round(height * chooser.between(0.02, 0.1)))
        place = int(chooser.random() * 4)
        if place < 2:
            at = 0 if place == 0 else crop.height - 1
            draw.line((0, at, crop.width, at), 255, thick)
        else:
            at = 0 if place == 2 else crop.width - 1
            draw.line((at, 0, at, crop.height), 255, thick)
    if chooser.chance(0.12 * defects):  # the feet or heads of another line
        other = ink.crop(box).transpose(Image.Transpose.FLIP_LEFT_RIGHT).resize((crop.width, height))
        part = round(height * chooser.between(0.05, 0.16))
        at_top = chooser.chance(0.5)
        piece = other.crop((0, height - part, crop.width, height) if at_top else (0, 0, crop.width, part))
        room = int(above if at_top else below)
        if room >= part:
            crop.paste(piece, (0, 0 if at_top else crop.height - part))
    return crop


def _with_margin(ink: Any, margin: float) -> Any:
    """The ink with paper around it: `margin` of its height."""
    from PIL import ImageOps

    return ImageOps.expand(ink, max(6, round(margin * ink.height)), 0) if margin else ink


def _on_paper(chooser: Chooser, random: Any, ink: Any, height: int, defects: float) -> NDArray[np.uint8]:
    """uint8 (H, W): the ink of a line `height` pixels high on paper, through an optical system, at times as JPEG or in
    black and white. Light ink on dark paper is turned round, as a page's layout does.
    """
    from PIL import Image, ImageFilter

    if defects and chooser.chance(0.5):
        ink = ink.filter(ImageFilter.GaussianBlur(defects * chooser.between(0.0, 0.04) * height))
    if defects and chooser.chance(0.15):  # scaled down and up again
        small = max(10, round(height * chooser.between(0.4, 0.9)))
        size, filters = ink.size, (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.NEAREST)
        less = max(4, round(ink.width * small / height)), round(ink.height * small / height)
        ink = ink.resize(less, chooser.choose(filters[:2]))
        ink = ink.resize(size, chooser.choose(filters))
    if defects and height > 20 and chooser.chance(0.1):  # heavy or light print
        other = ink.filter(chooser.choose((ImageFilter.MaxFilter(3), ImageFilter.MinFilter(3))))
        if 0.6 < np.asarray(other).mean() / max(1.0, np.asarray(ink).mean()) < 1.7:  # still to be read
            ink = other
    cover = np.asarray(ink, np.float32) / 255
    dark, light = chooser.between(0, 70), chooser.between(200, 255)
    if defects and chooser.chance(0.3):  # low contrast
        light = chooser.between(90, 240)
        dark = max(0.0, light - chooser.between(30, 110))
    if chooser.chance(0.12):
        dark, light = light, dark
    paper = np.full(cover.shape, np.float32(light))
    contrast = abs(light - dark)
    if defects and chooser.chance(0.35):
        paper += _uneven(chooser, random, cover.shape, contrast * 0.25 * defects)
    shade = dark
    if defects and chooser.chance(0.15):  # worn print
        worn = random.random(cover.shape, np.float32) < chooser.between(0.0, 0.15) * defects
        cover = np.where(worn, cover * np.float32(chooser.between(0, 0.7)), cover)
    pixels = paper + (np.float32(shade) - paper) * cover
    if defects and chooser.chance(0.5):
        pixels += random.standard_normal(pixels.shape, np.float32) * np.float32(
            chooser.between(0, 0.16) * contrast * defects
        )
    if defects and chooser.chance(0.08):
        spots = random.random(pixels.shape, np.float32)
        share = chooser.between(0, 0.02)
        pixels = np.where(spots < share, np.float32(0), np.where(spots > 1 - share, np.float32(255), pixels))
    found = np.clip(pixels, 0, 255).astype(np.uint8)
    if defects and chooser.chance(0.25):
        file = BytesIO()
        Image.fromarray(found).save(file, "JPEG", quality=int(chooser.between(15, 85)))
        found = np.asarray(Image.open(file))
    if defects and chooser.chance(0.07):
        found = np.where(found > (dark + light) / 2 + chooser.between(-0.15, 0.15) * contrast, 255, 0).astype(np.uint8)
    return 255 - found if dark > light else found


def _uneven(chooser: Chooser, random: Any, shape: tuple[int, ...], strength: float) -> Any:
    """float32 `shape`: smooth differences of the light or of the paper, up to about `strength`."""
    from PIL import Image

    coarse = random.standard_normal((2 + int(chooser.random() * 3), 3 + int(chooser.random() * 12)), np.float32)
    field = Image.fromarray(coarse).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(field, np.float32) * np.float32(strength * chooser.between(0.2, 1.0))


def _no_text(chooser: Chooser, random: Any) -> NDArray[np.uint8]:
    """uint8 (H, W): paper, or shapes and surfaces that are not text."""
    from PIL import Image, ImageDraw

    height = int(chooser.between(16, 48))
    width = int(height * chooser.between(1, 10))
    base = np.full((height, width), np.float32(chooser.between(0, 255)))
    base += _uneven(chooser, random, base.shape, chooser.between(0, 80))
    base += random.standard_normal(base.shape, np.float32) * np.float32(chooser.between(0, 25))
    image = Image.fromarray(np.clip(base, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(int(chooser.between(0, 4))):
        points = [chooser.between(-0.2, 1.2) * side for side in (width, height, width, height)]
        shade = int(chooser.between(0, 256))
        if chooser.chance(0.5):
            draw.line(points, shade, int(chooser.between(1, 6)))
        else:
            draw.ellipse((*map(min, points[:2], points[2:]), *map(max, points[:2], points[2:])), shade)
    return np.asarray(image)
