"""Optimisers, schedulers, clipping by value and averages against torch's values; fillings by their moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.engine import no_grad
from pyapp.engine.ops import from_numpy, ones, zeros
from pyapp.engine.ops.optimizer_steps import MuonNumbers, muon_step
from pyapp.nn import init
from tests.nn.cases import SHAPES, STEPS, gradient, start
from tests.nn.module_cases import OPTIMIZERS
from tests.nn.module_cases import SCHEDULES as MORE_SCHEDULES
from tests.nn.training_cases import (
    CHANGED_AT,
    CHANGED_TO,
    METRICS,
    MOMENT_OPTIMIZERS,
    SCHEDULE_PAIRS,
    SCHEDULE_STEPS,
    SCHEDULES,
    SCHEDULES_OF_PAIRS,
    load_golden,
)
from tests.together import check_each

GOLDEN = load_golden() | load_golden("golden_modules.npz") | load_golden("golden_schedules.npz")
MOMENT_OPTIMIZERS |= OPTIMIZERS
SCHEDULES |= MORE_SCHEDULES


def parameters() -> list[Any]:
    return [nn.Parameter(from_numpy(start(i))) for i in range(len(SHAPES))]


def take_step(optimizer: Any, every: list[Any], step: int) -> None:
    for i, parameter in enumerate(every):
        parameter.grad = from_numpy(gradient(i, step))
    optimizer.step()


@pytest.mark.parametrize("name", MOMENT_OPTIMIZERS)
def test_steps_are_those_of_torch(name: str) -> None:
    kind, settings = MOMENT_OPTIMIZERS[name]
    every = parameters()
    optimizer = getattr(optim, kind)(every, **settings)
    for step in range(STEPS):
        take_step(optimizer, every, step)
        if step in (0, STEPS - 1):
            for i, parameter in enumerate(every):
                wanted = GOLDEN[f"{name}/{step}/{i}"]
                np.testing.assert_allclose(parameter.detach().numpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", MOMENT_OPTIMIZERS)
def test_a_saved_state_continues_bit_by_bit(name: str) -> None:
    kind, settings = MOMENT_OPTIMIZERS[name]
    whole = parameters()
    optimizer = getattr(optim, kind)(whole, **settings)
    for step in range(3):
        take_step(optimizer, whole, step)
    second = [nn.Parameter(parameter.detach().clone()) for parameter in whole]
    after = getattr(optim, kind)(second, lr=0.5)
    after.load_state_dict(optimizer.state_dict())
    for step in range(3, STEPS):
        take_step(optimizer, whole, step)
        take_step(after, second, step)
    for a, b in zip(whole, second, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torch(name: str) -> None:
    kind, settings = SCHEDULES[name]
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=0.3, momentum=0.9)
    schedule = getattr(optim.lr_scheduler, kind)(optimizer, **settings)
    rates = []
    for step in range(SCHEDULE_STEPS):
        group = optimizer.param_groups[0]
        assert schedule.get_last_lr() == [group["lr"]]
        rates.append([group["lr"], group["momentum"]])
        schedule.step(*([METRICS[step]] if kind == "ReduceLROnPlateau" else []))
    np.testing.assert_allclose(rates, GOLDEN[f"{name}/rates"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("case", [*SCHEDULE_PAIRS, *(f"changed {name}" for name in SCHEDULES_OF_PAIRS)])
def test_rates_that_others_change_too_are_those_of_torch(case: str) -> None:
    """Two schedules of one optimiser, or a rate that the user sets: most schedules multiply what is there."""
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=0.3, momentum=0.9)
    names = SCHEDULE_PAIRS.get(case, (case.removeprefix("changed "),))
    schedules = []
    for kind, settings in (SCHEDULES_OF_PAIRS[name] for name in names):
        schedules.append(getattr(optim.lr_scheduler, kind)(optimizer, **settings))
    rates = []
    for step in range(SCHEDULE_STEPS):
        if step == CHANGED_AT and case.startswith("changed"):
            optimizer.param_groups[0]["lr"] = CHANGED_TO
        for schedule in schedules:
            schedule.step(*([METRICS[step]] if isinstance(schedule, optim.lr_scheduler.ReduceLROnPlateau) else []))
        rates.append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(rates, GOLDEN[f"{case}/rates together"], rtol=1e-5, atol=1e-9)


def test_states_of_schedules_have_what_torch_reads() -> None:
    """Keys that torch's load_state_dict takes over, or takes out first."""
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=1.0, momentum=0.9)
    plans = optim.lr_scheduler
    common = {"last_epoch", "base_lrs", "_last_lr", "_step_count", "_is_initial", "_get_lr_called_within_step"}
    restarts = plans.CosineAnnealingWarmRestarts(optimizer, 3, 2)
    for _ in range(5):
        restarts.step()
    assert restarts.state_dict() == {
        "last_epoch": 5, "base_lrs": [1.0], "_last_lr": [optimizer.param_groups[0]["lr"]], "_step_count": 6,
        "T_cur": 2, "T_i": 6, "T_0": 3, "T_mult": 2, "eta_min": 0.0,
        "_is_initial": False, "_get_lr_called_within_step": False,
    }  # fmt: skip
    assert set(plans.LambdaLR(optimizer, lambda step: 1.0).state_dict()) == common | {"lr_lambdas"}
    cycle = plans.CyclicLR(optimizer, 0.1, 1.0, mode="exp_range", gamma=0.9)
    assert set(cycle.state_dict()) == common | {
        "_scale_fn_ref", "_scale_fn_custom", "cycle_momentum", "total_size", "step_ratio", "mode", "gamma",
        "scale_mode", "use_beta1", "max_lrs", "base_momentums", "max_momentums",
    }  # fmt: skip
    other = plans.CyclicLR(optimizer, 0.2, 3.0)
    other.load_state_dict(cycle.state_dict())  # the settings come with the state, as in torch
    cycle.step()
    rate = optimizer.param_groups[0]["lr"]
    other.step()
    assert optimizer.param_groups[0]["lr"] == rate != 0.1
    assert optimizer.param_groups[0]["base_momentum"] == 0.8
    one = plans.OneCycleLR(optimizer, 1.0, total_steps=11)
    state = one.state_dict()
    assert set(state) == common | {
        "total_steps",
        "cycle_momentum",
        "use_beta1",
        "_anneal_func_type",
        "_schedule_phases",
    }
    assert state["_schedule_phases"][1] == {
        "end_step": 10, "start_lr": "max_lr", "end_lr": "min_lr", "start_momentum": "base_momentum",
        "end_momentum": "max_momentum",
    }  # fmt: skip
    optimizer.param_groups[0].update(lr=1.0, initial_lr=1.0)
    chain = plans.ChainedScheduler([plans.ConstantLR(optimizer), plans.ExponentialLR(optimizer, 0.9)])
    state = chain.state_dict()
    own = [common | {"factor", "total_iters"}, common | {"gamma"}]
    assert set(state) == common | {"_schedulers"} and [set(each) for each in state["_schedulers"]] == own
    chain.load_state_dict({"_last_lr": [0.5], "_schedulers": [{"last_epoch": 7}, {"last_epoch": 7}]})  # torch's
    assert (chain.last_epoch, optimizer.param_groups[0]["lr"]) == (7, 0.5)


