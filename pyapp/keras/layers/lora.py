"""LoRA of layers: beside a weight that stays as it is, two small matrices are trained (Hu et al. 2021, arXiv
2106.09685).

Files hold the sum, as Keras' files do: they load into layers with LoRA and into layers without.
"""

from __future__ import annotations

from typing import Any

from ...adapters import LoraConfig
from ...engine import Tensor, no_grad
from ...errors import OptionError
from ..core import Layer
from ..weight_attributes import adapted


class LoraLayer(Layer):
    """Base of layers that can have LoRA for their weight `adapts`: a subclass has an AdaptedWeight of that name.
    `lora_rank` of the constructor enables it when the layer is built; `lora_alpha` (the rank by default) scales it by
    alpha / rank."""

    adapts = "kernel"
    lora_enabled = False
    packed_mode: str | None = None  # int8 or int4, where the weight is whole numbers (see `layers.quantized`)
    is_float8 = False

    def __init__(self, lora_rank: int | None = None, lora_alpha: float | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if lora_rank is not None:
            self._check_lora(lora_rank, lora_alpha)
        self.lora_rank, self.lora_alpha = lora_rank, lora_rank if lora_alpha is None else lora_alpha

    def _check_lora(self, rank: Any, alpha: Any) -> None:
        try:
            LoraConfig(r=rank, lora_alpha=rank if alpha is None else alpha)
        except OptionError as error:
            raise ValueError(f"layer {self.name} ({type(self).__name__}): {error}") from error

    def _enable_given_lora(self) -> None:
        """At the end of `build`: with the settings of the constructor, if it was given any."""
        if self.lora_rank is not None and not self.lora_enabled:
            self.built = True
            self.enable_lora(self.lora_rank, self.lora_alpha)

    def enable_lora(
        self, rank: int, lora_alpha: float | None = None, a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:  # fmt: skip
        """Freezes the weight, and adds A (…, rank) and B (rank, outputs), which are trained: the layer computes with
        weight + lora_alpha / rank * A @ B. A compiled model is to be compiled again. ValueError for a layer that is not
        built, has LoRA already, or has a constraint."""
        where = f"layer {self.name} ({type(self).__name__})"
        self._check_lora(rank, lora_alpha)
        if not self.built:
            raise ValueError(f"{where}: enable_lora takes a layer that is built: call it first, or build(input_shape)")
        if self.lora_enabled:
            raise ValueError(f"{where} has LoRA already, of rank {self.lora_rank}")
        if getattr(self, f"{self.adapts}_constraint") is not None:
            raise ValueError(f"{where}: LoRA does not go with {self.adapts}_constraint; leave it out")
        if self.is_float8:
            raise NotImplementedError(f"{where}: LoRA does not go with float8")
        weight, shape = self._base(), self.lora_shape()
        penalty = getattr(self, f"{self.adapts}_regularizer")
        shapes = {"a": (*shape[:-1], rank), "b": (rank, shape[-1])}
        for part, first in (("a", a_initializer), ("b", b_initializer)):
            name = f"lora_{self.adapts}_{part}"
            made = self.add_weight(shapes[part], first, "float32", name=name, regularizer=penalty)
            if getattr(self, name) is not made:
                setattr(self, name, made)
        weight.requires_grad_(False)
        self.lora_enabled, self.lora_rank = True, rank
        self.lora_alpha = rank if lora_alpha is None else lora_alpha

    def lora_shape(self) -> tuple[int, ...]:
        """The shape of the weight that A @ B is added to."""
        return tuple(self._base().shape)

    def whole_numbers(self) -> Tensor:
        """The numbers of a weight that is quantised."""
        raise NotImplementedError(f"layer {self.name} ({type(self).__name__}) is not quantised")

    def _base(self) -> Tensor:
        """The weight itself, without A and B."""
        found: Tensor = self.__dict__[self.adapts]
        return found

    @property
    def lora_weights(self) -> tuple[Tensor, Tensor]:
        """A (…, rank) and B (rank, outputs), in their own dtype."""
        return self.__dict__[f"lora_{self.adapts}_a"], self.__dict__[f"lora_{self.adapts}_b"]

    @property
    def lora_scale(self) -> float:
        """What A @ B is multiplied by."""
        return (self.lora_alpha or 0) / (self.lora_rank or 1)

    @property
    def frozen_weights(self) -> list[Tensor]:
        return [self._base()] if self.lora_enabled else []

    def stored_weights(self) -> list[tuple[Tensor, Tensor]]:
        found = super().stored_weights()
        if not self.lora_enabled:
            return found
        base, parts = self._base(), {id(weight) for weight in self.lora_weights}
        with no_grad():
            total = adapted(base, *self.lora_weights, self.lora_scale).detach()
        return [(w, total if w is base else value) for w, value in found if id(w) not in parts]

    def weights_were_read(self) -> None:
        if self.lora_enabled:  # the file's weight has A @ B in it already
            self.lora_weights[1].assign(0.0)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with LoRA as it is now."""
        config = super().get_config()
        more = {"lora_rank": self.lora_rank, "lora_alpha": self.lora_alpha}
        kept = {key: value for key, value in config.items() if key not in more}
        return kept | more if self.lora_rank is not None else kept
