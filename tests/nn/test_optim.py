"""Optimisers, clipping and schedules against torch's values (made by make_golden.py)."""

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import nn, optim
from pyapp.engine.ops import from_numpy, ones, zeros
from pyapp.optim import lr_scheduler
from tests.nn.cases import OPTIMIZERS, SHAPES, STEPS, TOTAL, WARMUP, gradient, start

GOLDEN = np.load(Path(__file__).with_name("golden.npz"))


def parameters() -> list[Any]:
    return [nn.Parameter(from_numpy(start(i))) for i in range(len(SHAPES))]


def take_step(optimizer: optim.Optimizer, every: list[Any], step: int) -> None:
    for i, parameter in enumerate(every):
        parameter.grad = from_numpy(gradient(i, step))
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(name: str) -> None:
    kind, settings = OPTIMIZERS[name]
    every = parameters()
    optimizer = getattr(optim, kind)(every, **settings)
    for step in range(STEPS):
        take_step(optimizer, every, step)
        for i, parameter in enumerate(every):
            np.testing.assert_allclose(parameter.detach().numpy(), GOLDEN[f"{name}/{step}/{i}"], rtol=2e-5, atol=2e-6)


def test_parameters_of_one_step_are_each_stepped_as_alone() -> None:
    """Small and large ones, of other dtypes, and with gradients in another order of memory, in one call or several."""

    def made() -> list[Any]:
        found = []
        kinds = ("float32", "float64", "float32", "float16", "float32", "float32")
        for at, (shape, dtype) in enumerate(
            zip(((4, 3), (4, 3), (5,), (3, 4), (300, 300), (2, 6)), kinds, strict=True)
        ):
            parameter = nn.Parameter((ones(*shape) * 0.1 * (at + 1)).to(dtype))
            numbers = np.arange(parameter.numel(), dtype="float32").reshape(shape[::-1])
            grad = (from_numpy(numbers) / 7).to(dtype)
            parameter.grad = grad.T if at % 2 else grad.T.contiguous()
            found.append(parameter)
        return found

    for kind, settings in OPTIMIZERS.values():
        if kind in ("Adafactor", "LBFGS", "Muon"):
            continue
        together, alone = made(), made()
        of_all = getattr(optim, kind)(together, **settings)
        of_each = [getattr(optim, kind)([parameter], **settings) for parameter in alone]
        for _ in range(2):
            of_all.step()
            for optimizer in of_each:
                optimizer.step()
        for a, b in zip(together, alone, strict=True):
            assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), (kind, a.shape, a.dtype)
            assert a._version == b._version > 0


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_saved_state_continues_bit_by_bit(name: str) -> None:
    kind, settings = OPTIMIZERS[name]
    whole, first = parameters(), parameters()
    optimizer, before = (getattr(optim, kind)(every, **settings) for every in (whole, first))
    for step in range(3):
        take_step(optimizer, whole, step)
        take_step(before, first, step)
    state = before.state_dict()
    second = [nn.Parameter(parameter.detach().clone()) for parameter in first]
    after = getattr(optim, kind)(second, **{**settings, "lr": 0.5})
    after.load_state_dict(state)
    take_step(before, first, 5)  # the loaded state is a copy
    for step in range(3, STEPS):
        take_step(optimizer, whole, step)
        take_step(after, second, step)
    for a, b in zip(whole, second, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def test_radam_before_it_divides_does_not_look_at_the_squares() -> None:
    """Squares beyond float32 count from the sixth step on, where they make the step 0, as in torch."""
    parameter = nn.Parameter(zeros(2))
    optimizer, found = optim.RAdam([parameter], lr=0.5), []
    for _ in range(6):
        parameter.grad = from_numpy(np.array([1e25, 1.0], np.float32))
        optimizer.step()
        found.append(parameter.detach().tolist())
    np.testing.assert_allclose([large for large, _ in found[:5]], [-5e24 * n for n in range(1, 6)], rtol=1e-6)
    assert found[5][0] == found[4][0] and np.isfinite(found).all()


def test_groups_have_their_own_settings() -> None:
    a, b = nn.Parameter(ones(4)), nn.Parameter(ones(4))
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.25)
    a.grad, b.grad = ones(4), ones(4)
    optimizer.step()
    assert (a.detach().tolist(), b.detach().tolist()) == ([0.5] * 4, [0.75] * 4)