def test_settings_of_schedules_are_kept_and_can_be_changed() -> None:
    """As in torch: a state brings its settings, and attributes have torch's names."""
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=1.0)
    plans = optim.lr_scheduler
    pairs: list[tuple[Any, Any, dict[str, Any]]] = [
        (plans.StepLR(optimizer, 3), plans.StepLR(optimizer, 7, 0.5), {"step_size": 3, "gamma": 0.1}),
        (plans.MultiStepLR(optimizer, [1, 4]), plans.MultiStepLR(optimizer, [2], 0.5), {"milestones": {1: 1, 4: 1}}),
        (plans.LinearLR(optimizer, 0.2, 0.8, 4), plans.LinearLR(optimizer), {"start_factor": 0.2, "end_factor": 0.8}),
        (plans.PolynomialLR(optimizer, 4, 2.0), plans.PolynomialLR(optimizer), {"total_iters": 4, "power": 2.0}),
        (plans.ConstantLR(optimizer, 0.4, 2), plans.ConstantLR(optimizer), {"factor": 0.4, "total_iters": 2}),
        (
            plans.CosineAnnealingLR(optimizer, 4, 0.1),
            plans.CosineAnnealingLR(optimizer, 9),
            {"T_max": 4, "eta_min": 0.1},
        ),
    ]
    for first, second, settings in pairs:
        second.load_state_dict(first.state_dict())
        assert settings.items() <= second.state_dict().items()
        for name, value in settings.items():
            assert getattr(second, name) == value
        rates = []
        for schedule in (first, second):
            optimizer.param_groups[0]["lr"] = schedule.get_last_lr()[0]
            for _ in range(3):
                schedule.step()
            rates.append(schedule.get_last_lr())
        assert rates[0] == rates[1]
    changed = plans.StepLR(optimizer, 5, 0.5)
    before = changed.get_last_lr()[0]
    changed.step_size = 1
    changed.step()
    np.testing.assert_allclose(changed.get_last_lr(), [before * 0.5])
    plateau, other = plans.ReduceLROnPlateau(optimizer, patience=2, factor=0.3), plans.ReduceLROnPlateau(optimizer)
    other.load_state_dict(plateau.state_dict())
    assert (other.patience, other.factor, other.state_dict()["_last_lr"]) == (2, 0.3, changed.get_last_lr())


