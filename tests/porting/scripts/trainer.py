"""A trainer with callbacks in the manner of Lightning: modules with hooks of a step, metrics, a profiler, files of
the best, compiled and wrapped models, bfloat16, gradients that are gathered, and a restart in the middle."""

import contextlib
import functools
import os
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections import Counter, deque
from enum import Enum, auto

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode


class State(Enum):
    FITTING = auto()
    VALIDATING = auto()


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", torch.zeros(3, 3, dtype=torch.long))

    @torch.no_grad()
    def update(self, logits, target):
        flat = target * 3 + logits.argmax(-1)
        self.matrix += torch.bincount(flat, minlength=9).view(3, 3)

    def compute(self):
        m = self.matrix.double()
        recall = m.diagonal() / m.sum(1).clamp_min(1)
        precision = torch.nan_to_num(m.diagonal() / m.sum(0), nan=0.0)
        f1 = 2 * precision * recall / (precision + recall).clamp_min(1e-12)
        return {"accuracy": (m.trace() / m.sum()).item(), "f1": f1.mean().item()}

    def reset(self):
        self.matrix.zero_()


class Module(nn.Module, ABC):
    def __init__(self):
        super().__init__()
        self._trainer = None
        self.logged = Counter()

    def log(self, name, value):
        self.logged[name] += float(value.detach() if isinstance(value, torch.Tensor) else value)

    @abstractmethod
    def training_step(self, batch, index): ...

    @abstractmethod
    def configure_optimizers(self): ...

    def on_before_optimizer_step(self, optimizer): ...


class Classifier(Module):
    def __init__(self, width=8):
        super().__init__()
        self.save = {"width": width}
        self.net = nn.Sequential(
            nn.Unflatten(1, (1, 12)), nn.Conv1d(1, width, 3, stride=1, padding="valid", bias=True), nn.GELU(),
            nn.AvgPool1d(2), nn.Flatten(), nn.LazyLinear(10), nn.Dropout(0.0), nn.LeakyReLU(0.05), nn.Linear(10, 3),
        )  # fmt: skip
        self.valid = Metric()
        self.norms = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y, weight=torch.tensor([1.0, 0.5, 2.0]), reduction="none").mean()
        self.log("loss", loss)
        return loss + 1e-3 * sum(p.abs().sum() for p in self.net[-1].parameters())

    def validation_step(self, batch, index):
        self.valid.update(self(batch[0]), batch[1])

    def on_before_optimizer_step(self, optimizer):
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        self.norms.append(nn.utils.get_total_norm(grads, norm_type=float("inf")).item())

    def configure_optimizers(self):
        optimizer = torch.optim.RMSprop(self.parameters(), lr=0.01, alpha=0.9, eps=1e-6)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", patience=0, factor=0.3)
        return optimizer, plateau


class Callback:
    def on_epoch_end(self, trainer, module): ...


class Best(Callback):
    def __init__(self, folder, keep=2):
        self.folder, self.kept = folder, deque(maxlen=keep)

    def on_epoch_end(self, trainer, module):
        path = os.path.join(self.folder, f"{trainer.epoch}.ckpt")
        torch.save(trainer.state(module), path)
        if len(self.kept) == self.kept.maxlen:
            os.remove(self.kept[0])
        self.kept.append(path)


class Stop(Callback):
    def __init__(self, patience=2):
        self.best, self.waited, self.patience = float("inf"), 0, patience

    def on_epoch_end(self, trainer, module):
        loss = trainer.losses[-1]
        self.waited = 0 if loss < self.best - 1e-4 else self.waited + 1
        self.best = min(self.best, loss)
        trainer.stopped |= self.waited >= self.patience


