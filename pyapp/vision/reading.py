"""Read pictures: natively by Pillow, in the page by the browser's decoders.

Of every file the first picture is read, turned as its EXIF orientation says. Transparent pixels are laid on white, 16
bits become 8, palettes and other colour spaces become red, green and blue.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import ArgumentError, FileFormatError, OptionError, PyappError
from pyapp.formats import BytesSource
from pyapp.formats.source import opened_source

PIXEL_LIMIT = 1 << 27  # of a picture: 400 MB in memory
FILE_LIMIT = 1 << 30  # bytes
# What Pillow decodes by itself, and the ends of names. Others, such as EPS, would start programs of the system.
FORMATS = {
    "PNG": (".png",), "JPEG": (".jpg", ".jpeg"), "WEBP": (".webp",), "GIF": (".gif",), "BMP": (".bmp",),
    "DIB": (".dib",), "TIFF": (".tif", ".tiff"), "PPM": (".ppm", ".pgm", ".pbm"), "JPEG2000": (".jp2",),
    "AVIF": (".avif",), "ICO": (".ico",), "TGA": (".tga",),
}  # fmt: skip
SUFFIXES = tuple(suffix for suffixes in FORMATS.values() for suffix in suffixes)  # of files that are pictures
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
PDF_SCALE = 200 / 72  # 200 pixels an inch
HINT = "Save it again as PNG or JPEG"


def read_image(source: Any, mode: str = "RGB", limit: int = PIXEL_LIMIT) -> Tensor:
    """A picture's file (a path, bytes or a ByteSource) → uint8 (height, width, C); C is 3 for "RGB", 1 for "L" (grey),
    4 for "RGBA". `limit`: the most pixels.

    FileFormatError for a file that is damaged, too large, empty or no picture; OptionError for another mode; OSError as
    open() raises; ImportError natively without Pillow. In the page the browser decodes, which takes a promise: where
    Python may not wait for it there, use `read_image_async`.
    """
    data, name = _read(source, mode)
    if sys.platform != "emscripten":
        return _by_pillow(data, name, mode, limit)
    from pyodide.ffi import can_run_sync, run_sync

    if not can_run_sync():
        raise FileFormatError(
            "this browser decodes pictures only asynchronously", where=name, hint="Use `await read_image_async(…)`"
        )
    found: Tensor = run_sync(_by_browser(data, name, mode, limit))
    return found


async def read_image_async(source: Any, mode: str = "RGB") -> Tensor:
    """As `read_image`, without blocking the page."""
    data, name = _read(source, mode)
    return await _by_browser(data, name, mode) if sys.platform == "emscripten" else _by_pillow(data, name, mode)


def grey_pages(source: Any, password: str | None = None) -> Iterator[Any]:
    """The grey pages, arrays uint8 (H, W), of a picture (as for `read_image`, or a tensor uint8 (H, W, 1 or 3)) or of a
    PDF, whose pages the library pypdfium2 draws. `password` opens a PDF that is locked. PyappError without the library,
    FileFormatError for a PDF that is damaged, or that the password does not open.
    """
    if isinstance(source, Tensor):
        if source.ndim != 3 or source.dtype.name != "uint8" or source.shape[2] not in (1, 3) or 0 in source.shape:
            raise ArgumentError(f"a picture is uint8 (H, W, 1 or 3), not {source.dtype.name} {list(source.shape)}")
        check_size(source.shape[0], source.shape[1], "the picture")
        yield (source if source.shape[2] == 1 else grey_levels(source)).cpu().numpy()[:, :, 0]
        return
    data, name = _read(source, "L")
    if _is_pdf(data):
        yield from _pdf_pages(data, name, password)
    else:
        yield read_image(BytesSource(data, name), "L").numpy()[:, :, 0]


def page_pictures(source: Any, password: str | None = None) -> Iterator[Tensor]:
    """As `grey_pages`, in colour: uint8 (H, W, 3)."""
    if isinstance(source, Tensor):
        for grey in grey_pages(source):  # which checks it
            yield source if source.shape[2] == 3 else source.expand(*grey.shape, 3).contiguous()
        return
    data, name = _read(source, "RGB")
    if _is_pdf(data):
        for page in _pdf_pages(data, name, password, grey=False):
            yield Tensor.from_buffer(page.tobytes(), page.shape, "uint8")
    else:
        yield read_image(BytesSource(data, name))


def is_page(head: bytes) -> bool:
    """Whether a file that begins so (16 bytes) is a picture or a PDF, and not a text."""
    if head.startswith((b"%PDF-", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*")):
        return True
    if head[8:12] == b"WEBP" or head[4:8] in (b"ftyp", b"jP  "):
        return b"\0" in head or head[:4] == b"RIFF"
    return head[:2] == b"BM" and b"\0" in head


def is_locked(source: Any, password: str | None = None) -> bool:
    """Whether a file (a path, bytes or a ByteSource) is a PDF that opens with another password only. False without the
    library pypdfium2. Errors as for `read_image`.
    """
    data, _ = _read(source, "L")
    try:
        import pypdfium2
    except ImportError:
        return False
    if not _is_pdf(data):
        return False
    try:
        pypdfium2.PdfDocument(bytes(data), password).close()
    except pypdfium2.PdfiumError as error:
        return bool(error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD)
    return False


def _is_pdf(data: bytes | memoryview) -> bool:
    return bytes(data[:5]) == b"%PDF-"


def _pdf_pages(data: bytes | memoryview, name: str, password: str | None, grey: bool = True) -> Iterator[Any]:
    """The pages, arrays uint8 (H, W), or (H, W, 3) unless `grey`."""
    try:
        import pypdfium2
    except ImportError as error:
        raise PyappError(
            "the Python package `pypdfium2`, which draws the pages of PDFs, is missing", where=name,
            hint="pip install 'pyapp[pdf]', or give pictures of the pages",
        ) from error  # fmt: skip
    try:
        document = pypdfium2.PdfDocument(bytes(data), password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            what = "the password is wrong" if password else "the PDF is locked with a password"
            raise FileFormatError(what, where=name, hint="Give the password that opens it") from None
        raise FileFormatError(f"the PDF cannot be opened ({error})", where=name, hint="Save it again") from None
    try:
        for number in range(len(document)):
            try:
                page = document[number]
                width, height = (side * PDF_SCALE for side in page.get_size())
                check_size(round(height), round(width), name)
                drawn = page.render(scale=PDF_SCALE, grayscale=grey, rev_byteorder=True)
            except pypdfium2.PdfiumError as error:
                what = f"page {number + 1:,} of the PDF is damaged ({error})"
                raise FileFormatError(what, where=name, hint="Save it again") from None
            pixels = drawn.to_numpy()
            yield pixels.reshape(pixels.shape[0], -1) if grey else pixels
    finally:
        document.close()


def from_pixels(data: Any, height: int, width: int, mode: str = "RGB", name: str = "the picture") -> Tensor:
    """Pixels red, green, blue, opacity, row by row, one byte each (ImageData.data of a canvas) → as `read_image`."""
    _check_mode(mode)
    check_size(height, width, name)
    view = memoryview(data).cast("B")
    if len(view) != 4 * height * width:
        raise FileFormatError(
            f"{len(view):,} bytes are not {width:,} x {height:,} pixels of four bytes", where=name, hint=HINT
        )
    pixels = Tensor.from_buffer(view, (height, width, 4), "uint8")
    return pixels if mode == "RGBA" else grey_levels(_on_white(pixels)) if mode == "L" else _on_white(pixels)


def check_size(height: int, width: int, name: str, limit: int = PIXEL_LIMIT) -> None:
    """FileFormatError for a picture without pixels, or with more than `limit`."""
    if min(height, width) < 1:
        raise FileFormatError(f"the picture has no pixels ({width:,} x {height:,})", where=name, hint=HINT)
    if height * width > limit:
        raise FileFormatError(
            f"the picture has {width:,} x {height:,} pixels, at most {limit:,} are read", where=name,
            hint="Make it smaller first",
        )  # fmt: skip


def _check_mode(mode: str) -> None:
    if mode not in CHANNELS:
        raise OptionError(f"{mode!r:.40} is none of {', '.join(CHANNELS)}", where="mode")


def _read(source: Any, mode: str) -> tuple[bytes | memoryview, str]:
    """The bytes of a file, and its name."""
    _check_mode(mode)
    with opened_source(source) as opened:
        if not 0 < opened.size <= FILE_LIMIT:
            if not opened.size:
                raise FileFormatError("the file is empty", where=opened.name, hint="Download or copy it again")
            what, hint = f"the file has {opened.size:,} bytes", f"Pictures have at most {FILE_LIMIT:,} bytes"
            raise FileFormatError(what, where=opened.name, hint=hint)
        return opened.read(0, opened.size), "the picture" if opened.name == "<bytes>" else opened.name


def _by_pillow(data: bytes | memoryview, name: str, mode: str, limit: int = PIXEL_LIMIT) -> Tensor:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("pictures are read by Pillow, which is not installed: pip install 'pyapp[vision]'") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's limit for warnings is below ours
            Image.init()
            known = [form for form in FORMATS if form in Image.OPEN]  # some builds of Pillow lack some
            with Image.open(BytesIO(data), formats=known) as picture:
                check_size(picture.height, picture.width, name, limit)
                picture.load()  # the first frame
                ImageOps.exif_transpose(picture, in_place=True)
                pixels = _converted(picture, mode, name)
                return Tensor.from_buffer(pixels.tobytes(), (pixels.height, pixels.width, CHANNELS[mode]), "uint8")
    except FileFormatError:
        raise
    except UnidentifiedImageError:
        raise FileFormatError(
            "this is not a picture that can be read", where=name, hint=f"Known: {', '.join(FORMATS)}"
        ) from None
    except Image.DecompressionBombError as error:  # which says how many pixels, not how many a side
        count = re.search(r"\d+", str(error))
        pixels = f"{int(count[0]):,}" if count else "too many"
        raise FileFormatError(
            f"the picture has {pixels} pixels, at most {limit:,} are read", where=name, hint="Make it smaller first"
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # decoders raise errors of many kinds for damaged files
        if "truncated" in str(error).lower():
            raise FileFormatError(
                "the picture is not complete: its file ends too early", where=name, hint="Download or copy it again"
            ) from error
        raise FileFormatError(f"the picture is damaged ({error})", where=name, hint=HINT) from error


def _converted(picture: Any, mode: str, name: str) -> Any:
    """A picture of Pillow's in 8 bits of the mode."""
    from PIL import Image

    if picture.mode == "F" or (
        picture.mode == "I" and (picture.getextrema()[0] < 0 or picture.getextrema()[1] > 65535)
    ):
        raise FileFormatError(
            "its pixels have more than 16 bits, or fractions", where=name, hint="Save it with 8 or 16 bits"
        )
    if picture.mode.startswith("I"):  # 16 bits of grey, which Pillow would cut off at 255
        picture = Image.fromarray(((np.asarray(picture).astype("uint32") + 128) // 257).astype("uint8"))
    if mode == "RGBA":
        return picture.convert("RGBA")
    if picture.has_transparency_data:
        opaque = Image.new("RGBA", picture.size, "white")
        opaque.alpha_composite(picture.convert("RGBA"))
        picture = opaque
    return picture.convert("RGB").convert(mode)


async def _by_browser(data: bytes | memoryview, name: str, mode: str, limit: int = PIXEL_LIMIT) -> Tensor:
    """Decodes by createImageBitmap, which also works in workers."""
    import js
    from pyodide.ffi import JsException, to_js

    blob = js.Blob.new(to_js([to_js(data)]))
    options = js.Object.new()
    options.imageOrientation, options.premultiplyAlpha = "from-image", "none"
    try:
        bitmap = await js.createImageBitmap(blob, options)
    except JsException:
        raise FileFormatError(
            "the browser cannot decode this as a picture", where=name, hint="Save it again as PNG or JPEG"
        ) from None
    height, width = int(bitmap.height), int(bitmap.width)
    try:
        check_size(height, width, name, limit)
        canvas = js.OffscreenCanvas.new(width, height)
        settings = js.Object.new()
        settings.willReadFrequently = True
        context = canvas.getContext("2d", settings)
        context.drawImage(bitmap, 0, 0)
        pixels = context.getImageData(0, 0, width, height).data.to_py()
    finally:
        bitmap.close()
    return from_pixels(pixels, height, width, mode, name)


def _on_white(pixels: Any) -> Tensor:
    """(H, W, 4) uint8 → (H, W, 3) uint8, on white where it is transparent."""
    colours, opacity = pixels.narrow(2, 0, 3), pixels.narrow(2, 3, 1).to("int32")
    if int(opacity.amin()) == 255:
        whole: Tensor = colours.contiguous()
        return whole
    mixed = colours.to("int32") * opacity + (255 - opacity) * 255  # 255 times the colour
    found: Tensor = ((mixed + 127) // 255).to("uint8")
    return found


def grey_levels(pixels: Any) -> Tensor:
    """(H, W, 3) uint8 → (H, W, 1): the luma of ITU-R 601-2, as Pillow computes it."""
    red, green, blue = (pixels.narrow(2, i, 1).to("int32") for i in range(3))
    found: Tensor = ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) // 65536).to("uint8")
    return found
