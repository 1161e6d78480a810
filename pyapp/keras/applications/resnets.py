"""ResNet (He et al. 2015, arXiv 1512.03385) and its second version, whose norms come first (2016, arXiv 1603.05027)."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import layers
from ..models import Model
from .building import Frame, application, channel_axis, usual_files

EPSILON = 1.001e-5
_HASHES = {
    "resnet50": ("2cb95161c43110f7111970584f804107", "4d473c1dd8becc155b73f8504c6f6626"),
    "resnet101": ("f1aeb4b969a6efcfb50fad2f0c20cfc5", "88cf7a10940856eca736dc7b7e228a21"),
    "resnet152": ("100835be76be38e30d865e96f2aaae62", "ee4c566cf9a93f14d82f913c2dc6dd0c"),
    "resnet50v2": ("3ef43a0b657b3be2300d5770ece849e0", "fac2f116257151a9d068a22e544a4917"),
    "resnet101v2": ("6343647c601c52e1368623803854d971", "c0ed64b8031c3730f411d2eb4eea35b5"),
    "resnet152v2": ("a49b44d1979771252814e80f8ec446f9", "ed17cf2e0169df9d443503ef94b23b33"),
}
DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def _norm(x: Any, name: str) -> Any:
    return layers.BatchNormalization(axis=channel_axis(), epsilon=EPSILON, name=name)(x)


def _norm_relu(x: Any, norm: str, relu: str) -> Any:
    return layers.Activation("relu", name=relu)(_norm(x, norm))


def _block(x: Any, filters: int, stride: int, shortcut: bool, name: str) -> Any:
    """Norms after the convolutions. The first block of a stage halves the sides."""
    if shortcut:
        kept = _norm(layers.Conv2D(4 * filters, 1, strides=stride, name=f"{name}_0_conv")(x), f"{name}_0_bn")
    else:
        kept = x
    x = layers.Conv2D(filters, 1, strides=stride, name=f"{name}_1_conv")(x)
    x = _norm_relu(x, f"{name}_1_bn", f"{name}_1_relu")
    x = layers.Conv2D(filters, 3, padding="same", name=f"{name}_2_conv")(x)
    x = _norm_relu(x, f"{name}_2_bn", f"{name}_2_relu")
    x = _norm(layers.Conv2D(4 * filters, 1, name=f"{name}_3_conv")(x), f"{name}_3_bn")
    x = layers.Add(name=f"{name}_add")([kept, x])
    return layers.Activation("relu", name=f"{name}_out")(x)


def _block_v2(x: Any, filters: int, stride: int, shortcut: bool, name: str) -> Any:
    """Norms before the convolutions. The last block of a stage halves the sides."""
    before = _norm_relu(x, f"{name}_preact_bn", f"{name}_preact_relu")
    if shortcut:
        kept = layers.Conv2D(4 * filters, 1, strides=stride, name=f"{name}_0_conv")(before)
    else:
        kept = layers.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
    x = layers.Conv2D(filters, 1, use_bias=False, name=f"{name}_1_conv")(before)
    x = _norm_relu(x, f"{name}_1_bn", f"{name}_1_relu")
    x = layers.ZeroPadding2D(((1, 1), (1, 1)), name=f"{name}_2_pad")(x)
    x = layers.Conv2D(filters, 3, strides=stride, use_bias=False, name=f"{name}_2_conv")(x)
    x = _norm_relu(x, f"{name}_2_bn", f"{name}_2_relu")
    x = layers.Conv2D(4 * filters, 1, name=f"{name}_3_conv")(x)
    return layers.Add(name=f"{name}_out")([kept, x])


def _resnet(frame: Frame, kind: str, depth: int, second: bool = False) -> Model:
    x = layers.ZeroPadding2D(((3, 3), (3, 3)), name="conv1_pad")(frame.picture)
    x = layers.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    if not second:
        x = _norm_relu(x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(((1, 1), (1, 1)), name="pool1_pad")(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    for stage, (filters, count) in enumerate(zip((64, 128, 256, 512), DEPTHS[depth], strict=True), 2):
        for i in range(1, count + 1):
            name = f"conv{stage}_block{i}"
            if second:
                x = _block_v2(x, filters, 2 if i == count and stage < 5 else 1, i == 1, name)
            else:
                x = _block(x, filters, 2 if i == 1 and stage > 2 else 1, i == 1, name)
    if second:
        x = _norm_relu(x, "post_bn", "post_relu")
    x = frame.classified(x)
    return frame.model(x, lambda: usual_files("resnet", kind, _HASHES[kind]))


def _version(depth: int, second: bool) -> Any:
    kind = f"resnet{depth}" + ("v2" if second else "")
    summary = f"ResNet of {depth} layers" + (", the second version." if second else ".")
    return application(partial(_resnet, kind=kind, depth=depth, second=second), kind, summary)


ResNet50, ResNet101, ResNet152 = (_version(depth, False) for depth in DEPTHS)
ResNet50V2, ResNet101V2, ResNet152V2 = (_version(depth, True) for depth in DEPTHS)