def timed(function):
    @functools.wraps(function)
    def wrapped(self, *args, **kwargs):
        start = time.perf_counter()
        try:
            return function(self, *args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start

    return wrapped


class Trainer:
    def __init__(self, epochs, callbacks, accumulate=2, precision="32"):
        self.epochs, self.callbacks, self.accumulate, self.precision = epochs, callbacks, accumulate, precision
        self.epoch, self.step, self.losses, self.stopped, self.seconds = 0, 0, [], False, 0.0
        self.phase = State.FITTING

    def context(self):
        if self.precision == "bf16":
            return torch.autocast(device_type="cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def state(self, module):
        return {
            "epoch": self.epoch, "step": self.step, "state_dict": module.state_dict(), "hyper": module.save,
            "optimizer": self.optimizer.state_dict(), "plateau": self.plateau.state_dict(),
            "rng": torch.get_rng_state(),
        }  # fmt: skip

    @timed
    def fit(self, module, loader, checkpoint=None):
        module._trainer = weakref.proxy(self)
        self.optimizer, self.plateau = module.configure_optimizers()
        assert isinstance(self.optimizer, Optimizer)
        if checkpoint is not None:
            module.load_state_dict(checkpoint["state_dict"])
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            self.plateau.load_state_dict(checkpoint["plateau"])
            self.epoch, self.step = checkpoint["epoch"] + 1, checkpoint["step"]
        while self.epoch < self.epochs and not self.stopped:
            module.train()
            module.logged.clear()
            for index, batch in enumerate(loader):
                last = (index + 1) % self.accumulate == 0 or index + 1 == len(loader)
                with self.context(), record_function("step"):
                    loss = module.training_step(batch, index) / self.accumulate
                loss.backward()
                if last:
                    module.on_before_optimizer_step(self.optimizer)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.step += 1
            self.losses.append(module.logged["loss"] / len(loader))
            self.plateau.step(self.losses[-1])
            self.validate(module, loader)
            for callback in self.callbacks:
                callback.on_epoch_end(self, module)
            self.epoch += 1

    @torch.no_grad()
    def validate(self, module, loader):
        self.phase = State.VALIDATING
        was = module.training
        module.eval()
        module.valid.reset()
        for index, batch in enumerate(loader):
            module.validation_step(batch, index)
        module.train(was)
        self.phase = State.FITTING


def main(fill):
    x = torch.sin(torch.arange(26 * 12.0) * 0.37).view(26, 12)
    y = (x[:, :3].argmax(1) + (x[:, 5] > 0).long()) % 3
    loader = DataLoader(TensorDataset(x, y), batch_size=6, drop_last=False)

    def fresh():
        module = Classifier()
        with torch.no_grad():
            module(x[:1])
        fill(module.net)
        return module

    with tempfile.TemporaryDirectory() as folder:
        best = Best(folder)
        module, trainer = fresh(), Trainer(4, [best, Stop()])
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
            trainer.fit(module, loader)
        assert sum(e.count for e in prof.key_averages() if e.key == "step") == 4 * len(loader)
        assert len(os.listdir(folder)) == 2 and trainer.seconds > 0
        checkpoint = torch.load(best.kept[0], weights_only=True)
        again, second = Classifier(**checkpoint["hyper"]), Trainer(4, [])
        second.fit(again, loader, checkpoint)
    difference = max((a - b).abs().max().item() for a, b in zip(module.parameters(), again.parameters(), strict=False))
    found = [*trainer.losses, *module.norms, *module.valid.compute().values(), trainer.step, second.losses[-1]]
    short, mixed = fresh(), Trainer(1, [], precision="bf16")
    mixed.fit(short, loader)
    with FlopCounterMode(display=False) as counter:
        module(x[:4])
    compiled = torch.compile(module.net, dynamic=False)
    scripted = torch.jit.trace(module.net.eval(), x[:2])
    close = torch.testing.assert_close(compiled(x), module.net(x)) is None and torch.equal(scripted(x), module.net(x))
    bits = torch.nn.utils.parameters_to_vector(module.parameters()).view(torch.int32).ne(0).sum().item()
    return [
        *found,
        round(difference, 5),
        abs(mixed.losses[0] - trainer.losses[0]) < 0.03,
        counter.get_total_flops(),
        close,
        bits,
    ]