def test_a_schedule_that_continues_needs_the_first_rate() -> None:
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=1.0)
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(optimizer, 3, last_epoch=2)
    optimizer.param_groups[0] |= {"initial_lr": 1.0, "lr": 0.5}
    assert optim.lr_scheduler.ExponentialLR(optimizer, 0.9, last_epoch=2).get_last_lr() == [0.5]


def test_schedules_continue_from_their_state() -> None:
    one, two = (optim.SGD([nn.Parameter(zeros(1))], lr=0.3, momentum=0.9) for _ in range(2))
    first, second = (optim.lr_scheduler.OneCycleLR(optimizer, 0.5, 20) for optimizer in (one, two))
    for _ in range(7):
        first.step()
    second.load_state_dict(first.state_dict())
    assert two.param_groups[0]["lr"] == one.param_groups[0]["lr"]
    assert two.param_groups[0]["momentum"] == one.param_groups[0]["momentum"]
    plateau, other = optim.lr_scheduler.ReduceLROnPlateau(one, patience=2), optim.lr_scheduler.ReduceLROnPlateau(two)
    plateau.step(0.5)
    plateau.step(0.6)
    other.load_state_dict(plateau.state_dict())
    assert (other.best, other.num_bad_epochs) == (0.5, 1)
    with pytest.raises(ValueError, match="step 21 of 20"):
        for _ in range(30):
            first.step()
    with pytest.raises(ValueError, match="needs an optimiser with momentum"):
        optim.lr_scheduler.OneCycleLR(optim.Adagrad([nn.Parameter(zeros(1))]), 0.5, 20)


def test_one_cycle_moves_the_first_beta() -> None:
    optimizer = optim.Adam([nn.Parameter(zeros(1))])
    optim.lr_scheduler.OneCycleLR(optimizer, 0.5, 20)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)


