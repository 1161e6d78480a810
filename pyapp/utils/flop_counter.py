"""Counts floating-point operations, by torch.utils.flop_counter's name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from ..engine.device import Device
from ..engine.profiling import listen
from ..engine.tensor import Tensor
from ..nn.hooks import register_everywhere
from ..nn.module import Module

Formula = Callable[..., int]


def _matmul(a: Tensor, b: Tensor, *_: Any) -> int:
    """(..., M, K) by (..., K, N); of a vector nothing, as in torch."""
    if min(a.ndim, b.ndim) < 2:
        return 0
    lead = max(prod(a.shape[:-2]), prod(b.shape[:-2]))
    return 2 * lead * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _linear(x: Tensor, weight: Tensor, *_: Any) -> int:
    return 2 * x.numel() * weight.shape[0]


def _convolution(x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, *_: Any) -> int:
    """Each element of the result is a sum over a kernel of all channels of its group."""
    places = 1
    for size, kernel, step, sides, apart in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True):
        places *= (size + sum(sides) - apart * (kernel - 1) - 1) // step + 1
    return 2 * x.shape[0] * places * weight.numel()


def _convolution_backward(g: Tensor, x: Tensor, weight: Tensor, *_: Any) -> int:
    wanted = x.requires_grad + weight.requires_grad
    return wanted * 2 * x.shape[0] * prod(g.shape[2:]) * weight.numel()


def _convolution_transpose(x: Tensor, weight: Tensor, *_: Any) -> int:
    """Each element of the input is multiplied by a kernel."""
    return 2 * x.shape[0] * prod(x.shape[2:]) * weight.numel()


def _convolution_transpose_backward(g: Tensor, x: Tensor, weight: Tensor, *_: Any) -> int:
    return (x.requires_grad + weight.requires_grad) * _convolution_transpose(x, weight)


def _pairs(q: Tensor, k: Tensor) -> int:
    """The pairs of queries (B, T, H, D) and keys (B, S, KV, D) in all heads; a causal mask leaves none out, as in
    torch.
    """
    return prod(q.shape[:-1]) * k.shape[-3]


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> int:
    return 2 * _pairs(q, k) * (q.shape[-1] + v.shape[-1])


def _attention_backward(g: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Any) -> int:
    """The scores anew, and the gradients of scores, queries, keys and values."""
    return 2 * _pairs(q, k) * (3 * q.shape[-1] + 2 * v.shape[-1])


_FORMULAS: dict[str, Formula] = {
    "matmul": _matmul,
    "linear": _linear,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "convolution_transpose": _convolution_transpose,
    "convolution_transpose_backward": _convolution_transpose_backward,
    "attention": _attention,
    "attention_backward": _attention_backward,
}


class FlopCounterMode:
    """`with FlopCounterMode() as counter:` counts the operations of matrix products, convolutions and attention, a
    multiplication and an addition as two, and prints a table at the end if `display`. Other ops count nothing, as in
    torch. (torch counts no attention on the CPU, and the gradients of convolutions in groups twice.)

    The counts are also kept by the modules that were running, `depth` levels of which the table shows; those of
    backward passes belong to all of it, "Global", alone. `custom_mapping`: for names of ops (docs/ops.md) functions of
    their arguments that give their operations. Tensors of the meta device are counted without computing.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[str, Formula] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self.flop_registry = {**_FORMULAS, **(custom_mapping or {})}
        self.flop_counts: dict[str, dict[str, int]] = {"Global": {}}
        self._modules: list[tuple[Module, str]] = []  # that are running, the outermost first
        self._thread = 0
        self._within: list[bool] = []  # of each event around: whether it is counted, or within such a one
        self._stop: list[Callable[[], None]] = []

    # -- what a listener hears

    def enter(self, name: str, kind: str, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread:
            return
        inside = bool(self._within) and self._within[-1]
        formula = None if inside or kind != "op" else self.flop_registry.get(name)
        if formula is not None:
            self._count(name, formula(*args))
        self._within.append(inside or formula is not None)

    def leave(self) -> None:
        if threading.get_ident() == self._thread:
            self._within.pop()

    cancel = leave

    def memory(self, device: Device, nbytes: int) -> None:
        """Memory is not counted."""

    def _count(self, name: str, flops: int) -> None:
        for path in dict.fromkeys(["Global", *(path for _, path in self._modules)]):
            counts = self.flop_counts.setdefault(path, {})
            counts[name] = counts.get(name, 0) + flops

    # -- the modules around it

    def _begin(self, module: Module, args: Any) -> None:
        path = type(module).__name__
        if self._modules:
            parent, outer = self._modules[-1]
            own = [name for name, child in parent.named_modules() if child is module]
            path = f"{outer}.{own[0] if own else path}"
        self._modules.append((module, path))

    def _end(self, module: Module, args: Any, result: Any) -> None:
        self._modules.pop()

    def __enter__(self) -> FlopCounterMode:
        """Begins, from 0. RuntimeError while a profile or another counter runs."""
        self.flop_counts = {"Global": {}}
        self._thread = threading.get_ident()
        self._stop = [listen(self, False)]
        self._stop.append(register_everywhere(Module, "before", (self._begin, False)).remove)
        self._stop.append(register_everywhere(Module, "after", (self._end, False, True)).remove)
        return self

    def __exit__(self, *_: Any) -> None:
        while self._stop:
            self._stop.pop()()
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """The operations of each op, by the path of the module ("Net.0"); "Global" has all."""
        return {path: dict(counts) for path, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a text, of modules up to `depth` levels."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for path, counts in self.flop_counts.items():
            level = 0 if path == "Global" else path.count(".") + 1
            if level > depth:
                continue
            for indent, name, flops in (
                (level, path, sum(counts.values())),
                *((level, f" - {name}", flops) for name, flops in counts.items()),
            ):
                rows.append((" " * indent + name, f"{flops:,}", f"{100 * flops / total if total else 0:.2f}%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join((row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]))) for row in rows]
        return "\n".join([lines[0], "  ".join("-" * n for n in widths), *lines[1:]])
