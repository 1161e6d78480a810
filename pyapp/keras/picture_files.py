"""Pictures as files and arrays, by the names of keras.utils. Pillow reads and writes the files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..engine import Tensor
from ..engine.lazy import np
from ..train.floats import floatx
from .image_functions import resize
from .settings import SETTINGS

__all__ = ["array_to_img", "img_to_array", "load_img", "save_img", "smart_resize"]

_MODES = {"rgb": "RGB", "rgba": "RGBA", "grayscale": "L"}


def _pillow() -> Any:
    try:
        import PIL.Image  # only here, as it is an extra
    except ImportError as error:
        raise ImportError("pictures of keras.utils need Pillow: pip install pillow") from error
    return PIL.Image


def _first(name: str, data_format: str | None) -> bool:
    found = data_format or SETTINGS.data_format
    if found not in ("channels_first", "channels_last"):
        raise ValueError(f"{name}: data_format is channels_first or channels_last, not {found!r:.40}")
    return found == "channels_first"


def array_to_img(x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None) -> Any:
    """A picture of Pillow from an array (H, W, C); `scale` stretches its values over 0 … 255."""
    values = np.asarray(x.numpy() if isinstance(x, Tensor) else x, dtype=dtype or floatx())
    if values.ndim != 3:
        raise ValueError(f"array_to_img: takes 3 dims, got {values.shape}")
    if _first("array_to_img", data_format):
        values = values.transpose(1, 2, 0)
    if scale:
        values = values - values.min()
        most = values.max()
        values = values / most * 255 if most else values
    image, channels = _pillow(), values.shape[2]
    if channels == 1:
        whole = values[:, :, 0].max() > 255
        return image.fromarray(values[:, :, 0].astype("int32" if whole else "uint8"))
    if channels not in (3, 4):
        raise ValueError(f"array_to_img: takes 1, 3 or 4 channels, got {channels}")
    return image.fromarray(values.astype("uint8"))


def img_to_array(img: Any, data_format: str | None = None, dtype: Any = None) -> Any:
    """The pixels of a picture of Pillow: (H, W, C), float32."""
    found = np.asarray(img, dtype=dtype or floatx())
    if found.ndim not in (2, 3):
        raise ValueError(f"img_to_array: takes pictures of 2 or 3 dims, got {found.shape}")
    found = found[:, :, None] if found.ndim == 2 else found
    return found.transpose(2, 0, 1) if _first("img_to_array", data_format) else found


def load_img(
    path: Any, color_mode: str = "rgb", target_size: Any = None, interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:  # fmt: skip
    """A picture of Pillow from a file, its bytes in BytesIO or its path; target_size is (height, width)."""
    image = _pillow()
    if color_mode not in _MODES:
        raise ValueError(f"load_img: color_mode is one of {', '.join(_MODES)}, not {color_mode!r}")
    data = path.getvalue() if isinstance(path, io.BytesIO) else Path(path).read_bytes()
    found = image.open(io.BytesIO(data))
    deep = found.mode in ("I;16", "I;16B", "I") and color_mode == "grayscale"
    found = found if deep else found.convert(_MODES[color_mode])
    if target_size is None:
        return found
    names = ("nearest", "bilinear", "bicubic", "hamming", "box", "lanczos")
    if interpolation not in names:
        raise ValueError(f"load_img: interpolation is one of {', '.join(names)}, not {interpolation!r}")
    by = getattr(image.Resampling, interpolation.upper())
    height, width = target_size
    if (found.width, found.height) == (width, height):
        return found
    box = None
    if keep_aspect_ratio:
        wide = min(found.width, int(found.height * width / height))
        tall = min(found.height, int(found.width * height / width))
        left, top = (found.width - wide) // 2, (found.height - tall) // 2
        box = (left, top, left + wide, top + tall)
    return found.resize((width, height), by, box)


def save_img(
    path: Any, x: Any, data_format: str | None = None, file_format: str | None = None, scale: bool = True,
    **settings: Any,
) -> None:  # fmt: skip
    """Writes an array (H, W, C) as a picture; the name's ending, or file_format, says how."""
    picture = array_to_img(x, data_format, scale)
    ending = (file_format or Path(str(path)).suffix[1:]).lower()
    if picture.mode == "RGBA" and ending in ("jpg", "jpeg"):
        picture = picture.convert("RGB")  # it has no transparency
    picture.save(path, format={"jpg": "JPEG"}.get(ending, file_format), **settings)


def smart_resize(x: Any, size: Any, interpolation: str = "bilinear", data_format: str | None = None) -> Any:
    """Pictures of another size, after their largest middle part of its proportions was cut out."""
    order = "channels_first" if _first("smart_resize", data_format) else "channels_last"
    found = resize(x, size, interpolation, crop_to_aspect_ratio=True, data_format=order)
    return found if isinstance(x, Tensor) else found.numpy()
