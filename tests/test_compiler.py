"""pyapp.compile: a training step that is replayed computes what it computes eagerly, and says why it cannot be."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, optim
from pyapp.nn import functional as F


def _data(seed: int, *shape: int) -> Tensor:
    return pyapp.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def _labels(seed: int, count: int = 6) -> Tensor:
    return pyapp.from_numpy(np.random.RandomState(seed).randint(0, 5, count))


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.second(F.relu(self.first(x)))))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 5)),
    "batch norm": lambda: nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 5)),
    "tied": _Tied,
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 4)), nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 1),
        nn.AvgPool2d(1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    ),
    "recurrent": lambda: nn.Sequential(nn.Unflatten(1, (4, 2)), _Last(nn.GRU(2, 6, batch_first=True)), nn.Linear(6, 5)),
    "layer norm": lambda: nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 5)),
}  # fmt: skip


class _Last(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0][:, -1]


def _trained(name: str, compiled: bool, device: str = "cpu") -> tuple[Any, nn.Module]:
    pyapp.manual_seed(3)
    model = MODELS[name]().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.02)

    def step(x: Tensor, y: Tensor) -> dict[str, Any]:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return {"loss": loss, "more": [norm, logits.detach().argmax(-1)], "rows": x.shape[0]}

    run: Any = pyapp.compile(step) if compiled else step
    found = []
    for number in range(7):
        rows = 4 if number == 5 else 6  # a smaller batch in between
        out = run(_data(number, rows, 8).to(device), _labels(number, rows).to(device))
        found.append((out["loss"].item(), out["more"][0].item(), out["more"][1].tolist(), out["rows"]))
    if compiled:
        assert run.captured and run.reason is None, run.reason
    else:
        assert found[0][0] != found[-1][0]
    return (found, pyapp.rand(2).tolist()), model


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_eager_steps(name: str) -> None:
    """Losses, norms, weights, buffers and the random numbers that follow, bit for bit."""
    expected, eager = _trained(name, False)
    found, model = _trained(name, True)
    assert found == expected
    for (key, ours), theirs in zip(model.state_dict().items(), eager.state_dict().values(), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), err_msg=key)


def test_gradients_are_accumulated_over_calls() -> None:
    """Two micro-steps, zero_grad outside, and an optimiser's step of its own."""
    results = []
    for compiled in (False, True):
        pyapp.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def micro(x: Tensor, model: nn.Linear = model) -> Tensor:
            loss = model(x).square().mean()
            loss.backward()
            return loss

        def update(optimizer: Any = optimizer) -> None:
            optimizer.step()

        run: Any = pyapp.compile(micro) if compiled else micro
        advance: Any = pyapp.compile(update) if compiled else update
        losses = []
        for number in range(12):
            losses.append(run(_data(number, 5, 4)).item())
            if number % 2:
                gradient = model.weight.grad
                assert gradient is not None
                losses.append(gradient.tolist())
                advance()
                optimizer.zero_grad()
                assert model.weight.grad is None
        results.append((losses, model.weight.tolist(), model.bias.tolist()))
        assert not compiled or (run.captured and advance.captured), (run.reason, advance.reason)
    assert results[0] == results[1]


def test_what_changes_around_a_function_is_followed() -> None:
    model, factor, scale = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 3)), 1.0, pyapp.ones(3)

    def step(x: Tensor, times: int = 1) -> Tensor:
        return model(x) * factor * scale * times

    run = pyapp.compile(step)
    x = _data(0, 2, 3)
    with pyapp.no_grad():
        for training in (True, False, True, False):
            model.train(training)
            for _ in range(3):
                state = pyapp.default_generator.get_state()
                found = run(x)
                pyapp.default_generator.set_state(state)
                assert found.tolist() == step(x).tolist()
        assert run.captured and run.reason is None
        factor = 3.0
        assert run(x).tolist() == step(x).tolist()
        scale = pyapp.full((3,), 2.0)
        for times in (1, 2, 2, 2, 1):
            assert run(x, times=times).tolist() == step(x, times).tolist()
        model[1].weight.requires_grad_(False)
        assert run(x).tolist() == step(x).tolist()


def test_results_are_new_tensors_and_arguments_stay() -> None:
    weight = pyapp.ones(2)

    @pyapp.compile
    def function(x: Tensor, y: Tensor) -> Any:
        weight.add_(1.0)
        return x + y, [x], weight

    kept = []
    for number in range(4):
        x = pyapp.full((2,), float(number))
        total, (same,), its = function(x, x)
        assert same is x and its is weight
        kept.append(total)
    assert [t.tolist() for t in kept] == [[2.0 * n] * 2 for n in range(4)] and weight.tolist() == [5.0, 5.0]
    assert function.__name__ == "function" and "captured" in repr(function)
    pyapp.compiler.reset()
    assert not function.captured and function(x, x)[0].tolist() == [6.0, 6.0]


def test_results_that_are_views_of_arguments_stay_as_they_were() -> None:
    function = pyapp.compile(lambda x: (x * 2, x.T, x[1:]))
    kept = [function(pyapp.full((2, 3), float(number))) for number in range(4)]
    for number, (double, turned, rest) in enumerate(kept):
        assert double.tolist() == [[2.0 * number] * 3] * 2
        assert turned.tolist() == [[float(number)] * 2] * 3 and rest.tolist() == [[float(number)] * 3]


