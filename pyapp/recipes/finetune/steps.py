"""What every fine-tuning has: the parameters that are trained, shuffled batches, held-out examples, the optimiser."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event
from pyapp.nn import Module, Parameter
from pyapp.nn.layers.joined import forget_joined
from pyapp.optim import AdamW, AdamW8bit, MasterWeights, Optimizer
from pyapp.optim.lr_scheduler import LambdaLR, warmup_cosine
from pyapp.recipes.chooser import Chooser
from pyapp.text.generation.options import check_number
from pyapp.train.ranks import Ranks
from pyapp.train.resumable import ResumableTraining, settings_of
from pyapp.train.trainer import Loss, Trainer, decay_groups

MOST_HELD_OUT = 64  # rows, unless a file of them is given
TOO_FEW = "there are too few examples to keep some for judging"


@dataclass(frozen=True)
class StepSettings:
    """The settings that determine the result of any fine-tuning.

    model: a name, folder or file. data, held_out_data: the SHA-256 of the files. epochs: passes over the data, unless
    `steps` says how many steps to take. rate 0: the usual one. A batch has `rows` examples of up to `length` tokens, a
    step `accumulate` batches. held_out: the share of examples to judge by. patience: end after so many evaluations that
    are not better than the best one, whose weights are kept (0: take all steps, and keep the last weights). bfloat16:
    products run in bfloat16, under autocast. eight_bits: AdamW8bit.
    """

    model: str
    data: str
    steps: int = 0
    seed: int = 1
    epochs: float = 3.0
    rate: float = 0.0
    weight_decay: float = 0.0
    rows: int = 4
    accumulate: int = 1
    length: int = 512
    held_out: float = 0.05
    held_out_data: str = ""
    bfloat16: bool = False
    eight_bits: bool = False
    patience: int = 0

    def __post_init__(self) -> None:
        check_number("steps", self.steps, 0, 10_000_000, whole=True)
        for name in ("rows", "accumulate"):
            check_number(name, getattr(self, name), 1, 65536, whole=True)
        check_number("length", self.length, 0, 1 << 20, whole=True)
        check_number("patience", self.patience, 0, 10_000, whole=True)
        check_number("epochs", self.epochs, 0, 10_000)
        check_number("rate", self.rate, 0, 1)
        check_number("weight_decay", self.weight_decay, 0, 1)
        check_number("held_out", self.held_out, 0, 0.9)
        if not self.epochs:
            raise OptionError("epochs must be above 0")

    def for_examples(self, count: int) -> Self:
        """The settings with the steps that `epochs` means for this number of examples, unless `steps` are given."""
        per_epoch = count / (self.rows * self.accumulate)
        return self if self.steps else replace(self, steps=max(1, round(per_epoch * self.epochs)))


S = TypeVar("S", bound=StepSettings)


@dataclass(frozen=True)
class Request:
    """What a fine-tuning is asked for: the model and its files, the files or folders of examples, the folder for the
    result, how often to judge (None: ten times in all) and to save, in steps, the processes that train it, and settings
    by name.
    """

    model: str
    files: Mapping[str, Path]
    data: Path
    out: Path
    held_out_data: Path | None = None
    evaluate_every: int | None = None
    save_every: int = 100
    device: str | None = None
    tokenizer: Any = None
    cancel: Cancel = field(default_factory=Cancel)
    ranks: Ranks = field(default_factory=Ranks)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def settings_as(self, kind: type[S], **more: Any) -> S:
        """The settings as `kind`, with `more`. OptionError for unknown ones."""
        return settings_of(kind, {"model": self.model, "data": "", **self.settings, **more})

    def run(self, training: ResumableTraining) -> Iterator[Event]:
        """The events of a training. OptionError for patience without held-out examples."""
        if training.patience and not training.judges():
            raise OptionError(
                "needs held-out examples to judge by",
                where="patience",
                hint="Give more examples, or a file of their own",
            )
        training.trainer.ranks = self.ranks
        often = self.evaluate_every or max(1, training.settings.steps // 10)
        yield from training.run(often, self.save_every, self.cancel)


class Shuffled:
    """Batches of rows: every pass has all rows once, in an order of its own. `position` counts the rows so far."""

    def __init__(self, rows: Sequence[Any], size: int, seed: int) -> None:
        self.position = 0
        self._rows, self._size, self._seed = rows, size, seed
        self._order: tuple[int, list[int]] = (-1, [])

    def batch(self) -> list[Any]:
        found = []
        for _ in range(self._size):
            epoch, place = divmod(self.position, len(self._rows))
            if self._order[0] != epoch:
                draw = Chooser("order of examples", self._seed, epoch).random
                keys = [draw() for _ in self._rows]
                self._order = epoch, sorted(range(len(keys)), key=keys.__getitem__)
            found.append(self._rows[self._order[1][place]])
            self.position += 1
        return found


class Trained(Module):
    """A model whose state is only what is trained: checkpoints do not repeat the base model."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.whole = model

    def forward(self, *inputs: Tensor) -> Tensor:
        """The model's outputs."""
        found: Tensor = self.whole(*inputs)
        return found

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        return ((name, value) for name, value in self.whole.named_parameters() if value.requires_grad)

    def state_dict(self, *, keep_vars: bool = False, **kwargs: Any) -> dict[str, Any]:
        return {name: value if keep_vars else value.detach() for name, value in self.named_parameters()}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        own = dict(self.named_parameters())
        if own.keys() != state_dict.keys():
            raise KeyError("the checkpoint has other parameters")
        with no_grad():
            for name, value in own.items():
                value.copy_(state_dict[name].to(value.device))


