"""Optimisers and schedules, step by step beside torch's."""

from __future__ import annotations

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
]


def both(kind: str, settings: dict[str, Any]) -> list[tuple[Any, list[Any], Any]]:
    """(package, two parameters, optimiser with one group for each) on both sides."""
    found = []
    for P in (torch, pyapp):
        parameters = [P.nn.Parameter(P.tensor([[1.0, -2.0], [0.5, 3.0]])), P.nn.Parameter(P.tensor([0.25]))]
        groups = [{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": settings["lr"] * 2}]
        found.append((P, parameters, getattr(P.optim, kind)(groups, **settings)))
    return found


@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS)
def test_optimizers(kind: str, settings: dict[str, Any]) -> None:
    sides = both(kind, settings)
    for step in range(12):
        for P, parameters, optimizer in sides:
            optimizer.zero_grad()
            (((parameters[0] + step).sin() * parameters[0]).sum() + parameters[1].exp().sum()).backward()
            if step == 5:
                P.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    for theirs, ours in zip(sides[0][1], sides[1][1], strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-6)


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