def test_parameters_without_a_gradient_stay() -> None:
    a, b = nn.Parameter(ones(3)), nn.Parameter(ones(3))
    optimizer = optim.AdamW([a, b], lr=0.1, weight_decay=0.5)
    a.grad = ones(3)
    optimizer.step()
    assert b.detach().tolist() == [1.0] * 3
    assert list(optimizer.state) == [a]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p: optim.AdamW([]), ValueError, "no parameters"),
        (lambda p: optim.AdamW([{"params": p}, {"params": [p]}]), ValueError, "two groups"),
        (lambda p: optim.AdamW([p], lr=-1), ValueError, "lr must be"),
        (lambda p: optim.AdamW([p], lr=float("nan")), ValueError, "lr must be"),
        (lambda p: optim.AdamW([p], lr=10**400), ValueError, "lr must be"),
        (lambda p: optim.AdamW([p], betas=(0.9, 1.0)), ValueError, "betas"),
        (lambda p: optim.AdamW([3]), TypeError, "takes tensors"),
        (lambda p: optim.AdamW([p.detach().to("int32")]), TypeError, "floating-point"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov"),
    ],
)
def test_bad_settings(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make(nn.Parameter(ones(2)))


def test_state_of_another_shape_is_refused() -> None:
    a, b = nn.Parameter(ones(2)), nn.Parameter(ones(3))
    optimizer, other = optim.AdamW([a]), optim.AdamW([b])
    a.grad = ones(2)
    optimizer.step()
    with pytest.raises(ValueError, match="exp_avg"):
        other.load_state_dict(optimizer.state_dict())
    with pytest.raises(ValueError, match="groups"):
        optim.AdamW([a, b]).load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clipping(norm_type: float) -> None:
    every = parameters()
    for i, parameter in enumerate(every):
        parameter.grad = from_numpy(gradient(i, 0))
    total = nn.utils.clip_grad_norm_(every, 0.5, norm_type)
    assert total == pytest.approx(float(GOLDEN[f"clip/{norm_type}/total"]), rel=1e-5)
    for i, parameter in enumerate(every):
        np.testing.assert_allclose(parameter.grad.numpy(), GOLDEN[f"clip/{norm_type}/{i}"], rtol=1e-5)


def test_small_gradients_are_not_clipped() -> None:
    parameter = nn.Parameter(zeros(4))
    parameter.grad = ones(4)
    assert nn.utils.clip_grad_norm_(parameter, 3.0) == 2.0
    assert parameter.grad.tolist() == [1.0] * 4


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_schedules_are_those_of_torch(name: str) -> None:
    shape = getattr(lr_scheduler, f"warmup_{name}")(WARMUP, TOTAL, 0.1)
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=0.3)
    plan = lr_scheduler.LambdaLR(optimizer, shape)
    rates = []
    for _ in range(TOTAL):
        rates += plan.get_last_lr()
        plan.step()
    np.testing.assert_allclose(rates, GOLDEN[f"schedule/{name}"], rtol=1e-6)
    assert shape(10 * TOTAL) == pytest.approx(0.1)


def test_a_schedule_goes_on_where_it_was() -> None:
    shape = lr_scheduler.warmup_cosine(3, 20)
    optimizer = optim.SGD([nn.Parameter(zeros(1))], lr=0.3)
    plan = lr_scheduler.LambdaLR(optimizer, shape)
    for _ in range(7):
        plan.step()
    rate, state, saved = plan.get_last_lr(), plan.state_dict(), optimizer.state_dict()
    other = optim.SGD([nn.Parameter(zeros(1))], lr=0.3)
    other.load_state_dict(saved)
    again = lr_scheduler.LambdaLR(other, shape)
    again.load_state_dict(state)
    assert again.get_last_lr() == rate


def test_bad_schedules() -> None:
    for arguments in ((-1, 10, 0.0), (0, 0, 0.0), (0, 10, 2.0)):
        with pytest.raises(ValueError, match="warmup"):
            lr_scheduler.warmup_cosine(*arguments)


def test_the_text_of_an_optimiser_has_its_groups() -> None:
    layers = [nn.Linear(2, 2), nn.Linear(2, 1)]
    groups = [{"params": layers[0].parameters()}, {"params": layers[1].parameters(), "lr": 0.5}]
    text = repr(optim.SGD(groups, lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0") and text.endswith("\n)")
    assert "    lr: 0.1\n" in text and "\n\nParameter Group 1\n" in text and "    lr: 0.5\n" in text


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_hooks_of_states(name: str) -> None:
    """As torch calls them, once also where a class extends state_dict or load_state_dict."""
    kind, settings = OPTIMIZERS[name]
    optimizer = getattr(optim, kind)(parameters(), **settings)
    calls: list[Any] = []
    handles = [
        optimizer.register_state_dict_pre_hook(lambda o: calls.append(("saves", o is optimizer))),
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": calls[-1]}),
        optimizer.register_state_dict_post_hook(lambda o, state: calls.append("first"), prepend=True),
        optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(state.pop("more"))),
        optimizer.register_load_state_dict_pre_hook(lambda o, state: {**state, "more": 5}, prepend=True),
        optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded")),
    ]
    state = optimizer.state_dict()
    assert state["more"] == "first" and calls == [("saves", True), "first"]
    optimizer.load_state_dict(state)
    assert calls[2:] == [5, "loaded"] and state["more"] == "first"
    for handle in handles:
        handle.remove()
    optimizer.load_state_dict(optimizer.state_dict())
    assert len(calls) == 4


def test_hooks_of_steps_are_not_copied_and_return_pairs() -> None:
    optimizer, calls = optim.SGD(parameters(), lr=0.1), []
    optimizer.register_step_pre_hook(lambda *_: calls.append(1))
    optimizer.step()
    copy.deepcopy(optimizer).step()
    assert calls == [1]
    optimizer.register_step_pre_hook(lambda *_: 5)
    with pytest.raises(RuntimeError, match="None or"):
        optimizer.step()


def test_scripts_see_the_flags_of_optimizers() -> None:
    flags = inspect.signature(optim.AdamW).parameters
    assert {"fused", "foreach", "capturable"} < set(flags) and flags["fused"].default is None
    assert "fused" not in inspect.signature(optim.Rprop).parameters
