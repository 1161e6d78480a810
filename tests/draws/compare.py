"""Runs a drawn call in its layouts and on dense copies in float64, and compares."""

from __future__ import annotations

import os
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor
from pyapp.engine import capture
from tests.engine.test_fused import definitions_only

from . import families as _families  # noqa: F401 (adds its files' families)
from .call import FAMILIES, Call, computing_reference
from .operands import FLOATS, Draw, Operand, Source, view_of

TOLERANCE = {"float64": 1e-7, "float32": 5e-4, "float16": 1.5e-2, "bfloat16": 8e-2}
REFUSED = "has no kernel", "cannot be replayed", "runs on the host", "while capturing", "in a Graph"


class Difference(AssertionError):
    pass


def _several(y: Any) -> list[Tensor]:
    return [y] if isinstance(y, Tensor) else [x for x in y if isinstance(x, Tensor)]


def _array(x: Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return (x.double() if x.is_floating_point() else x).numpy()


def _close(what: str, found: np.ndarray, expected: np.ndarray, tolerance: float, absolute: Any = 0.0) -> None:
    if found.shape != expected.shape:
        raise Difference(f"{what}: shape {found.shape}, not {expected.shape}")
    if found.dtype == bool or expected.dtype == bool:
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    if expected.dtype.kind != "f" and found.dtype.kind != "f":
        wrong = found != expected
    else:
        with np.errstate(all="ignore"):
            same = (found == expected) | (np.isnan(found) & np.isnan(expected))
            wrong = ~(same | (np.abs(found - expected) <= tolerance * scale + absolute))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Difference(
            f"{what}: {int(wrong.sum())} of {wrong.size} differ, first at {at}: {found[at]} not {expected[at]}"
        )


class Runner:
    """Runs draws on a device."""

    def __init__(
        self, device: str = "cpu", floats: tuple[str, ...] | None = None, families: list[str] | None = None
    ) -> None:
        self.device, self.floats = device, floats or FLOATS
        self.adopts = "PYAPP_LIBRARY" in os.environ  # scripts/sanitize.py
        self.families = families or list(FAMILIES)
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def prepare(self, seed: int) -> tuple[Draw, Call]:
        d = Draw(seed, self.floats)
        return d, FAMILIES[d.pick(self.families)](d)

    def describe(self, seed: int) -> str:
        _, call = self.prepare(seed)
        return "\n    ".join([f"{call.name} {call.details}", *map(repr, call.operands)])

    def check(self, seed: int) -> None:
        """Difference where the results differ, or only one of the two is an error."""
        d, call = self.prepare(seed)
        learns = call.learns and d.chance(0.6)
        captured = not learns and call.changed is None and d.chance(0.25)
        exact = call.exact_reference
        state = d.random.get_state()
        try:
            with definitions_only() if seed % 7 == 0 else nullcontext():
                expected = self._reference(call, learns, d, exact)
        except Exception as error:
            expected = error
        sources = {id(x.source): x.source for x in call.operands}
        try:
            found = self._run(call, learns, d, expected, sources)
        except Exception as error:
            if isinstance(expected, Exception) or any(text in str(error) for text in REFUSED):
                self.counts["refused"] += 1
                if isinstance(expected, Exception):
                    self.counts["errors of both"] += 1
                    self.errors[f"{call.name}: {str(expected)[:90]}"] += 1
                return
            raise
        if isinstance(expected, Exception):
            raise Difference(f"the reference is an error: {type(expected).__name__}: {expected}") from expected
        kinds = [x.source.dtype for x in call.operands if x.source.floats] or ["float64"]
        tolerance = max([TOLERANCE[k] for k in kinds] + [call.tolerance])
        try:
            self._compare(call, found, expected, tolerance)
        except Difference:
            if call.changed is not None or not {"float16", "bfloat16"}.intersection(kinds):
                raise
            d.random.set_state(state)  # may round to the other side of an edge, as dense ones do
            self._compare(call, found, self._reference(call, learns, d, True), tolerance)
            self.counts["as dense ones of 16 bits"] += 1
        self.counts["compared"] += 1
        self.counts["with gradients"] += learns
        if captured:
            self._replayed(call, d, sources, tolerance)

    def _compare(self, call: Call, found: Any, expected: Any, tolerance: float) -> None:
        for (_, ours), (what, theirs, sizes) in zip(found, expected, strict=True):
            _close(what, ours, theirs, tolerance, call.absolute + sizes * tolerance)

    def _cotangents(self, d: Draw, shapes: list[tuple[int, ...]], kinds: list[str]) -> list[Operand]:
        state = d.operands
        d.operands = []
        found = [d.operand(shape, kind, joins=False) for shape, kind in zip(shapes, kinds, strict=True)]
        d.operands = state
        return found

    def _reference(self, call: Call, learns: bool, d: Draw, exact: bool) -> list[tuple[str, np.ndarray, Any]]:
        """(what it is, the array, the sizes of what was added up)."""
        tensors = []
        for x in call.operands:
            t = pyapp.from_numpy(np.array(x.values, order="C"))
            if exact and x.source.floats:
                t = t.to(x.source.dtype)
            tensors.append(t.requires_grad_() if learns and x.source.floats else t)
        with computing_reference(), nullcontext() if learns else pyapp.no_grad():
            y = _several(call.function(*tensors))
        result: list[tuple[str, np.ndarray, Any]] = [(f"result {i}", _array(x), 0.0) for i, x in enumerate(y)]
        if call.changed is not None:
            x = call.operands[call.changed]
            memory = x.source.host_tensor()
            memory = _array(memory).copy()
            memory[x.index.reshape(-1)] = _array(tensors[call.changed]).reshape(-1)
            return [("memory", memory, 0.0)]
        self.learnt: list[int] = []
        if learns:
            self.learnt = [i for i, x in enumerate(y) if x.is_floating_point() and x.requires_grad]
            self.kinds: list[str] = []
            shapes = [tuple(y[i].shape) for i in self.learnt]
            self.cotangents = self._cotangents(d, shapes, [d.kind] * len(shapes))
            roots = [y[i] for i in self.learnt]
            if roots:
                weights = [pyapp.from_numpy(np.array(c.values, order="C")) for c in self.cotangents]
                pyapp.autograd.backward(roots, [w.to(r.dtype) for w, r in zip(weights, roots, strict=True)])
            sources = {id(x.source): x.source for x in call.operands if x.source.floats}
            for number, source in enumerate(sources.values()):
                total, sizes = np.zeros((2, source.values.size))
                for x, t in zip(call.operands, tensors, strict=True):
                    if x.source is source and t.grad is not None:
                        np.add.at(total, x.index.reshape(-1), _array(t.grad).reshape(-1))
                        np.add.at(sizes, x.index.reshape(-1), np.abs(_array(t.grad)).reshape(-1))
                result.append((f"gradient of memory {number}", total, sizes))
        return result

    def _tensors(self, call: Call, learns: bool, sources: dict[int, Source]) -> tuple[list[Tensor], dict[int, Tensor]]:
        memory = {}
        for key, source in sources.items():
            t = source.host_tensor(call.operands[0].index.size % 2 == 1 or self.adopts).to(self.device)
            memory[key] = t.requires_grad_() if learns and source.floats else t
        with nullcontext() if learns else pyapp.no_grad():
            return [view_of(memory[id(x.source)], x.steps) for x in call.operands], memory

    def _run(
        self, call: Call, learns: bool, d: Draw, expected: Any, sources: dict[int, Source]
    ) -> list[tuple[str, np.ndarray]]:
        tensors, memory = self._tensors(call, learns, sources)
        with nullcontext() if learns else pyapp.no_grad():
            y = _several(call.function(*tensors))
        if call.changed is not None:
            return [("memory", _array(memory[id(call.operands[call.changed].source)]))]
        result = [(f"result {i}", _array(x)) for i, x in enumerate(y)]
        if learns and not isinstance(expected, Exception):
            roots = [y[i] for i in self.learnt]
            if roots:
                weights = []
                for c, r in zip(self.cotangents, roots, strict=True):
                    flat = c.source.host_tensor().to(self.device).to(r.dtype)
                    weights.append(view_of(flat, c.steps))
                pyapp.autograd.backward(roots, weights)
            for number, (key, source) in enumerate((k, s) for k, s in sources.items() if s.floats):
                grad = memory[key].grad
                result.append(
                    (f"gradient of memory {number}", np.zeros(source.values.size) if grad is None else _array(grad))
                )
        return result

    def _replayed(self, call: Call, d: Draw, sources: dict[int, Source], tolerance: float) -> None:
        """A Graph of the call, replayed with other numbers."""
        tensors, memory = self._tensors(call, False, sources)
        try:
            with pyapp.no_grad():
                graph = capture(lambda: call.function(*tensors))
        except Exception as error:
            if any(text in str(error) for text in REFUSED) or "captur" in str(error) or "replay" in str(error):
                self.counts["not captured"] += 1
                return
            raise
        for key, source in sources.items():
            if source.floats:
                source.fill(source.values * 0.8)
                memory[key].copy_(source.host_tensor().to(self.device))
        expected = self._reference(call, False, d, call.exact_reference)
        found = [(f"replayed {i}", _array(x)) for i, x in enumerate(_several(graph.replay()))]
        self._compare(call, found, expected, tolerance)
        self.counts["replayed"] += 1

    def run(self, first: int, count: int, limit: int = 25, show: Any = print) -> int:
        """Checks seeds first … first + count - 1; the number of those that differ."""
        failures: Counter[str] = Counter()
        for seed in range(first, first + count):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.check(seed)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                name = self.prepare(seed)[1].name
                failures[name] += 1
                if failures[name] <= 2 and sum(failures.values()) <= limit:
                    where = "" if isinstance(error, Difference) else traceback.format_exc(limit=-3)
                    show(f"seed {seed}: {text[:600]}\n    {self.describe(seed)[:1800]}\n{where[-1200:]}")
        show(f"{count} draws on {self.device}: {dict(self.counts)}; failed: {dict(failures)}")
        return sum(failures.values())
