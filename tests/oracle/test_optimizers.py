"""Optimisers and schedules, step by step beside torch's."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

import pyapp

from .compare import torch

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True, "betas": (0.8, 0.9)}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "eps": 1e-6}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True, "foreach": False}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("Adadelta", {"lr": 0.7, "rho": 0.8, "weight_decay": 0.1}),
    ("Adamax", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.01}),
    ("NAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.05, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}),
    ("Adafactor", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.05, "eps": (1e-6, 1e-2), "d": 2.0, "beta2_decay": -0.5}),
]
SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": lambda step: 0.9**step}),
    ("LambdaLR", {"lr_lambda": [lambda step: 1 / (1 + step), lambda step: 0.5]}),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.8}),
    ("ConstantLR", {"factor": 0.3, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 6}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 8, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": [0.5, 0.7], "total_steps": 15, "three_phase": True}),
    ("MultiplicativeLR", {"lr_lambda": [lambda step: 0.9, lambda step: 1 / (1 + step)]}),
    ("CyclicLR", {"base_lr": [0.01, 0.02], "max_lr": 0.3, "step_size_up": 3, "step_size_down": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 2, "mode": "triangular2", "base_momentum": 0.6}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9}),
]


def both(kind: str, settings: dict[str, Any], dtype: str = "float32") -> list[tuple[Any, list[Any], Any]]:
    """(package, two parameters, optimiser with one group for each) on both sides."""
    found = []
    for P in (torch, pyapp):
        kinds = {"dtype": getattr(P, dtype)}
        parameters = [
            P.nn.Parameter(P.tensor([[1.0, -2.0], [0.5, 3.0]], **kinds)), P.nn.Parameter(P.tensor([0.25], **kinds))
        ]  # fmt: skip
        groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": settings["lr"] * 2}]
        found.append((P, parameters, getattr(P.optim, kind)(groups, **settings)))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS)
def test_optimizers(kind: str, settings: dict[str, Any], dtype: str) -> None:
    sides = both(kind, settings, dtype)
    for step in range(12):
        for P, parameters, optimizer in sides:
            optimizer.zero_grad()
            (((parameters[0] + step).sin() * parameters[0]).sum() + parameters[1].exp().sum()).backward()
            if step == 5:
                P.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    for theirs, ours in zip(sides[0][1], sides[1][1], strict=True):
        rough = kind in ("NAdam", "ASGD")  # of which torch keeps factors in float32
        limit = 2e-5 if dtype == "float32" else 1e-7 if rough else 1e-12
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=limit, atol=limit / 10)


@pytest.mark.parametrize(("kind", "settings"), [case for case in OPTIMIZERS if case[0] not in ("NAdam", "ASGD")])
def test_optimizers_go_on_from_torchs_state(kind: str, settings: dict[str, Any]) -> None:
    sides = both(kind, settings)
    (_, theirs, before), (_, ours, after) = sides

    def step(P: Any, parameters: list[Any], optimizer: Any) -> None:
        optimizer.zero_grad()
        ((parameters[0].sin() * parameters[0]).sum() + parameters[1].exp().sum()).backward()
        optimizer.step()

    for _ in range(3):
        step(*sides[0])
    saved = before.state_dict()
    state = {
        number: {k: pyapp.from_numpy(v.numpy().copy()) if hasattr(v, "numpy") else v for k, v in entry.items()}
        for number, entry in saved["state"].items()
    }
    after.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    with pyapp.no_grad():
        for a, b in zip(ours, theirs, strict=True):
            a.copy_(pyapp.from_numpy(b.detach().numpy().copy()))
    for side in sides:
        step(*side)
    file = BytesIO()
    pyapp.save(after.state_dict(), file)
    before.load_state_dict(torch.load(BytesIO(file.getvalue()), weights_only=True))
    for side in sides:
        step(*side)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.5, "max_iter": 6},
        {"lr": 1.0, "max_iter": 4, "history_size": 2, "line_search_fn": "strong_wolfe"},
        {"lr": 0.1, "max_iter": 30, "line_search_fn": "strong_wolfe", "tolerance_grad": 1e-5},
    ],
)
def test_lbfgs(settings: dict[str, Any], dtype: str) -> None:
    found = []
    for P in (torch, pyapp):
        x = P.nn.Parameter(P.tensor([-1.2, 1.0, 0.5], dtype=getattr(P, dtype)))
        y = P.nn.Parameter(P.tensor([[0.3]], dtype=getattr(P, dtype)))
        optimizer = P.optim.LBFGS([x, y], **settings)
        losses = []

        def closure(x: Any = x, y: Any = y, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = ((1 - x) ** 2).sum() + 5 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + (y - 2 * x[0]).square().sum()
            loss.backward()
            return loss

        for _ in range(5):
            losses.append(optimizer.step(closure).item())
        found.append([*losses, *x.tolist(), y.item()])
    if dtype == "float32":  # thirty evaluations later a line search shows the last bit of a sum: compare the ends
        found = [[values[0], *values[5:]] for values in found]
    np.testing.assert_allclose(found[1], found[0], rtol=2e-3 if dtype == "float32" else 1e-6, atol=1e-6)


def test_muon() -> None:
    """torch iterates in bfloat16: each step is as long, and points nearly the same way."""
    for settings in (
        {"lr": 0.1},
        {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.5},
    ):
        values = np.random.RandomState(0).randn(6, 4).astype(np.float32)
        sides = []
        for P in (torch, pyapp):
            x = P.nn.Parameter(P.from_numpy(values.copy()))
            optimizer = P.optim.Muon([x], **settings)
            for step in range(3):
                optimizer.zero_grad()
                ((x + step).sin() * x).sum().backward()
                optimizer.step()
            sides.append(x.detach().numpy())
        np.testing.assert_allclose(sides[1], sides[0], atol=6e-3)


@pytest.mark.parametrize(("kind", "settings"), SCHEDULES)
def test_schedules(kind: str, settings: dict[str, Any]) -> None:
    rates = []
    for P, _, optimizer in both("SGD", {"lr": 0.3, "momentum": 0.9}):
        schedule = getattr(P.optim.lr_scheduler, kind)(optimizer, **settings)
        rates.append([])
        for _ in range(14):
            rates[-1].append([*schedule.get_last_lr(), *(group["momentum"] for group in optimizer.param_groups)])
            optimizer.step()
            schedule.step()
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6, atol=1e-12)


def test_schedules_at_once_and_at_steps_of_choice() -> None:
    rates = []
    for P, _, optimizer in both("SGD", {"lr": 0.3}):
        plans = P.optim.lr_scheduler
        chain = plans.ChainedScheduler([plans.ConstantLR(optimizer, 0.1, 2), plans.ExponentialLR(optimizer, 0.9)])
        rates.append([])
        for _ in range(6):
            rates[-1].append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            chain.step()
    for P, _, optimizer in both("SGD", {"lr": 0.3}):
        schedule = P.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4, 2)
        for epoch in (0, 0.5, 2.25, 5.5, 11.75):
            schedule.step(epoch)
            rates.append([group["lr"] for group in optimizer.param_groups])
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(rates[7:], rates[2:7], rtol=1e-6, atol=1e-12)


def test_schedules_of_your_own() -> None:
    rates = []
    for P, _, optimizer in both("SGD", {"lr": 0.3}):

        class Halves(P.optim.lr_scheduler.LRScheduler):
            def get_lr(self) -> list[float]:
                return [base * 0.5**self.last_epoch for base in self.base_lrs]

        schedule = Halves(optimizer)
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr())
    assert rates[0] == rates[1]


def test_schedules_in_a_row() -> None:
    rates = []
    for P, _, optimizer in both("SGD", {"lr": 0.3}):
        plans = P.optim.lr_scheduler
        rise = plans.LinearLR(optimizer, 0.1, 1.0, 4)
        fall = plans.CosineAnnealingLR(optimizer, 6)
        schedule = plans.SequentialLR(optimizer, [rise, fall], [4])
        rates.append([])
        for _ in range(10):
            rates[-1].append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            schedule.step()
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6, atol=1e-12)
