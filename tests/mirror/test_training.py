"""Training on a device whose memory the host cannot see gives the bits that it gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, keras, nn, optim
from pyapp.autograd import graph
from pyapp.engine import capture
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.whisper import Config as WhisperConfig
from pyapp.models.whisper import Whisper
from pyapp.nn import functional as F
from pyapp.profiler import profile

from . import device as _device  # noqa: F401 (registers the mirror)

CLASSES = 40


def _tokens(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, CLASSES, (2, 9))


def _llama() -> nn.Module:
    return Llama2c(
        Config(dim=24, hidden_dim=48, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=CLASSES, max_seq_len=16)
    )


def _layers() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(CLASSES, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, CLASSES)
    )


class _Hearing(nn.Module):
    """A Whisper that always hears the same."""

    def __init__(self) -> None:
        super().__init__()
        self.whisper = Whisper(WhisperConfig(8, 6, 16, 2, 1, CLASSES, 12, 16, 2, 1))
        self.mel = nn.Buffer(pyapp.randn(2, 8, 12))

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.whisper(self.mel, tokens)
        return found


MODELS: dict[str, Callable[[], nn.Module]] = {"llama2c": _llama, "layers": _layers}
TRAINED = {**MODELS, "whisper": _Hearing}


def _loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Of the next token, where the last one of the first row does not count."""
    logits = model(tokens[:, :-1]).reshape(-1, CLASSES)
    return F.cross_entropy(logits, tokens[:, 1:].reshape(-1), ignore_index=3)


def _made(name: str, device: str) -> nn.Module:
    pyapp.manual_seed(0)
    return TRAINED[name]().to(device)


def _trained(name: str, device: str) -> tuple[nn.Module, list[Any]]:
    """A model after three steps, and the losses and norms of the gradients."""
    model = _made(name, device)
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    found: list[Any] = []
    for step in range(3):
        optimizer.zero_grad()
        loss = _loss(model, pyapp.from_numpy(_tokens(step)).to(device))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        found += [loss.item(), float(norm)]
    return model, found


def _same(found: nn.Module, expected: nn.Module) -> None:
    theirs = expected.state_dict()
    assert found.state_dict().keys() == theirs.keys()
    for name, x in found.state_dict().items():
        np.testing.assert_array_equal(x.cpu().numpy(), theirs[name].cpu().numpy(), err_msg=name)


@pytest.mark.parametrize("name", TRAINED)
def test_three_steps_of_training(name: str) -> None:
    expected, wanted = _trained(name, "cpu")
    model, found = _trained(name, "mirror")
    assert found == wanted and found[0] != found[2]
    assert {str(p.device) for p in model.parameters()} == {"mirror"}
    _same(model, expected)


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "ASGD": {"weight_decay": 0.1}, "Adadelta": {}, "Adafactor": {"lr": 0.1}, "Adagrad": {},
    "Adam": {"weight_decay": 0.1}, "Adamax": {}, "AdamW": {"amsgrad": True}, "Lion": {}, "Muon": {},
    "NAdam": {"weight_decay": 0.1}, "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {}, "SGD": {"momentum": 0.9, "nesterov": True},
}  # fmt: skip