@pytest.mark.parametrize(
    "build",
    [
        lambda p: optim.Adam(p, betas=(1.0, 0.9)),
        lambda p: optim.RMSprop(p, alpha=1.0),
        lambda p: optim.Lion(p, lr=-1.0),
        lambda p: optim.Adagrad(p, lr_decay=-1.0),
        lambda p: optim.lr_scheduler.StepLR(optim.SGD(p), 0),
        lambda p: optim.Muon(p),
        lambda p: optim.Rprop(p, etas=(1.1, 1.2)),
        lambda p: optim.LBFGS(p, line_search_fn="armijo"),
        lambda p: optim.lr_scheduler.CyclicLR(optim.SGD(p, momentum=0.9), 0.1, 0.2, mode="square"),
        lambda p: optim.lr_scheduler.CyclicLR(optim.Adagrad(p), 0.1, 0.2),
    ],
)
def test_bad_settings_are_refused(build: Any) -> None:
    with pytest.raises(ValueError):
        build(parameters())


def test_clipping_by_value() -> None:
    a = nn.Parameter(zeros(4))
    a.grad = pyapp.tensor([-3.0, -0.2, 0.5, 9.0])
    nn.utils.clip_grad_value_([a, nn.Parameter(zeros(1))], 0.5)
    np.testing.assert_array_equal(a.grad.numpy(), np.array([-0.5, -0.2, 0.5, 0.5], np.float32))


def test_moving_averages() -> None:
    net = nn.Linear(2, 1, bias=False)
    init.constant_(net.weight, 1.0)
    average = optim.ExponentialMovingAverage(net, decay=0.9)
    init.constant_(net.weight, 2.0)
    average.update()
    average.update()
    wanted = 2 - 0.9**2
    np.testing.assert_allclose(average.averages["weight"].numpy(), wanted, rtol=1e-6)
    with average.applied():
        np.testing.assert_allclose(net.weight.detach().numpy(), wanted, rtol=1e-6)
    assert net.weight.tolist() == [[2.0, 2.0]]
    other = optim.ExponentialMovingAverage(nn.Linear(2, 1, bias=False), warmup=True)
    other.load_state_dict(average.state_dict())
    assert other.count == 2 and other.averages["weight"].tolist() == average.averages["weight"].tolist()
    with pytest.raises(ValueError, match="averages of"):
        optim.ExponentialMovingAverage(nn.Linear(2, 1)).load_state_dict(average.state_dict())


@pytest.mark.parametrize(
    "fill, low, high, deviation",
    [
        (lambda w: init.uniform_(w, -1, 3), -1, 3, 4 / 12**0.5),
        (lambda w: init.normal_(w, 0, 2), -12, 12, 2),
        (lambda w: init.xavier_uniform_(w, 2.0), -2 * (6 / 160) ** 0.5, 2 * (6 / 160) ** 0.5, 2 * (2 / 160) ** 0.5),
        (lambda w: init.xavier_normal_(w), -1, 1, (2 / 160) ** 0.5),
        (lambda w: init.kaiming_uniform_(w, 5**0.5), -1 / 60**0.5, 1 / 60**0.5, 1 / 180**0.5),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), -1, 1, (2 / 100) ** 0.5),
        (lambda w: init.trunc_normal_(w, std=0.02, a=-0.04, b=0.04), -0.04, 0.04, 0.02 * 0.8796),
        (lambda w: init.trunc_normal_(w, a=3.0, b=4.0), 3, 4, 0.2223),
    ],
)
def test_fillings_have_their_range_and_deviation(fill: Any, low: float, high: float, deviation: float) -> None:
    pyapp.manual_seed(5)
    weight = nn.Parameter(zeros(100, 60))
    assert fill(weight) is weight and weight.requires_grad
    found = weight.detach().numpy()
    assert low - 1e-6 <= found.min() and found.max() <= high + 1e-6
    np.testing.assert_allclose(found.std(), deviation, rtol=0.05)
    first = found.copy()
    pyapp.manual_seed(5)
    fill(weight)
    np.testing.assert_array_equal(first, weight.detach().numpy())


