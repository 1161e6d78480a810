"""Training a model that writes tokens: one step, the loss on held-out text, checkpoints that survive interruptions.

Everything that decides the next step lies in the checkpoint: weights, the optimiser's moments, the step's number and
the loader's position. The same seed therefore gives the same weights, interrupted or not, with any number of threads,
on the same kind of processor.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyapp.engine import Tensor, no_grad, ops
from pyapp.errors import FileFormatError, PyappError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.nn.lr_scheduler import LambdaLR, Shape, warmup_cosine
from pyapp.nn.module import Module
from pyapp.nn.optim import AdamW
from pyapp.nn.utils import clip_grad_norm_

IGNORED = -100
CHECKPOINT = "checkpoint.safetensors"  # in the folder of a training
MOMENTS = ("exp_avg", "exp_avg_sq")


class Loader(Protocol):
    """Where the rows of a batch come from (lists of token ids, for a language model); `position` is its whole state."""

    position: int

    def batch(self, rows: int) -> list[Any]: ...


@dataclass(frozen=True)
class Recipe:
    """How to train: `steps` of `rows` rows each; AdamW whose rate rises for `warmup` steps to `rate` and falls in half
    a cosine to `floor` times that. Matrices decay, norms do not. Gradients are clipped to the norm `clip`.
    """

    steps: int
    rows: int = 4
    rate: float = 1.5e-3
    warmup: int = 100
    floor: float = 0.05
    decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = 1.0

    def optimizer(self, model: Module) -> AdamW:
        matrices = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        groups = [{"params": matrices, "weight_decay": self.decay}, {"params": others, "weight_decay": 0.0}]
        return AdamW([group for group in groups if group["params"]], lr=self.rate, betas=self.betas)


class Trainer:
    """A model in training. `losses` holds the training loss of every step so far, in nats per token, and `held_out`
    pairs of (step, loss).
    """

    def __init__(self, model: Module, loader: Loader, recipe: Recipe) -> None:
        self.model = model
        self.loader = loader
        self.recipe = recipe
        self.optimizer = recipe.optimizer(model)
        self.schedule = LambdaLR(self.optimizer, self.shape())
        self.losses: list[float] = []
        self.held_out: list[tuple[int, float]] = []

    def shape(self) -> Shape:
        """How the learning rate goes."""
        return warmup_cosine(self.recipe.warmup, self.recipe.steps, self.recipe.floor)

    @property
    def step_count(self) -> int:
        return len(self.losses)

    def step(self) -> float:
        """One batch, one change of the weights. Returns the batch's loss; PyappError when it is no number any more."""
        loss, value = self.batch_loss()
        if not abs(value) < 1e9:
            raise PyappError(
                f"the loss became {value} at step {self.step_count}",
                hint="Take a smaller learning rate and start in another folder",
            )
        loss.backward()
        clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        self.losses.append(value)
        return value

    def batch_loss(self) -> tuple[Tensor, float]:
        """For the loader's next batch: what is to fall, with its graph, and the loss to report in nats per token."""
        inputs, targets = to_batch(self.loader.batch(self.recipe.rows))
        loss = ops.cross_entropy(self.model(inputs), targets, IGNORED)
        return loss, float(loss.item())

    # -- checkpoints

    def save(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Writes one safetensors file, which takes its name only when it is whole."""
        tensors = {f"model.{name}": p.detach() for name, p in self.model.named_parameters()}
        for number, entry in self.optimizer.state_dict()["state"].items():
            tensors.update({f"adamw.{number}.{name}": entry[name] for name in MOMENTS})
        state = {
            "step": self.step_count,
            "position": self.loader.position,
            "losses": self.losses,
            "held_out": self.held_out,
        }
        write_safetensors(path, tensors, {**metadata, "training": json.dumps(state)})

    def restore(self, path: Path) -> None:
        """Takes up what save wrote. FileFormatError for a file that does not hold this model's training."""
        with open_checkpoint(path) as checkpoint:
            try:
                state = json.loads(checkpoint.metadata["training"])
                for name, parameter in self.model.named_parameters():
                    with no_grad():
                        parameter.copy_(checkpoint.read(f"model.{name}"))
                optimizer = self.optimizer.state_dict()
                numbers = [number for group in optimizer["param_groups"] for number in group["params"]]
                optimizer["state"] = {
                    number: {"step": state["step"], **{m: checkpoint.read(f"adamw.{number}.{m}") for m in MOMENTS}}
                    for number in numbers
                    if state["step"]
                }
                self.optimizer.load_state_dict(optimizer)
                self.schedule.load_state_dict(state)
                self.losses = [float(value) for value in state["losses"]]
                self.held_out = [(int(step), float(value)) for step, value in state["held_out"]]
                self.loader.position = int(state["position"])
            except (KeyError, TypeError, ValueError) as error:
                raise FileFormatError(
                    f"this checkpoint does not continue this training ({error})", where=str(path),
                    hint="Start in another folder, or delete the file to begin again",
                ) from error  # fmt: skip


def to_batch(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as inputs and targets (rows, longest - 1), int32; short rows are filled up with ignored targets."""
    width = max(len(row) for row in rows) - 1
    inputs, targets = array("i"), array("i")
    for row in rows:
        missing = width + 1 - len(row)
        inputs.extend([*row[:-1], *[0] * missing])
        targets.extend([*row[1:], *[IGNORED] * missing])
    shape = (len(rows), width)
    return Tensor.from_buffer(inputs.tobytes(), shape, "int32"), Tensor.from_buffer(targets.tobytes(), shape, "int32")


def nats(model: Callable[[Tensor], Tensor], rows: Iterable[Sequence[int]], batch: int = 8) -> tuple[float, int]:
    """(sum of -log p over all predicted tokens of `rows`, their number)."""
    total, count = 0.0, 0
    with no_grad():
        for group in _groups(rows, batch):
            inputs, targets = to_batch(group)
            predicted = sum(len(row) - 1 for row in group)
            total += float(ops.cross_entropy(model(inputs), targets, IGNORED).item()) * predicted
            count += predicted
    return total, count


def _groups(rows: Iterable[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    group: list[Sequence[int]] = []
    for row in rows:
        group.append(row)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def same_settings(path: Path, key: str, wanted: Any) -> None:
    """PyappError unless the checkpoint's metadata hold `wanted` (as JSON) under `key`."""
    with open_checkpoint(path) as checkpoint:
        found = json.loads(checkpoint.metadata.get(key, "{}"))
    wanted = json.loads(json.dumps(wanted))
    different = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if different:
        pairs = ", ".join(f"{name} {found.get(name)} there, {wanted.get(name)} here" for name in different)
        raise PyappError(
            f"a training with other settings was begun here: {pairs}", where=str(path),
            hint="Give the same settings to continue it, or another folder to begin anew",
        )  # fmt: skip