def _stepped(name: str, device: str, compiled: bool) -> tuple[list[Any], Any]:
    """The parameters after each of some steps with a schedule, and the optimiser."""
    values = np.random.RandomState(0).randn(9, 6, 10).astype(np.float32)
    matrix, row = (pyapp.from_numpy(v.copy()).to(device).requires_grad_() for v in (values[0], values[1, :2]))
    others = {"weight_decay": 0.02} if "weight_decay" in OPTIMIZERS[name] else {}
    groups = [{"params": [matrix, row]}, {"params": [row.detach().clone().requires_grad_()], **others}]
    optimizer = getattr(optim, name)(groups, **OPTIMIZERS[name])
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.7)

    def step(of_matrix: Tensor, of_row: Tensor) -> Tensor:
        matrix.grad, row.grad, groups[1]["params"][0].grad = of_matrix * 2.0, of_row * 1.0, of_row * 3.0
        optimizer.step()
        schedule.step()
        return matrix.detach()

    run: Any = pyapp.compile(step) if compiled else step
    found = []
    for gradient in values[2:]:
        result = run(pyapp.from_numpy(gradient).to(device), pyapp.from_numpy(gradient[:2].copy()).to(device))
        found.append([x.detach().cpu().numpy().copy() for x in (result, row, groups[1]["params"][0])])
    assert not compiled or (run.captured and run.reason is None), run.reason
    return found, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps_there_and_in_a_graph(name: str) -> None:
    """Bit for bit: eager steps on the CPU, eager and replayed ones there, replayed ones on the CPU."""
    expected, eager = _stepped(name, "cpu", False)
    for device, compiled in (("mirror", False), ("mirror", True), ("cpu", True)):
        found, optimizer = _stepped(name, device, compiled)
        for step, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            for x, y in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(x, y, err_msg=f"step {step} on {device}, compiled: {compiled}")
        assert optimizer.param_groups[0]["lr"] == eager.param_groups[0]["lr"]
        for mine, its in zip(optimizer.state.values(), eager.state.values(), strict=True):
            assert [k for k in mine if not isinstance(mine[k], Tensor)] == [
                k for k in its if not isinstance(its[k], Tensor)
            ]
            assert all(mine[k] == its[k] for k in mine if not isinstance(mine[k], Tensor))
    assert all(np.isfinite(x).all() for x in expected[-1]) and (expected[-1][0] != expected[0][0]).any()


@pytest.mark.parametrize("device", ["cpu", "mirror"])
@pytest.mark.parametrize("name", MODELS)
def test_captured_gradients(name: str, device: str) -> None:
    """The loss and all gradients are kernels alone: a Graph computes them again for other tokens."""
    model, eager = _made(name, device), _made(name, "cpu")
    tokens = pyapp.from_numpy(_tokens(0)).to(device)

    def step() -> tuple[Tensor, list[Tensor]]:
        model.zero_grad()
        loss = _loss(model, tokens)
        loss.backward()
        return loss.detach(), [p.grad for p in model.parameters() if p.grad is not None]

    graph = capture(step)
    for seed in (1, 2):
        tokens.copy_(pyapp.from_numpy(_tokens(seed)).to(device))
        loss, gradients = graph.replay()
        eager.zero_grad()
        expected = _loss(eager, pyapp.from_numpy(_tokens(seed)))
        expected.backward()
        assert loss.item() == expected.item()
        wanted = [p.grad for p in eager.parameters() if p.grad is not None]
        assert len(gradients) == len(wanted) == len(list(model.parameters()))
        for ours, theirs in zip(gradients, wanted, strict=True):
            np.testing.assert_array_equal(ours.cpu().numpy(), theirs.numpy())


def _trained_by_replays(device: str | None) -> tuple[list[Any], nn.Module, Any]:
    """Losses and norms of whole training steps with a schedule, and the model: eager on the CPU where device is None,
    else all but the first two by a Graph."""
    model = _made("layers", device or "cpu")
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) == wide] for wide in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=0.02)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    tokens = pyapp.from_numpy(_tokens(0)).to(device or "cpu")

    def step() -> tuple[Tensor, Tensor]:
        optimizer.zero_grad()
        loss = _loss(model, tokens)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.8)
        optimizer.step()
        return loss.detach(), norm

    graph, found = None, []
    for number in range(7):
        tokens.copy_(pyapp.from_numpy(_tokens(number)).to(tokens.device))
        if graph is not None:
            outputs = graph.replay()
        elif device and number == 1:  # the first step has made the optimiser's state
            graph = capture(step)
            outputs = graph.outputs
        else:
            outputs = step()
        found.append([x.item() for x in outputs])
        schedule.step()
    return found, model, optimizer


@pytest.mark.parametrize("device", ["cpu", "mirror"])
def test_a_whole_step_is_replayed(device: str) -> None:
    """Forward, loss, backward, clipping and AdamW with its schedule, bit for bit as eager steps."""
    expected, eager, by_step = _trained_by_replays(None)
    found, model, optimizer = _trained_by_replays(device)
    assert found == expected and min(norm for _, norm in found) < 1.8 < max(norm for _, norm in found)
    _same(model, eager)
    assert [entry["step"] for entry in optimizer.state.values()] == [entry["step"] for entry in by_step.state.values()]


