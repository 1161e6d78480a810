"""`pyapp train forecast`: trains a small Chronos-Bolt on series that are made up."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, float16, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Metric, Progress
from pyapp.formats import write_safetensors
from pyapp.formats.folders import gone_if_empty
from pyapp.formats.sink import open_sink
from pyapp.models.chronos_bolt import ChronosBolt, Config
from pyapp.nn.init import normal_
from pyapp.optim import AdamW
from pyapp.optim.lr_scheduler import LambdaLR, warmup_cosine
from pyapp.text.options import check_number
from pyapp.train.resumable import ResumableTraining, settings_of
from pyapp.train.trainer import Trainer, decay_groups

from .series import batch_of

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
SHORTEST = 24  # values of the past that are learnt from
HELD_OUT = 1 << 32  # the seeds of the series that judge begin here
BATCH = 64  # held-out series at a time


@dataclass(frozen=True)
class ForecastSettings:
    """The settings that determine the result. The defaults made the embedded model.

    `rows` series make a batch. `held_out` counts the series that judge the model.
    """

    steps: int = 16000
    seed: int = 1
    rows: int = 48
    rate: float = 2e-3
    d_model: int = 48
    d_ff: int = 96
    n_layers: int = 3
    n_heads: int = 4
    context: int = 256
    horizon: int = 48
    patch: int = 8
    held_out: int = 1024

    def __post_init__(self) -> None:
        for name in ("steps", "rows", "held_out"):
            check_number(name, getattr(self, name), 1, 10_000_000, whole=True)
        check_number("context", self.context, SHORTEST, 1 << 14, whole=True)
        check_number("rate", self.rate, 0, 1)
        if not self.rate:
            raise OptionError("rate must be above 0")

    def config(self) -> dict[str, Any]:
        """The object of config.json."""
        return {
            "architectures": ["ChronosBoltModelForForecasting"], "model_type": "t5", "d_model": self.d_model,
            "d_kv": self.d_model // self.n_heads, "d_ff": self.d_ff, "num_layers": self.n_layers,
            "num_decoder_layers": 1, "num_heads": self.n_heads, "vocab_size": 2, "decoder_start_token_id": 0,
            "pad_token_id": 0, "eos_token_id": 1,
            "chronos_config": {
                "context_length": self.context, "prediction_length": self.horizon, "input_patch_size": self.patch,
                "input_patch_stride": self.patch, "quantiles": list(LEVELS), "use_reg_token": True,
            },
        }  # fmt: skip


class SeriesLoader:
    """Batches of `rows` series with pasts of one length, which changes from batch to batch. `position` is the number of
    the next batch, and the whole state.
    """

    def __init__(self, settings: ForecastSettings) -> None:
        self.position = 0
        self._settings = settings

    def batch(self) -> tuple[Tensor, Tensor]:
        """(past, what follows), float32."""
        settings, number = self._settings, self.position
        self.position += 1
        share = np.random.Generator(np.random.PCG64([settings.seed, number, 1])).random()
        past = SHORTEST + int((1 - share * share) * (settings.context - SHORTEST + 1))  # long ones more often
        return tensors(batch_of(settings.rows, min(past, settings.context), settings.horizon, settings.seed, number))


def tensors(arrays: Any) -> Any:
    return tuple(ops.from_numpy(np.ascontiguousarray(array)) for array in arrays)


class ForecastTraining(ResumableTraining):
    """Trains a ChronosBolt in a folder, which gets the checkpoint, and at the end the model."""

    title = "Quantile loss of the forecaster"
    unit = "deviations"
    smoothing = 100

    def __init__(self, folder: Path, settings: ForecastSettings) -> None:
        super().__init__(folder, settings)
        self.model = ChronosBolt(Config.from_dict(settings.config()))
        initialize(self.model, Generator(settings.seed))
        optimizer = AdamW(decay_groups(self.model, 0.02), lr=settings.rate, betas=(0.9, 0.98))
        warmup = max(1, min(300, settings.steps // 10))
        schedule = LambdaLR(optimizer, warmup_cosine(warmup, settings.steps, floor=0.01))
        self.trainer = Trainer(self.model, SeriesLoader(settings), loss_of, optimizer, schedule)
        self.held_out = batch_of(settings.held_out, settings.context, settings.horizon, HELD_OUT + settings.seed)

    def _forecasts(self) -> Any:
        """Of the held-out series (N, levels, horizon)."""
        past, _ = self.held_out
        with no_grad():
            parts = [self.model(*tensors([past[at : at + BATCH]])) for at in range(0, len(past), BATCH)]
        return np.concatenate([part.numpy() for part in parts])

    def held_out_loss(self) -> float:
        found, (_, wanted) = self._forecasts(), self.held_out
        return float(np.mean([_pinball(wanted - found[:, i], level) for i, level in enumerate(LEVELS)]))

    def export(self) -> None:
        """model.safetensors in float16, and config.json."""
        tied = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
        state = {name: value.to(float16) for name, value in self.model.state_dict().items() if name not in tied}
        write_safetensors(self.folder / "model.safetensors", state, {"format": "pt"})
        with open_sink(self.folder / "config.json") as file:
            file.write(json.dumps(self.settings.config(), indent=1).encode() + b"\n")

    def results(self) -> dict[str, Any]:
        """The mean absolute error on the held-out series in deviations of their past: of the median, of the last value,
        of the mean; and the share of the values that lie between the outer quantiles.
        """
        found, (past, wanted) = self._forecasts(), self.held_out
        middle, low, high = found[:, LEVELS.index(0.5)], found[:, 0], found[:, -1]
        guesses = {"model": middle, "last value": past[:, -1:], "mean": np.zeros_like(middle)}
        return {
            "errors": {name: float(abs(wanted - guess).mean()) for name, guess in guesses.items()},
            "quantile_loss": self.held_out_loss(),
            "between_outer_quantiles": float(((wanted >= low) & (wanted <= high)).mean()),
            "held_out_series": len(past),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "series": self.trainer.step_count * self.settings.rows,
            "size": (self.folder / "model.safetensors").stat().st_size,
        }

    def final_metrics(self, results: Mapping[str, Any]) -> Iterator[Metric]:
        for name, value in results["errors"].items():
            yield Metric(f"error_{name.replace(' ', '_')}", value, self.unit, self.trainer.step_count)


def _pinball(error: Any, level: float) -> float:
    return float(np.maximum(level * error, (level - 1) * error).mean())


def loss_of(model: ChronosBolt, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, float]:
    """The mean quantile loss (Koenker and Bassett 1978) over all levels and values."""
    past, wanted = batch
    error = wanted.unsqueeze(1) - model(past)  # (B, levels, H)
    level = ops.tensor(LEVELS, dtype="float32").reshape(1, -1, 1)
    loss = ops.maximum(level * error, (level - 1) * error).mean()
    return loss, float(loss.item())


def initialize(model: ChronosBolt, generator: Generator) -> None:
    """Fills the matrices with normal numbers, whose deviations are T5's: they keep the size of what passes through
    them (Raffel et al. 2020, mesh-tensorflow's code); biases with 0.
    """
    config = model.config
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            if name.endswith("bias"):
                normal_(parameter, 0.0, 0.0, generator)
            continue
        deviation = 1 / sqrt(parameter.shape[1])
        if name.endswith(("SelfAttention.q.weight", "EncDecAttention.q.weight")):
            deviation /= sqrt(config.d_kv)
        elif name.startswith("output_patch_embedding"):
            deviation /= 4  # the first forecasts are near the mean
        normal_(parameter, 0.0, deviation, generator)


def train_forecast(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 500,
    save_every: int = 500,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains in the folder `out`, or continues an interrupted run there; yields Progress, Metric and finally Done.

    `settings` are those of ForecastSettings. Leaves model.safetensors, config.json, a checkpoint and, with Pillow,
    loss.png. The same settings give the same weights on the same kind of processor, however often it was interrupted.
    Errors are those of train_story.
    """
    chosen = settings_of(ForecastSettings, settings)
    yield Progress("preparing the series", 0, 1)
    with gone_if_empty(out):
        yield from ForecastTraining(Path(out), chosen).run(evaluate_every, save_every, cancel or Cancel())
