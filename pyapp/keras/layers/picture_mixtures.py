"""Layers that mix pictures with one another or with noise, and that choose among other layers."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from .. import random
from ..core import Layer
from ..other_layers import as_layer
from .images import PictureLayer, RandomPictureLayer, draw, happens, of_each
from .picture_colours import (
    AutoContrast,
    Equalization,
    RandomBrightness,
    RandomColorDegeneration,
    RandomContrast,
    RandomPosterization,
    RandomSharpness,
    Solarization,
)
from .picture_places import RandomRotation, RandomShear, RandomTranslation

__all__ = ["AugMix", "CutMix", "MixUp", "Pipeline", "RandAugment", "RandomErasing"]


def _order(x: Tensor, generator: Generator | None) -> Tensor:
    """A random order of the pictures of a batch: (B,)."""
    return ops.randperm(x.shape[0], generator=generator).to(x.device)


def _mixed(values: Tensor, drawn: Any, weight: Tensor) -> Tensor:
    other = values.index_select(0, drawn["permutation_order"].to("int64"))
    return weight * values + (1.0 - weight) * other


def _mixed_labels(labels: Tensor, drawn: Any) -> Tensor:
    """Labels (B, classes) mixed as the pictures are."""
    if not labels.dtype.is_floating_point:
        labels = labels.float()
    if labels.ndim < 2:
        raise ValueError(f"labels that are mixed have one number for each class, (B, classes), not {labels.shape}")
    return _mixed(labels, drawn, drawn["mix_weight"].reshape(-1, *(1,) * (labels.ndim - 1)).to(labels.dtype))


class MixUp(RandomPictureLayer):
    """Each picture mixed with another of the batch, and their labels alike (Zhang et al. 2018, arXiv 1710.09412). The
    shares follow the beta distribution (alpha, alpha)."""

    def __init__(
        self, alpha: float = 0.2, data_format: str | None = None, seed: int | None = None, **settings: Any
    ) -> None:
        super().__init__(seed, data_format, **settings)
        if not alpha > 0:
            raise ValueError(f"MixUp: alpha is a positive number, not {alpha!r}")
        self.alpha = float(alpha)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        order = _order(x, generator)
        weights = random.beta((x.shape[0],), self.alpha, self.alpha, seed=generator).to(x.device)
        return {"mix_weight": weights, "permutation_order": order}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return _mixed(x, drawn, of_each(drawn["mix_weight"]))

    def changed_labels(self, labels: Tensor, drawn: Any) -> Tensor:
        return _mixed_labels(labels, drawn)

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self.changed(x, drawn, training)


def _part(x: Tensor, shares: tuple[Tensor, Tensor], generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Whether the pixels (B, H, W, 1) are in boxes whose width and height are these shares (B,) of the picture's, at
    random places; and the boxes' areas in pixels, (B, 1, 1, 1)."""
    inside: Any = None
    area: Any = 1.0
    for axis, share in ((2, shares[0]), (1, shares[1])):
        size = x.shape[axis]
        length = of_each(share) * size
        start = draw(x, (0.0, 1.0), generator) * (size - length)
        shape = (1, 1, -1, 1) if axis == 2 else (1, -1, 1, 1)
        pixel = ops.arange(size, dtype="float32", device=x.device).reshape(*shape)
        within = (pixel >= start) & (pixel < start + length)
        inside, area = within if inside is None else inside & within, area * length
    return inside, area


