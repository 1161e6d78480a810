"""The trainer: it learns, and gives the same weights each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.engine import get_num_threads, set_num_threads
from pyapp.errors import PyappError
from pyapp.train.trainer import Trainer
from tests.train.small import VOCABULARY, small_trainer, weights


def test_it_learns() -> None:
    trainer = small_trainer()
    first = trainer.step()
    while trainer.step_count < 60:
        last = trainer.step()
    assert first == pytest.approx(np.log(VOCABULARY), rel=0.1)
    assert last < 0.25
    assert trainer.losses[0] == first and trainer.losses[-1] == last


def test_the_same_seed_gives_the_same_weights() -> None:
    found = []
    for seed in (7, 7, 8):
        trainer = small_trainer(seed=seed)
        for _ in range(4):
            trainer.step()
        found.append(weights(trainer))
    assert found[0] == found[1] != found[2]


@pytest.mark.native_only
def test_the_number_of_threads_makes_no_difference() -> None:
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            trainer = small_trainer(width=128)
            for _ in range(3):
                trainer.step()
            found.append(weights(trainer))
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_a_loss_that_is_no_number_stops_the_training() -> None:
    trainer = small_trainer()
    with np.errstate(all="ignore"):
        next(iter(trainer.model.parameters())).detach().numpy()[...] = np.nan
        with pytest.raises(PyappError, match="loss became nan at step 1"):
            trainer.step()
    assert trainer.step_count == 0


def gradient_norm(clip: float | None) -> float:
    """AdamW divides by the gradient's size, so a limit shows in its moments only."""
    trainer = small_trainer(clip=clip)
    trainer.step()
    gradients = [entry["exp_avg"].numpy() / 0.1 for entry in trainer.optimizer.state.values()]
    return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in gradients)))


def test_gradients_are_clipped() -> None:
    assert gradient_norm(1e-3) == pytest.approx(1e-3, rel=1e-3)
    assert gradient_norm(None) > 0.1


def test_norms_and_biases_do_not_decay() -> None:
    groups = small_trainer().optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert [len(group["params"]) for group in groups] == [3, 3]
    assert all(p.ndim == 2 for p in groups[0]["params"])
    assert all(p.ndim == 1 for p in groups[1]["params"])


def test_accumulated_batches() -> None:
    """Gradients of several batches with their weights are those of one large batch."""
    x, y = pyapp.randn(6, 3), pyapp.randn(6, 1)

    def trained(sizes: list[int], accumulate: int) -> tuple[Any, list[float]]:
        pyapp.manual_seed(0)
        model = nn.Linear(3, 1)
        given = iter([*zip(x.split(sizes), y.split(sizes), strict=True)] * 3)
        batches = SimpleNamespace(position=0, batch=lambda: next(given))

        def loss(module: Any, batch: Any) -> tuple[Any, float]:
            value = (module(batch[0]) - batch[1]).square().mean()
            return value, float(value.item())

        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.ConstantLR(optimizer, 1.0)
        trainer = Trainer(
            model, batches, loss, optimizer, schedule, accumulate=accumulate, weight=lambda batch: len(batch[0])
        )
        return model, [trainer.step() for _ in range(3)]

    whole, expected = trained([6], 1)
    parts, losses = trained([1, 2, 3], 3)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(parts.weight.detach().numpy(), whole.weight.detach().numpy(), rtol=1e-5)
