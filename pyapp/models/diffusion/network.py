"""What all networks that find the noise in latents say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.engine import Device, Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import Module
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder

from ..loading.config import require
from .texts import Reader


class Network(Module):
    """A network that finds the noise in latents, as the schedule of its pictures asks for it.

    multiple: a side of the latents is a multiple of it. most: the largest side of the latents; None: any. flow: the
    schedule is one of flow matching. even: its deviations of noise are even before they are shifted. sees_pictures: it
    reads prompts about a picture that is changed (`texts_about`).
    """

    config: Any
    multiple = 1
    most: int | None = None
    flow = False
    even = False
    neutral = 1.0
    sees_pictures = False

    @property
    def device(self) -> Device:
        """The device on which it computes."""
        return next(iter(self.parameters())).device

    @property
    def side(self) -> int:
        """The usual side of the latents."""
        raise NotImplementedError

    @property
    def learnt_guidance(self) -> bool:
        """Whether it reads the guidance, so that one pass is enough."""
        return False

    @property
    def fills(self) -> bool:
        """Whether it reads a mask and the rest of a picture beside the latents."""
        return False

    def around(self, mask: Tensor, rest: Tensor) -> Tensor:
        """What a network that fills reads beside the latents (1, C', H, W): of a mask (1, 1, height, width), 1 where
        all is new, and the latents (1, C, H, W) of the rest.
        """
        small: Tensor = ops.interpolate(mask, rest.shape[2:], mode="nearest")  # (1, 1, H, W)
        return ops.cat([small, rest], 1)

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        """A usual number of steps, and guidance; of the objects of scheduler_config.json and model_index.json."""
        raise NotImplementedError

    def shift(self, places: int, steps: int) -> float | None:
        """How much the times of a picture of `places` places are shifted to more noise; None: as the schedule says."""
        return None

    def read_size(self, height: int, width: int, unit: int) -> tuple[int, int]:
        """Of a network that changes a picture: the size to which the picture is brought; what is more than whole units
        is cut off around it.
        """
        raise NotImplementedError

    def drawn_size(self, height: int, width: int, unit: int, side: int) -> tuple[int, int]:
        """Of a network that changes a picture of this size: the size that is drawn, of whole units. side: the usual
        one.
        """
        raise NotImplementedError

    def combined(self, without: Tensor, following: Tensor, scale: float) -> Tensor:
        """What is found with guidance, of what is found (B, C, H, W) without the prompt and following it."""
        return without + (following - without) * scale

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        """ModelError for encoders of texts, and for latents of `channels` channels, that are not for this network."""
        raise NotImplementedError

    def check_one_reader(
        self, name: str, readers: Sequence[Reader], kind: type[Module], wide: int, channels: int, own: int
    ) -> None:
        """ModelError unless there is one encoder of texts, of this kind, whose states have the numbers `wide`, and
        latents have as many `channels` as the network's `own`. name: of the network.
        """
        if [type(reader.encoder) for reader in readers] != [kind]:
            what = "T5" if kind is T5Encoder else "a language model"
            raise ModelError(f"{name} reads texts with {what} (text_encoder)")
        for what, given, read in (
            ("the states of texts have", readers[0].width, wide), ("the autoencoder's latents have", channels, own),
        ):  # fmt: skip
            require(given == read, f"{what} {given} numbers, the transformer reads {read}")

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) that it reads of prompts, of which the first `negative` ones are negative, and what it
        reads besides: their vectors (N, P), or how many states each prompt has (N,).
        """
        raise NotImplementedError

    def texts_about(
        self, readers: Sequence[Reader], prompts: Sequence[str], picture: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """As `texts`, of prompts that say how a picture uint8 (H, W, 3) is changed."""
        raise NotImplementedError