def test_constants_and_orthogonal() -> None:
    weight = nn.Parameter(zeros(4, 3, 2))
    assert init.constant_(weight, 0.25).detach().numpy().min() == 0.25 and init.ones_(weight).sum().item() == 24
    assert init.zeros_(weight).sum().item() == 0
    for shape in ((4, 3, 2), (7, 3)):
        q = init.orthogonal_(nn.Parameter(zeros(*shape)), 2.0).detach().numpy().reshape(shape[0], -1)
        square = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(square, 4 * np.eye(len(square)), atol=1e-5)
    assert init.eye_(nn.Parameter(zeros(2, 3))).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.calculate_gain("leaky_relu", 0.2) == (2 / 1.04) ** 0.5 and init.calculate_gain("tanh") == 5 / 3
    with pytest.raises(ValueError, match="at least two dims"):
        init.xavier_uniform_(zeros(3))


def test_schedules_in_a_row_and_of_each_group() -> None:
    optimizer = optim.SGD(
        [{"params": [nn.Parameter(zeros(1))]}, {"params": [nn.Parameter(zeros(1))], "lr": 1.0}], lr=0.5
    )
    plans = optim.lr_scheduler
    rise = plans.LinearLR(optimizer, 0.5, 1.0, 2)
    fall = plans.LambdaLR(optimizer, [lambda step: 1 / (1 + step), lambda step: 0.25])
    schedule = plans.SequentialLR(optimizer, [rise, fall], [2])
    rates = []
    for _ in range(4):
        rates.append(schedule.get_last_lr())
        schedule.step()
    assert rates == [[0.25, 0.5], [0.375, 0.75], [0.5, 0.25], [0.25, 0.25]]
    with pytest.raises(ValueError, match="2 schedules of one optimiser need 1 milestones, got 0"):
        plans.SequentialLR(optimizer, [rise, fall], [])
    with pytest.raises(ValueError, match="1 functions for 2 groups"):
        plans.LambdaLR(optimizer, [lambda step: 1.0])


def test_a_closure_and_one_vector_of_all() -> None:
    parameter = nn.Parameter(ones(2))
    optimizer = optim.SGD([parameter], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = (parameter * parameter).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2 and parameter.tolist() == [0, 0]
    flat = nn.utils.parameters_to_vector([parameter, nn.Parameter(ones(1, 3))])
    assert flat.tolist() == [0, 0, 1, 1, 1]
    nn.utils.vector_to_parameters(flat[1:3], [parameter])
    assert parameter.tolist() == [0, 1]
    with pytest.raises(ValueError, match="for 2 numbers"):
        nn.utils.vector_to_parameters(flat, [parameter])


def test_lbfgs_finds_the_bottom_of_a_bent_valley() -> None:
    """Rosenbrock's function (1960), whose minimum is at ones; with a history that was saved and loaded."""
    x = nn.Parameter(pyapp.tensor([-1.2, 1.0], dtype="float64"))
    optimizer = optim.LBFGS([x], lr=1.0, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    again = optim.LBFGS([x], lr=1.0, line_search_fn="strong_wolfe")
    again.load_state_dict(optimizer.state_dict())
    optimizer = again
    for _ in range(3):
        optimizer.step(closure)
    assert 24 < first < 25 and x.detach().numpy() == pytest.approx([1, 1], abs=1e-4)
    with pytest.raises(TypeError, match="takes a closure"):
        optimizer.step()


def test_muon_turns_and_does_not_stretch() -> None:
    """Its steps have singular values near the learning rate, whatever those of the gradient."""
    x = nn.Parameter(zeros(4, 3))
    x.grad = from_numpy((np.random.default_rng(0).standard_normal((4, 3)) * [9, 3, 1]).astype(np.float32))
    optim.Muon([x], lr=0.1, weight_decay=0.0).step()
    lengths = np.linalg.svd(x.detach().numpy())[1] / 0.1 / (4 / 3) ** 0.5
    assert 0.6 < lengths.min() and lengths.max() < 1.3


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (4, 4), (1, 3)])
def test_muon_in_one_call_is_its_definition(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    numbers = MuonNumbers((0.05, 0.95), (1e-7,), (0.9, -0.1)), (3.4445, -4.775, 2.0315), 5
    sides = []
    values = [generator.standard_normal(shape).astype(np.float32) for _ in range(3)]
    with no_grad():
        for step in (muon_step, muon_step.definition):
            tensors = [from_numpy(v.copy()) for v in values]
            tensors[2] = tensors[2].mT.contiguous().mT  # a gradient of other strides
            assert step(*tensors, *numbers) is tensors[0]
            sides.append([t.numpy() for t in tensors])
    for fast, defined, before in zip(*sides, values, strict=True):
        np.testing.assert_allclose(fast, defined, rtol=1e-4, atol=1e-6)
        assert (fast is sides[0][2]) == np.array_equal(fast, before)  # all but the gradient have changed


def test_schedules_at_once() -> None:
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=1.0)
    plans = optim.lr_scheduler
    chain = plans.ChainedScheduler([plans.ConstantLR(optimizer, 0.1, 2), plans.ExponentialLR(optimizer, 0.5)])
    rates = []
    for _ in range(4):
        rates += chain.get_last_lr()
        chain.step()
    assert rates == pytest.approx([0.1, 0.05, 0.25, 0.125])
    again = plans.MultiplicativeLR(optimizer, lambda step: 0.5, last_epoch=1)
    assert again.get_last_lr() == pytest.approx([0.0625])