def test_steps_that_a_graph_would_repeat_wrongly_are_refused() -> None:
    class Own(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    for build, match in (
        (lambda p: optim.AdamW(p), "first step"), (lambda p: optim.SGD(p, momentum=0.9), "first step"),
        (lambda p: Own(p), "step of its own"),
    ):  # fmt: skip
        parameter = nn.Parameter(pyapp.ones(3))
        parameter.grad = pyapp.ones(3)
        optimizer = build([parameter])
        with pytest.raises(RuntimeError, match=match):
            capture(optimizer.step)
        assert parameter.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="item"):
        capture(lambda: nn.utils.clip_grad_norm_(parameter, 0.5, error_if_nonfinite=True))


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_weights_are_saved_and_loaded(tmp_path: Path, ending: str) -> None:
    """From the mirror to a file, and from the file to both devices."""
    model, _ = _trained("layers", "mirror")
    path = tmp_path / f"weights.{ending}"
    if ending == "pt":
        pyapp.save(model.state_dict(), path)
        state = pyapp.load(path)
    else:
        write_safetensors(path, model.state_dict())
        with open_checkpoint(path) as file:
            state = {name: file.read(name) for name in file.tensors}
    for device in ("cpu", "mirror"):
        other = MODELS["layers"]().to(device)
        other.load_state_dict(state)
        assert {str(p.device) for p in other.parameters()} == {device}
        _same(other, model)


def test_scaled_steps_leave_out_what_overflows() -> None:
    """Compiled steps of Keras' LossScaleOptimizer decide on the device; the host hears of it before the next step."""

    def trained(device: str, compiled: bool) -> list[Any]:
        pyapp.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        weights = list(model.parameters())
        scaled = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(0.1), initial_scale=2.0**10, dynamic_growth_steps=3
        )

        def step(x: Tensor) -> Tensor:
            for weight in weights:
                weight.grad = None
            loss = model(x).square().mean()
            scaled.scale_loss(loss).backward()
            scaled.apply([weight.grad for weight in weights], weights)
            return loss.detach()

        run = pyapp.compile(step) if compiled else step
        random, found = np.random.RandomState(0), []
        for k in range(9):
            x = random.randn(6, 4).astype("float32")
            x[0, 0] = np.inf if k in (3, 7) else x[0, 0]
            found.append(float(run(pyapp.from_numpy(x).to(device))))
        if compiled:
            assert run.captured
        assert scaled.iterations == 7
        return [found, scaled.dynamic_scale, scaled.step_counter, *(w.detach().cpu().numpy() for w in weights)]

    expected = trained("cpu", False)
    for device, compiled in (("cpu", True), ("mirror", True), ("mirror", False)):
        for a, b in zip(trained(device, compiled), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_saved_tensors_wait_on_the_cpu() -> None:
    pyapp.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    x, labels = pyapp.randn(5, 6), pyapp.tensor([0, 2, 1, 1, 0])

    def gradients(device: str) -> list[Any]:
        model.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), labels.to(device)).backward()
        return [p.grad.cpu().numpy().copy() for p in model.parameters()]

    expected = gradients("cpu")
    model.to("mirror")
    packed: list[Any] = []
    hooks = graph.save_on_cpu()
    pack = hooks.pack_hook
    hooks.pack_hook = lambda t: packed.append((str(t.device), pack(t)[0].device.type)) or pack(t)
    with hooks:
        found = gradients("mirror")
    assert packed and set(packed) == {("mirror", "cpu")}
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_scaler_reads_its_flags_on_the_device() -> None:
    layer = nn.Linear(3, 2).to("mirror")
    optimizer = pyapp.optim.SGD(layer.parameters(), lr=0.5)
    scaler = pyapp.amp.GradScaler("cpu", init_scale=4.0)
    for bad in (False, True):
        optimizer.zero_grad()
        scaler.scale(layer(pyapp.ones(1, 3).to("mirror")).sum()).backward()
        if bad:
            layer.bias.grad.fill_(float("nan"))
        before = layer.bias.cpu().tolist()
        scaler.step(optimizer)
        scaler.update()
        after = layer.bias.cpu().tolist()
        assert after == pytest.approx(before if bad else [b - 0.5 for b in before])
    assert scaler.get_scale() == 2.0


def test_a_profile_of_a_device() -> None:
    x = pyapp.ones(20, 20).to("mirror")
    with profile(record_shapes=True) as prof:
        (x @ x).relu()
    kernels = [e for e in prof.events() if e.kind == "kernel"]
    assert {"matmul", "relu"} <= {e.cpu_parent.key for e in kernels if e.cpu_parent is not None}