def make_trainable(model: Module) -> None:
    """Makes all weights of a model parameters with gradients. They get memory of their own when the training begins
    (Trainer.begin). OptionError for block-quantised ones.
    """
    made: dict[int, Tensor] = {}
    for module in model.modules():
        for name, value in list(module._parameters.items()):
            if value is None:
                continue
            if value.dtype.is_quantized:
                raise OptionError(
                    f"the model's weights are {value.dtype.name}, which has no gradients", where="full",
                    hint='Train an adapter, or load the model with --quantized ""',
                )  # fmt: skip
            if id(value) not in made:
                made[id(value)] = Parameter(value.detach())
            setattr(module, name, made[id(value)])
        forget_joined(module)


def trainer_of(
    model: Module, rows: Sequence[Any], loss: Loss, settings: StepSettings, rate: float, weight: Callable[[Any], float]
) -> Trainer:  # fmt: skip
    """The trainer of a model over shuffled rows: AdamW, a warm-up of a thirtieth of the steps, then a cosine to a tenth
    of the rate. Norms and biases do not decay. `weight` of a batch is its share in the mean over the batches of a step.
    """
    half = any(parameter.dtype.name in ("float16", "bfloat16") for parameter in model.parameters())
    decay = settings.weight_decay
    given: list[Any] = decay_groups(model, decay) if decay else list(model.parameters())
    kind: Callable[..., Optimizer] = AdamW8bit if settings.eight_bits else AdamW
    numbers = {"lr": rate, "weight_decay": decay}
    optimizer = MasterWeights(kind, given, copy=False, **numbers) if half else kind(given, **numbers)
    warmup = max(1, settings.steps // 30)
    return Trainer(
        model, Shuffled(rows, settings.rows, settings.seed), loss, optimizer,
        LambdaLR(optimizer, warmup_cosine(warmup, max(settings.steps, warmup + 1), floor=0.1)),
        accumulate=settings.accumulate, weight=weight,
    )  # fmt: skip


def divided(
    rows: Sequence[Any], share: float, seed: int, most: int = MOST_HELD_OUT,
    source_of: Callable[[Any], Hashable] = lambda _: None,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """(rows to train on, held-out rows): a share, at most `most`, chosen by the seed; none of fewer than ten.

    Rows of one source (None: by itself) are all held out or none of them, or the model would be judged by what it has
    nearly learnt; unless every source is larger than the share.
    """
    count = min(most, round(len(rows) * share))
    if len(rows) >= 10 and share:
        count = max(1, count)
    elif len(rows) < 10:
        count = 0
    draw = Chooser("held-out examples", seed).random
    groups: dict[Hashable, list[int]] = {}
    for i, row in enumerate(rows):
        source = source_of(row)
        groups.setdefault(i if source is None else source, []).append(i)
    members = list(groups.values())
    if min(map(len, members), default=0) > count:
        members = [[i] for i in range(len(rows))]
    keys = [draw() for _ in members]
    chosen: set[int] = set()
    for group in sorted(range(len(members)), key=keys.__getitem__):
        if len(chosen) + len(members[group]) <= count:
            chosen.update(members[group])
    return [row for i, row in enumerate(rows) if i not in chosen], [rows[i] for i in sorted(chosen)]