def _reads(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x * 3


def test_reasons_are_given_once() -> None:
    weight = pyapp.ones(2).requires_grad_()
    calls = 0

    def needs_gradient(x: Tensor) -> Tensor:
        return x * weight

    def writes(x: Tensor) -> Tensor:
        return x.add_(1.0)

    def counts(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x * calls

    def seeds(x: Tensor) -> Tensor:
        pyapp.manual_seed(1)
        return x + pyapp.rand(2)

    @pyapp.compiler.disable
    def inner(x: Tensor) -> Tensor:
        return x + 1

    def calls_disabled(x: Tensor) -> Tensor:
        return inner(x) * 2

    for function, match in (
        (_reads, "bool|item"), (needs_gradient, "still needs its gradient"), (writes, "in place"), (seeds, "seeded"),
        (counts, "changes calls"), (calls_disabled, "inner is not compiled"),
    ):  # fmt: skip
        run = pyapp.compile(function)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(9):
                x = pyapp.full((2,), float(number - 4))
                mine, its = x.clone(), x.clone()
                calls = number
                found = run(mine)
                calls = number
                assert found.tolist() == function(its).tolist() and mine.tolist() == its.tolist(), function
        assert run.reason is not None and not run.captured
        assert [str(w.message) for w in caught if "runs eagerly" in str(w.message)] == [str(caught[0].message)]
        assert re.search(match, run.reason), run.reason
    run = pyapp.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="ndarray"):
        assert run(np.ones(2)).tolist() == [2.0, 2.0]


def test_a_call_that_gives_up_has_its_effects_once() -> None:
    """The weights change, the optimiser counts and numbers are drawn once, though the end is not recorded."""
    results = []
    for compiled in (False, True):
        pyapp.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
        optimizer = optim.Adam(model.parameters(), lr=0.1)

        def step(x: Tensor, model: Any = model, optimizer: Any = optimizer) -> float:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return float(loss.item())

        run: Any = pyapp.compiler.Compiled(step, warns=False) if compiled else step
        results.append([run(_data(n, 4, 3)) for n in range(5)] + [optimizer.state[model[0].weight]["step"]])
        assert not compiled or "item" in run.reason
    assert results[0] == results[1]


def test_methods_and_recomputed_blocks() -> None:
    from pyapp.utils.checkpoint import checkpoint

    class Trainer:
        def __init__(self) -> None:
            pyapp.manual_seed(5)
            self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
            self.optimizer = optim.RMSprop(self.model.parameters(), lr=0.01)

        def plain(self, x: Tensor) -> Tensor:
            self.optimizer.zero_grad()
            loss = checkpoint(self.model, x, use_reentrant=False).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

        step = pyapp.compile(plain)

    eager, compiled = Trainer(), Trainer()
    pyapp.manual_seed(7)
    expected = [eager.plain(_data(n, 3, 4)).item() for n in range(6)]
    pyapp.manual_seed(7)
    assert [compiled.step(_data(n, 3, 4)).item() for n in range(6)] == expected
    assert compiled.step.captured and compiled.step.reason is None
    twin = copy.deepcopy(compiled)
    losses = []
    for trainer in (twin, compiled):
        pyapp.manual_seed(8)
        losses.append(trainer.step(_data(6, 3, 4)).item())
    assert losses[0] == losses[1]
    assert twin.model[0].weight.tolist() == compiled.model[0].weight.tolist()
    assert Trainer.step.captured is False


@pytest.mark.parametrize("within", [True, False])
def test_autocast(within: bool) -> None:
    """A region inside the step is part of it; one around it needs a record of its own."""
    model = nn.Linear(8, 4)

    def run(x: Tensor) -> Tensor:
        if within:
            with pyapp.autocast("cpu", dtype=pyapp.bfloat16):
                return model(x)
        return model(x)

    compiled = pyapp.compile(run)
    for n in range(4):
        x = _data(n, 3, 8)
        with pyapp.no_grad(), pyapp.autocast("cpu", dtype=pyapp.bfloat16, enabled=not within and n % 2 == 1):
            expected, found = run(x), compiled(x)
        assert found.dtype is expected.dtype is (pyapp.bfloat16 if within or n % 2 else pyapp.float32)
        assert found.tolist() == expected.tolist()


def test_weights_change_inside_a_region() -> None:
    model = nn.Linear(8, 4)
    compiled = pyapp.compile(model.forward)
    with pyapp.no_grad(), pyapp.autocast("cpu", dtype=pyapp.bfloat16):
        for n in range(4):
            model.weight += 1.0
            x = _data(n, 3, 8)
            assert compiled(x).tolist() == model(x).tolist()
    assert compiled.captured


def test_as_strided_looks_into_the_memory_of_an_argument() -> None:
    """A replay has a copy of the argument, without the memory around it."""
    base = pyapp.arange(20.0)
    function = pyapp.compile(lambda x: x.as_strided((2, 2), (2, 1), 1) + 0)
    with pytest.warns(UserWarning, match="as_strided looks into the memory"):
        for _ in range(3):
            assert function(base).tolist() == [[1, 2], [3, 4]]
    other = pyapp.compile(lambda x: x.as_strided((2, 2), (2, 1), 1) + 0)
    assert other(base[4:12]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="give it the whole tensor"):
        other(base[4:12])