def test_manners_of_torch_are_taken() -> None:
    optim.SGD([nn.Parameter(zeros(1))], foreach=True, fused=None)
    with pytest.raises(NotImplementedError, match="no gradients"):
        optim.Adam([nn.Parameter(zeros(1))], differentiable=True)
    with pytest.raises(TypeError, match="no setting speed"):
        optim.Adam([nn.Parameter(zeros(1))], speed=1)
    with pytest.raises(TypeError, match="floating-point or complex"):
        optim.SGD([zeros(1, dtype="int64")])
    half = nn.Parameter(pyapp.ones(2, dtype="bfloat16"))
    half.grad = pyapp.ones(2, dtype="bfloat16")
    optimizer = optim.AdamW([half], lr=0.1, weight_decay=0)
    optimizer.step()
    assert half.tolist() == [0.8984375] * 2  # 0.9, rounded
    assert optimizer.state[half]["exp_avg"].dtype is half.dtype
    wide = nn.Parameter(half.detach().float())
    again = optim.AdamW([wide])
    again.load_state_dict(optimizer.state_dict())
    assert again.state[wide]["exp_avg"].dtype is wide.dtype  # torch converts it, too
    slow = optim.SGD([half], lr=0.5, momentum=0.9, dampening=0.5)
    slow.load_state_dict({**slow.state_dict(), "state": {0: {"momentum_buffer": None}}})  # as torch saves it at times
    slow.step()
    assert half.tolist() == [0.3984375] * 2


def test_a_schedule_after_one_cycle_begins_where_that_began() -> None:
    """torch's rates: OneCycleLR leaves its first rate as that of the group, and the ends of its range."""
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=0.1, momentum=0.9)
    optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=6)
    group = optimizer.param_groups[0]
    assert (group["initial_lr"], group["max_lr"], group["min_lr"]) == (0.02, 0.5, 2e-6)
    warm, fall = (
        optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
        optim.lr_scheduler.CosineAnnealingLR(optimizer, 5),
    )
    both, rates = optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[3]), []
    for _ in range(6):
        optimizer.step()
        both.step()
        rates.append(round(both.get_last_lr()[0], 6))
    assert rates == [0.008, 0.014, 0.02, 0.01809, 0.01309, 0.00691]


