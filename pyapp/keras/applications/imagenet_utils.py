"""Pictures as the models of keras.applications want them, and the names of the classes that they give."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ...engine.lazy import np
from ...errors import FileFormatError
from .. import config, ops
from ..backend import is_float_dtype
from ..web_files import get_file

_CLASSES = "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json"
_CLASSES_MD5 = "c2c37ea517e94d9795004a39431a14cb"
_MEANS = {"caffe": (103.939, 116.779, 123.68), "torch": (0.485, 0.456, 0.406)}
_DEVIATIONS = (0.229, 0.224, 0.225)


def preprocess_input(x: Any, data_format: str | None = None, mode: str = "caffe") -> Any:
    """Pictures (…, H, W, 3) with numbers of 0 to 255, or channels first, as an array or a tensor of floats.

    mode "tf": from -1 to 1. "torch": from 0 to 1, less the means, divided by the deviations of ImageNet's channels.
    "caffe": channels in the order blue, green, red, less the means. The given array does not change.
    """
    if mode not in ("caffe", "tf", "torch"):
        raise ValueError(f"preprocess_input: mode is 'caffe', 'tf' or 'torch', not {mode!r}")
    data_format = data_format or config.image_data_format()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"preprocess_input: data_format is 'channels_first' or 'channels_last', not {data_format!r}")
    is_array = isinstance(x, np.ndarray)
    if is_array:
        x = x.astype(config.floatx()) if x.dtype.kind != "f" else x
    elif not is_float_dtype(x.dtype):
        x = ops.cast(x, config.floatx())
    if mode == "tf":
        return x / 127.5 - 1.0
    last = data_format == "channels_last"
    shape = (3,) if last else (3, 1, 1)
    means = np.asarray(_MEANS[mode], "float32").reshape(shape)
    if mode == "torch":
        deviations = np.asarray(_DEVIATIONS, "float32").reshape(shape)
        return (x / 255.0 - means) / deviations
    return (np.flip(x, -1 if last else -3) if is_array else ops.flip(x, -1 if last else -3)) - means


def decode_predictions(preds: Any, top: int = 5) -> list[list[tuple[str, str, float]]]:
    """The `top` classes of each row of probabilities (N, 1000), the best first: (WordNet's id, name, probability).

    The names are downloaded once. ValueError for another shape.
    """
    values = np.asarray(preds)
    if values.ndim != 2 or values.shape[1] != 1000:
        raise ValueError(f"decode_predictions: takes the probabilities of 1000 classes (N, 1000), not {values.shape}")
    names = _names()
    best = np.argsort(-values, axis=1, kind="stable")[:, :top]
    return [
        [(*names[i], float(row[i])) for i in chosen] for row, chosen in zip(values, best.tolist(), strict=True)
    ]  # fmt: skip


@cache
def _names() -> list[tuple[str, str]]:
    path = get_file(origin=_CLASSES, cache_subdir="models", file_hash=_CLASSES_MD5)
    try:
        found = json.loads(Path(path).read_text("utf-8"))
        return [(str(found[str(i)][0]), str(found[str(i)][1])) for i in range(1000)]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FileFormatError(
            f"{path} has not the names of 1000 classes", hint="Delete it: it is fetched again"
        ) from error


def preprocess_as(mode: str | None) -> Callable[..., Any]:
    """The preprocess_input of one family of models; None: the models prepare pictures themselves."""

    def of_family(x: Any, data_format: str | None = None) -> Any:
        return x if mode is None else preprocess_input(x, data_format, mode)

    of_family.__name__ = of_family.__qualname__ = "preprocess_input"
    of_family.__doc__ = (
        "The pictures as they are: the models have layers that prepare them."
        if mode is None
        else f"imagenet_utils.preprocess_input in mode {mode!r}."
    )
    return of_family
