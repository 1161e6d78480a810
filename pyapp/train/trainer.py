"""The trainer: computes the loss of batches and its gradients, and updates the weights with an optimiser."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import isfinite
from typing import Any, Protocol

from pyapp.engine import Tensor, flush_denormals
from pyapp.engine.storage import release_memory
from pyapp.errors import OptionError, PyappError
from pyapp.nn import Module
from pyapp.nn.utils import clip_grad_norm_
from pyapp.optim import AdamW8bit, MasterWeights, Optimizer
from pyapp.optim.lr_scheduler import LRScheduler

from .ranks import Ranks

DIVERGED = "Take a smaller learning rate and start in another folder"
Loss = Callable[[Any, Any], tuple[Tensor, float]]
"""(model, batch) -> (the loss to minimise, a scalar with its graph; the loss to report)."""


class Batches(Protocol):
    """A source of batches. `position` is the whole state: set it to continue from a position."""

    position: int

    def batch(self) -> Any:
        """The next batch."""


class Trainer:
    """Trains a model of any kind: `loss` calls it.

    Gradients are clipped to the norm `clip`; None does not clip. With `subnormals_are_zero`, a step treats subnormal
    float32 numbers as zero: processors are slow with them. A step accumulates the gradients of `accumulate` batches,
    each with the share of its `weight` (by default the same): only one batch at a time needs memory. Several processes
    (`ranks`) divide these batches.

    `losses` has the reported loss of every step so far; `held_out` has (step, loss on held-out data) pairs.
    """

    def __init__(
        self,
        model: Module,
        batches: Batches,
        loss: Loss,
        optimizer: Optimizer,
        schedule: LRScheduler,
        *,
        clip: float | None = 1.0,
        subnormals_are_zero: bool = False,
        accumulate: int = 1,
        weight: Callable[[Any], float] = lambda batch: 1.0,
    ) -> None:
        self.model = model
        self.batches = batches
        self.loss = loss
        self.optimizer = optimizer
        self.schedule = schedule
        self.clip = clip
        self.subnormals_are_zero = subnormals_are_zero
        self.accumulate = accumulate
        self.weight = weight
        self.losses: list[float] = []
        self.held_out: list[tuple[int, float]] = []
        self.ranks = Ranks()
        self._norm: Tensor | None = None  # of the last step's gradients

    def begin(self) -> None:
        """Gives the parameters memory of their own, before the first step: waits for the other processes, and divides
        with them what they divide. Errors of Ranks.begin.
        """
        if self.ranks.shard and isinstance(self.optimizer, AdamW8bit):
            raise OptionError(
                "keeps AdamW's state in blocks, which processes cannot divide", where="eight_bits",
                hint="Leave out --eight-bits, or --shard",
            )  # fmt: skip
        self.ranks.begin(self.model, self.accumulate)
        for parameter in self.model.parameters():
            storage = parameter._storage  # of a mapped file, or of a larger tensor
            if storage.owner is not None or storage.nbytes > parameter.nbytes or not parameter.is_contiguous():
                parameter.data = parameter.detach().clone().contiguous()
        if isinstance(self.optimizer, MasterWeights):
            self.optimizer.copy_parameters()
        for device in {parameter.device for parameter in self.model.parameters()}:
            release_memory(device)  # of the weights as they were read, and of what other processes keep now

    @property
    def step_count(self) -> int:
        return len(self.losses)

    def step(self) -> float:
        """Trains on `accumulate` batches. Returns the reported loss; PyappError if it is not finite."""
        with flush_denormals() if self.subnormals_are_zero else nullcontext():
            value = self._add_gradients()
            if self.clip is not None:
                self._norm = clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.schedule.step()
        self.losses.append(value)
        return value

    def check_gradients(self) -> None:
        """PyappError unless the gradients of the last step were finite: a loss does not show yet that the weights are
        not. Reads a number from the device. Without `clip` nothing is known.
        """
        if self._norm is not None and not isfinite(self._norm.item()):
            raise PyappError(f"the gradients became {self._norm.item()} at step {self.step_count}", hint=DIVERGED)

    def _add_gradients(self) -> float:
        """Adds the gradients of the step's batches to those of the parameters; returns the mean of the losses."""
        batches = [self.batches.batch() for _ in range(self.accumulate)]
        weights = [self.weight(batch) for batch in batches] if len(batches) > 1 else [1.0]
        mean = 0.0
        for batch, weight in self.ranks.own(list(zip(batches, weights, strict=True))):
            loss, value = self.ranks.run(self.model, self.loss, self.model, batch)
            share = weight / sum(weights)
            if not abs(value) < 1e9:
                mean = value  # all processes are told
            elif abs(mean) < 1e9:
                mean += value * share
            (loss if share == 1 else loss * share).backward()
        mean = self.ranks.sum_gradients(self.model, mean)
        if not abs(mean) < 1e9:
            raise PyappError(f"the loss became {mean} at step {self.step_count + 1}", hint=DIVERGED)
        return mean


def decay_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: matrices decay; vectors (norms and biases) do not."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
