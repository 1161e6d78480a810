"""VGG (Simonyan and Zisserman 2014, arXiv 1409.1556): stacks of convolutions of 3 x 3."""

from __future__ import annotations

from functools import partial

from .. import layers
from ..models import Model
from .building import Frame, application, usual_files

_HASHES = {
    "vgg16": ("64373286793e3c8b2b4e3219cbf3544b", "6d6bbae143d832006294945121d1f1fc"),
    "vgg19": ("cbe5617147190e668d6c5d5026f83318", "253f8cb515780f3b799900260a226db6"),
}


def _vgg(frame: Frame, kind: str, repeats: int) -> Model:
    x = frame.picture
    for block, filters in enumerate((64, 128, 256, 512, 512), 1):
        for i in range(2 if block < 3 else repeats):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"block{block}_conv{i + 1}")(x)
        x = layers.MaxPooling2D(2, strides=2, name=f"block{block}_pool")(x)
    if frame.include_top:
        x = layers.Flatten(name="flatten")(x)
        for i in (1, 2):
            x = layers.Dense(4096, activation="relu", name=f"fc{i}")(x)
        x = frame.predicted(x)
    else:
        x = frame.pooled(x)
    return frame.model(x, lambda: usual_files(kind, kind, _HASHES[kind]))


VGG16 = application(partial(_vgg, kind="vgg16", repeats=3), "vgg16", "VGG with 16 layers.")
VGG19 = application(partial(_vgg, kind="vgg19", repeats=4), "vgg19", "VGG with 19 layers.")