class CutMix(RandomPictureLayer):
    """A box of each picture replaced by that of another, and the labels mixed by the areas (Yun et al. 2019, arXiv
    1905.04899). `factor` has the limits of the beta distribution's parameter."""

    def __init__(
        self, factor: Any = 1.0, seed: int | None = None, data_format: str | None = None, **settings: Any
    ) -> None:
        super().__init__(seed, data_format, **settings)
        self.factor = self.limits(factor, 0.0)

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        images = data["images"] if isinstance(data, dict) else data
        return None if len(images.shape) == 3 else super().get_random_transformation(data, training, seed)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        alpha = draw(x[:1], self.factor, generator, ()).item() + 1e-6
        kept = random.beta((x.shape[0],), alpha, alpha, seed=generator).to(x.device)
        side = (1.0 - kept).clamp(min=0.0).sqrt()
        masks, area = _part(x, (side, side), generator)
        weight = 1.0 - area / (x.shape[1] * x.shape[2])
        return {"permutation_order": _order(x, generator), "batch_masks": masks, "mix_weight": weight}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        other = x.index_select(0, drawn["permutation_order"].to("int64"))
        return ops.where(drawn["batch_masks"], other, x)

    def changed_labels(self, labels: Tensor, drawn: Any) -> Tensor:
        return labels if drawn is None else _mixed_labels(labels, drawn)

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self.changed(x, drawn, training)