def test_states_have_torchs_names() -> None:
    """torch reads a state by them: RMSprop's step, LBFGS' lists; and LBFGS goes on from torch's, with tensors."""
    x = nn.Parameter(pyapp.tensor([1.0, -2.0]))

    def closure() -> Any:
        x.grad = None
        loss = (x**4).sum() + x.prod()
        loss.backward()
        return loss

    root = optim.RMSprop([x])
    for _ in range(2):
        closure()
        root.step()
    step = root.state_dict()["state"][0]["step"]
    assert (step.item(), step.shape, step.dtype.name) == (2, (), "float32")
    flat = optim.LBFGS([x], max_iter=3)
    flat.step(closure)
    state = flat.state_dict()
    entry = state["state"][0]
    assert {"old_dirs", "old_stps", "ro", "H_diag", "d", "t", "prev_flat_grad"} <= entry.keys()
    start = x.detach().clone()
    flat.step(closure)
    expected = x.tolist()
    with pyapp.no_grad():
        x.copy_(start)
    as_torch = {**entry, "ro": [pyapp.tensor(r) for r in entry["ro"]], "H_diag": pyapp.tensor(entry["H_diag"])}
    as_torch |= {name: [kept.clone() for kept in entry[name][:2]] for name in ("old_dirs", "old_stps")}
    as_torch["ro"] = as_torch["ro"][:2]
    again = optim.LBFGS([x], max_iter=3)
    again.load_state_dict({**state, "state": {0: {**as_torch, "n_iter": 3, "al": [None] * 100}}})
    again.step(closure)
    assert x.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_parameter_that_is_named_twice_moves_twice() -> None:
    """As in torch, with a warning: programs join the parameters of modules with tied weights."""
    p = nn.Parameter(zeros(1))
    with pytest.warns(UserWarning, match="more than once"):
        optimizer = optim.Adam([p, p], lr=0.1)
    p.grad = ones(1)
    optimizer.step()
    np.testing.assert_allclose(p.item(), -0.2, rtol=1e-4)  # torch 2.14


def test_restarts_say_where_they_are() -> None:
    schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([nn.Parameter(zeros(1))], lr=0.1), 2, 2)
    schedule.step(2.75)
    assert (schedule.T_cur, schedule.T_i) == (0.75, 4)  # torch 2.14


def test_parameters_in_any_order_of_memory() -> None:
    """Parameters whose memory is turned, or has gaps, are trained in place, with the numbers of row-major ones."""

    def check(name: str, kind: str) -> None:
        results = []
        for turned in (False, True):
            values = pyapp.arange(12.0).reshape(3, 4).to(kind)
            wide = pyapp.zeros(3, 8, dtype=kind)[:, ::2].copy_(values)
            given = [values.t().contiguous().t(), wide] if turned else [values.clone(), values.clone()]
            assert [x.is_contiguous() for x in given] == [not turned] * 2
            for x in given:
                x.requires_grad_()
            places = [x.data_ptr() for x in given]
            optimizer = getattr(pyapp.optim, name)(given, lr=0.1)
            for step in range(2):
                for x in given:
                    x.grad = (values.sin() + step).to(kind)
                optimizer.step()
            assert [x.data_ptr() for x in given] == places
            results.append([x.detach().float().numpy() for x in given])
        np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)

    names = ("Adam", "AdamW", "SGD", "RMSprop", "Adafactor")
    check_each(check, [(name, kind) for name in names for kind in ("float32", "bfloat16")])


def test_adagrad_saves_parameters_without_gradients() -> None:
    """As in torch, which makes the sums before the first step: another program may load them."""
    used, unused = nn.Parameter(zeros(2)), nn.Parameter(zeros(3))
    optimizer = optim.Adagrad([used, unused], initial_accumulator_value=0.5)
    used.sum().backward()
    optimizer.step()
    state = optimizer.state_dict()["state"]
    assert [(entry["step"].item(), entry["sum"].tolist()) for entry in state.values()] == [
        (1.0, [1.5, 1.5]), (0.0, [0.5, 0.5, 0.5]),
    ]  # fmt: skip
    again = optim.Adagrad([used, unused])
    again.load_state_dict(optimizer.state_dict())
    unused.sum().backward()
    again.step()
    assert again.state_dict()["state"][1]["step"].item() == 1.0 and again.state[unused]["sum"].tolist() == [1.5] * 3