class RandomErasing(RandomPictureLayer):
    """A box of each picture overwritten, with a probability from `factor`: by `fill_value`, or by noise (Zhong et al.
    2020, arXiv 1708.04896). The squares of the box's sides are shares of the picture's from `scale`."""

    def __init__(
        self, factor: Any = 1.0, scale: Any = (0.02, 0.33), fill_value: Any = None, value_range: Any = (0, 255),
        seed: int | None = None, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(seed, data_format, **settings)
        self.factor, self.scale = self.limits(factor, 0.0), self.limits(scale, 0.0)
        self.fill_value, self.value_range = fill_value, tuple(value_range)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        sides = draw(x, self.scale, generator, (2,)).sqrt()
        masks, _ = _part(x, (sides[:, 0], sides[:, 1]), generator)
        chosen = happens(x, self.factor, generator)
        if self.fill_value is None:
            filled = ops.randn(x.shape, generator=generator, device=x.device) * self.value_range[1]
        else:
            filled = ops.as_tensor(self.fill_value).to("float32").to(x.device).expand(x.shape)
        filled = filled.clamp(*self.value_range)
        return {"apply_erasing": chosen, "batch_masks": masks, "fill_value": filled}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        erased = drawn["batch_masks"] & of_each(drawn["apply_erasing"])
        return ops.where(erased, drawn["fill_value"].to(x.dtype), x)


class _Choice(RandomPictureLayer):
    """Base: layers by their names, whose strength is `factor`."""

    moves = True

    def __init__(
        self, names: tuple[str, ...], value_range: Any, factor: Any, interpolation: str, seed: int | None,
        data_format: str | None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(seed, data_format, **settings)
        self.value_range, self.interpolation = tuple(value_range), interpolation
        self.factor = strength = self.limits(factor, 0.0)
        coloured: dict[str, Any] = {"value_range": value_range}
        moved: dict[str, Any] = {"interpolation": interpolation}
        makers = {
            "random_shear": lambda: RandomShear(strength, strength, **moved),
            "random_translation": lambda: RandomTranslation(strength, strength, **moved),
            "random_rotation": lambda: RandomRotation(strength, **moved),
            "random_brightness": lambda: RandomBrightness(strength, **coloured),
            "random_color_degeneration": lambda: RandomColorDegeneration(strength, **coloured),
            "random_contrast": lambda: RandomContrast(strength, **coloured),
            "random_sharpness": lambda: RandomSharpness(strength, **coloured),
            "random_posterization": lambda: RandomPosterization(max(1, int(8 * strength[1])), **coloured),
            "solarization": lambda: Solarization(strength, strength, **coloured),
            "auto_contrast": lambda: AutoContrast(value_range),
            "equalization": lambda: Equalization(value_range),
        }
        self.choices: dict[str, PictureLayer] = {name: makers[name]() for name in names}

    def of_layer(self, name: str, x: Tensor, generator: Generator | None) -> Any:
        """What a layer draws."""
        layer = self.choices[name]
        return layer.drawn(x, generator) if isinstance(layer, RandomPictureLayer) else None

    def by_layer(self, name: str, x: Tensor, drawn: Any, masks: bool) -> Tensor:
        layer = self.choices[name]
        return layer.changed_masks(x, drawn, True) if masks else layer.changed(x, drawn, True)

    def run(self, x: Tensor, drawn: Any, masks: bool) -> Tensor:
        """Pictures, or masks, changed by the layers that were drawn."""
        raise NotImplementedError

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return self.run(x, drawn, False)

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self.run(x, drawn, True) if training and drawn is not None else x


_AUGMENT = (
    "random_shear", "random_translation", "random_rotation", "random_brightness", "random_color_degeneration",
    "random_contrast", "random_sharpness", "random_posterization", "solarization", "auto_contrast", "equalization",
)  # fmt: skip


class RandAugment(_Choice):
    """`num_ops` of eleven layers, drawn for each batch (Cubuk et al. 2020, arXiv 1909.13719)."""

    def __init__(
        self, value_range: Any = (0, 255), num_ops: int = 2, factor: Any = 0.5, interpolation: str = "bilinear",
        seed: int | None = None, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(_AUGMENT, value_range, factor, interpolation, seed, data_format, **settings)
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(f"RandAugment: num_ops is a number from 0 on, not {num_ops!r}")
        self.num_ops = num_ops

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        places = ops.randint(0, len(_AUGMENT), (self.num_ops,), generator=generator).tolist()
        chosen = [_AUGMENT[place] for place in places]
        numbers = {name: self.of_layer(name, x, generator) for name in dict.fromkeys(chosen)}
        return {"layers": chosen, "transforms": numbers}

    def run(self, x: Tensor, drawn: Any, masks: bool) -> Tensor:
        for name in drawn["layers"]:
            x = self.by_layer(name, x, drawn["transforms"][name], masks)
        return x


class AugMix(_Choice):
    """The mean of `num_chains` chains of up to `chain_depth` layers, mixed with the picture itself (Hendrycks et al.
    2020, arXiv 1912.02781)."""

    def __init__(
        self, value_range: Any = (0, 255), num_chains: int = 3, chain_depth: int = 3, factor: Any = 0.3,
        alpha: float = 1.0, all_ops: bool = True, interpolation: str = "bilinear", seed: int | None = None,
        data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        without = ("random_brightness", "random_color_degeneration", "random_contrast", "random_sharpness")
        names = _AUGMENT if all_ops else tuple(name for name in _AUGMENT if name not in without)
        super().__init__(names, value_range, factor, interpolation, seed, data_format, **settings)
        if min(num_chains, chain_depth) < 1 or not alpha > 0:
            raise ValueError("AugMix: num_chains and chain_depth are from 1 on, alpha is positive")
        self.num_chains, self.chain_depth, self.alpha, self.all_ops = num_chains, chain_depth, float(alpha), all_ops

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        parts = random.gamma((self.num_chains,), self.alpha, seed=generator)
        kept = random.beta((), self.alpha, self.alpha, seed=generator)
        names = [*self.choices, None]
        places = ops.randint(0, len(names), (self.num_chains, self.chain_depth), generator=generator).tolist()
        chains = [
            [(names[k], self.of_layer(names[k], x, generator)) for k in row if names[k] is not None] for row in places
        ]
        weights = (parts / parts.sum()).to(x.device)
        return {"chain_mixing_weights": weights, "weight_sample": kept.to(x.device), "chain_transforms": chains}

    def run(self, x: Tensor, drawn: Any, masks: bool) -> Tensor:
        total: Any = None
        for weight, chain in zip(drawn["chain_mixing_weights"].unbind(0), drawn["chain_transforms"], strict=True):
            y = x
            for name, numbers in chain:
                y = self.by_layer(name, y, numbers, masks)
            total = y * weight if total is None else total + y * weight
        kept = drawn["weight_sample"]
        mixed = kept * x + (1 - kept) * total
        return mixed if masks else mixed.clamp(*self.value_range)


class Pipeline(Layer):
    """Layers one after another, as one."""

    def __init__(self, layers: Any, name: str | None = None) -> None:
        super().__init__(name=name)
        self.layers = [as_layer(layer) for layer in layers]

    def call(self, inputs: Any, training: bool = False) -> Any:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None
