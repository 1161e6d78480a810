"""Random programs of views, indices, writes in place, reductions and their gradients, made beside torch.

python -m tests.engine.random_programs golden           writes golden_programs.json (test_random_programs.py)
python -m tests.engine.random_programs compare 0 5000   runs the programs of these seeds in torch and in pyapp

A line of a program is Python text; `m` is the library. Lines that torch refuses are left out. Needs torch.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("golden_programs.json")
PROGRAMS = 160  # in the golden file
MOST = 60  # elements of a result there
LIMIT = 4000  # elements of a tensor
TOLERANCE = {"float64": 1e-7, "float16": 4e-3, "bfloat16": 3e-2}  # relative to a result's largest number; else:
USUAL = 3e-4
DTYPES = ("float32", "float64", "int64", "int32", "bool", "uint8", "complex64", "float16", "bfloat16", "int8", "int16")
SHARES = (12, 6, 4, 2, 2, 1, 1, 1, 1, 1, 1)
UNARY = (
    "abs neg exp sin cos tanh sigmoid relu sqrt square floor ceil trunc frac sign reciprocal log1p expm1 erf isfinite "
    "logical_not conj positive atan sinh cosh exp2 deg2rad"
).split()
ACTIVATIONS = (
    "gelu silu elu selu celu mish softplus hardtanh relu6 leaky_relu logsigmoid hardswish hardsigmoid softsign "
    "tanhshrink softshrink hardshrink"
).split()
BINARY = "add sub mul div eq ne lt le gt ge remainder fmod float_power copysign".split()
OF_TENSORS = "maximum minimum atan2 hypot logical_and logical_or logical_xor fmax fmin bitwise_and bitwise_or".split()
WRITTEN = "add_ sub_ mul_ div_ remainder_ fmod_".split()
WRITTEN_ALONE = "abs_ neg_ sin_ tanh_ sigmoid_ relu_ square_ floor_ zero_ t_ squeeze_".split()
NUMBERS = ("2", "0.5", "-1", "3", "1.5", "True", "-2.5")
OVER_A_DIM = (
    "sum mean prod amax amin any all nansum logsumexp cumsum cumprod softmax log_softmax logcumsumexp argmax argmin "
    "count_nonzero"
).split()


class Program:
    """Lines that torch has run, the inputs, and the names of the tensors that they make."""

    def __init__(self, seed: int, library: Any) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.lines: list[str] = []
        self.inputs: dict[str, tuple[str, Any, bool]] = {}  # (dtype, values, requires_grad)
        self.names: list[str] = []
        self.values = environment(library, self.inputs)
        for _ in range(self.random.randint(1, 3)):
            self._add_input()
        for _ in range(self.random.randint(3, 12)):
            self._add_input() if self.random.random() < 0.08 else self._add_line()

    def _add_input(self) -> None:
        r, name = self.random, f"x{len(self.inputs)}"
        dtype = r.choices(DTYPES, SHARES)[0] if r.random() < 0.5 else r.choice(("float32", "float64"))
        shape = tuple(r.choice((1, 2, 2, 3, 3, 4, 5)) for _ in range(r.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
        if dtype == "bool":
            values = self.numbers.random(shape) < 0.5
        elif "int" in dtype:
            values = self.numbers.integers(0 if dtype == "uint8" else -5, 9, shape)
        else:
            values = self.numbers.standard_normal(shape).round(2)
            if dtype == "complex64":
                values = np.stack([values, self.numbers.standard_normal(shape).round(2)], -1)
        learns = dtype in ("float32", "float64", "complex64") and r.random() < 0.6
        self.inputs[name] = dtype, np.asarray(values).tolist(), learns
        self._run(f"{name} = given({name!r})", name)

    def _add_line(self) -> None:
        r = self.random
        x = r.choice(self.names[-4:] if r.random() < 0.7 else self.names)
        y = r.choice(self.names)
        kind = r.choices((pointwise, written, reduced, viewed, indexed, other), (25, 18, 15, 22, 10, 10))[0]
        text = kind(r, x, self.values[x], y, self.values[y])
        if text is None:
            return
        name = ""
        if not text.startswith("!"):
            name = f"y{len(self.lines)}"
            text = f"{name} = {text}"
        self._run(text.removeprefix("!"), name)

    def _run(self, line: str, name: str) -> None:
        try:
            exec(line, self.values)
        except Exception:  # torch refuses it
            return
        self.lines.append(line)
        if name:
            self.names.append(name)

    def fits(self) -> bool:
        return all(self.values[name].numel() <= LIMIT for name in self.names)


def environment(library: Any, inputs: dict[str, tuple[str, Any, bool]]) -> dict[str, Any]:
    """The names of a program."""

    def given(name: str) -> Any:
        dtype, values, learns = inputs[name]
        if dtype == "complex64":
            x = library.view_as_complex(library.tensor(values, dtype=library.float32)).clone()
        else:
            x = library.tensor(values, dtype=getattr(library, dtype))
        return x.requires_grad_(learns)

    return {"m": library, "given": given}


def dim_of(r: random.Random, x: Any, more: int = 0) -> int:
    rank = x.dim() + more
    return r.randint(-rank, rank - 1) if rank else r.choice((0, -1))


def size_of(x: Any, dim: int) -> int:
    return int(x.shape[dim]) if x.dim() else 1


def pointwise(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str:
    share = r.random()
    if share < 0.4:
        return f"{x}.{r.choice(UNARY)}()"
    if share < 0.5:
        return f"m.nn.functional.{r.choice(ACTIVATIONS)}({x})"
    if share < 0.7:
        return f"m.{r.choice(OF_TENSORS)}({x}, {y})"
    operand = y if r.random() < 0.6 else r.choice(NUMBERS)
    if share < 0.8:
        return f"{x} {r.choice(('+', '-', '*', '/'))} {operand}"
    if share < 0.85:
        return f"{r.choice(NUMBERS)} {r.choice(('+', '-', '*', '/'))} {x}"
    if share < 0.9:
        return f"m.where({x} > 0, {r.choice((x, y))}, {r.choice((y, r.choice(NUMBERS)))})"
    return f"m.{r.choice(BINARY)}({x}, {operand})"


def written(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str:
    operand, share = (y if r.random() < 0.5 else r.choice(NUMBERS)), r.random()
    if share < 0.3:
        return f"!{x}[{sliced(r, vx)}] {r.choice(('+=', '*=', '-=', '='))} {operand}"
    if share < 0.5:
        return f"!{x}[{chosen(r, vx)}] {r.choice(('+=', '*=', '='))} {operand}"
    if share < 0.6:
        return f"!{x}.masked_fill_({x} {r.choice(('>', '<'))} {r.choice(NUMBERS)}, {r.choice(NUMBERS)})"
    if share < 0.7:
        return f"!{x}.copy_({y})"
    if share < 0.75:
        return f"!{x}.clamp_({r.choice(('-1, 1', 'min=0', 'max=0.5'))})"
    return f"!{x}.{r.choice(WRITTEN)}({operand})" if share < 0.9 else f"!{x}.{r.choice(WRITTEN_ALONE)}()"


def reduced(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str:
    dim, keep, share = dim_of(r, vx), r.random() < 0.4, r.random()
    if share < 0.15:
        return f"{x}.{r.choice(('sum', 'mean', 'prod', 'any', 'all', 'max', 'min', 'std'))}()"
    if share < 0.25:
        dims = tuple(sorted(r.sample(range(vx.dim()), min(vx.dim(), 2))))
        return f"{x}.{r.choice(('sum', 'mean', 'amax', 'amin', 'logsumexp'))}({dims}, keepdim={keep})"
    if share < 0.6:
        return f"{x}.{r.choice(OVER_A_DIM)}({dim})"
    return r.choice(
        (
            f"{x}.{r.choice(('sum', 'mean', 'amax', 'any', 'argmax'))}({dim}, keepdim={keep})",
            f"{x}.{r.choice(('var', 'std'))}({dim}, correction={r.choice((0, 1))}, keepdim={keep})",
            f"{x}.{r.choice(('max', 'min'))}({dim})[{r.choice((0, 1))}]",
            f"{x}.norm({r.choice((1, 2, 3))}, {dim})",
            f"m.sort({x}, dim={dim}, descending={keep}, stable=True)[{r.choice((0, 1))}]",
            f"m.topk({x}, 1, {dim})[0]",
            f"m.diff({x}, n={r.choice((1, 2))}, dim={dim})",
            f"m.quantile({x}, 0.3, dim={dim}, keepdim={keep})",
            f"m.kthvalue({x}, 1, {dim})[0]",
        )
    )


def viewed(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str:
    dim, second = dim_of(r, vx), dim_of(r, vx)
    size = size_of(vx, dim)
    start = r.randint(0, size)
    order = r.sample(range(vx.dim()), vx.dim())
    wide = [r.randint(1, 3) if n == 1 else r.choice((-1, int(n))) for n in vx.shape]
    sizes: list[int] = []
    left = vx.numel()
    for _ in range(r.randint(0, 2)):
        sizes.append(r.choice([n for n in range(1, left + 1) if left % n == 0] or [1]))
        left //= sizes[-1]
    shape = (*sizes, left)
    return r.choice(
        (
            f"{x}.transpose({dim}, {second})",
            f"{x}.permute({order})",
            f"{x}.unsqueeze({dim_of(r, vx, 1)})",
            f"{x}.squeeze({r.choice(('', dim))})",
            f"{x}[{sliced(r, vx)}]",
            f"{x}.expand({(*([2] if r.random() < 0.3 else []), *wide)})",
            f"{x}.view({shape})",
            f"{x}.reshape({shape})",
            f"{x}.narrow({dim}, {start}, {r.randint(0, size - start)})",
            f"{x}.select({dim}, {r.randint(-size, max(size - 1, 0))})",
            f"{x}.diagonal({r.randint(-1, 1)}, {dim}, {second})",
            f"{x}.unfold({dim}, {r.randint(1, 3)}, {r.randint(1, 2)})",
            f"{x}.flatten({r.choice(('', dim))})",
            f"{x}.{r.choice(('split', 'chunk'))}({r.randint(1, 3)}, {dim})[{r.choice((0, -1))}]",
            f"{x}.unbind({dim})[{r.choice((0, -1))}]",
            f"{x}.movedim({dim}, {second})",
            f"{x}.mT",
            f"m.view_as_real({x})",
            f"{x}.detach()",
            f"{x}.repeat({tuple(r.randint(1, 2) for _ in vx.shape)})",
            f"{x}.roll({r.randint(-2, 2)}, {dim})",
            f"m.rot90({x}, {r.randint(-1, 3)}, ({dim}, {second}))",
            f"{x}.{r.choice(('tril', 'triu', 'diag'))}({r.randint(-1, 1)})",
            f"{x}.flip({dim})",
            f"m.cat([{x}, {r.choice((x, y))}], {dim})",
            f"m.stack([{x}, {r.choice((x, y))}], {dim_of(r, vx, 1)})",
            f"{x}.contiguous()",
            f"{x}.clone()",
            f"{x}.to(m.{r.choices(DTYPES, SHARES)[0]})",
        )
    )


def indexed(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str:
    dim = dim_of(r, vx)
    ones = tuple(1 for _ in vx.shape)
    one = f"m.ones({ones}, dtype={x}.dtype)"
    return r.choice(
        (
            f"{x}[{chosen(r, vx)}]",
            f"{x}[{chosen(r, vx)}]",
            f"{x}[{x} > {r.choice(NUMBERS)}]",
            f"m.take({x}, m.tensor([0, 0, -1]))",
            f"m.gather({x}, {dim}, m.zeros({ones}, dtype=m.int64))",
            f"{x}.index_select({dim}, m.tensor([0, 0]))",
            f"{x}.index_add({dim}, m.tensor([0, 0]), {x}.index_select({dim}, m.tensor([0, 0])), alpha=2)",
            f"{x}.index_copy({dim}, m.tensor([0]), {x}.narrow({dim}, -1, 1))",
            f"{x}.masked_select({x} > {r.choice(NUMBERS)})",
            f"!{x}.index_fill_({dim}, m.tensor([0]), {r.choice(NUMBERS)})",
            f"!{x}.{r.choice(('scatter_', 'scatter_add_'))}({dim}, m.zeros({ones}, dtype=m.int64), {one})",
            f"!{x}.index_put_((m.tensor([0, 0]),), {x}[0] * 1, accumulate=True)",
        )
    )


def other(r: random.Random, x: str, vx: Any, y: str, vy: Any) -> str | None:
    last = size_of(vx, -1)
    ends = tuple(r.randint(-1, 2) for _ in range(2 * min(max(vx.dim(), 1), r.randint(1, 2))))
    if vx.numel() * vy.numel() > LIMIT:
        return None
    return r.choice(
        (
            f"{x} @ {x}.mT",
            f"m.matmul({x}, {y})",
            f"m.nn.functional.linear({x}, m.ones(2, {last}, dtype={x}.dtype))",
            f"m.nn.functional.layer_norm({x}, {tuple(vx.shape[-1:])})",
            f"m.outer({x}.flatten(), {y}.flatten()[:3])",
            f"m.kron({x}, {y})",
            f"m.lerp({x}, {y}, 0.3)",
            f"m.addcmul({x}, {x}, {y}, value=2)",
            f"m.nn.functional.mse_loss({x}, {y}, reduction={r.choice(('mean', 'sum', 'none'))!r})",
            f"m.nn.functional.smooth_l1_loss({x}, {y})",
            f"m.nn.functional.pad({x}, {ends})",
            f"m.nn.functional.one_hot({x}.abs().long() % 3, 4)",
            f"m.bmm({x}, {x}.transpose(1, 2))",
            f"m.bucketize({x}, m.tensor([-1.0, 0.0, 1.0]))",
            f"m.cov({x})",
            f"m.nn.functional.conv1d({x}, m.ones(2, {size_of(vx, -2) if vx.dim() > 1 else 1}, 2, dtype={x}.dtype))",
            f"m.nn.functional.{r.choice(('max_pool1d', 'avg_pool1d', 'adaptive_avg_pool2d'))}({x}, 2)",
            f"m.func.vmap(lambda row: (row * 2).sum())({x})",
        )
    )


def sliced(r: random.Random, x: Any) -> str:
    parts: list[str] = []
    for size in x.shape:
        start, stop, step = r.randint(-size - 1, size + 1), r.randint(-size, size + 2), r.choice((1, 2, 3))
        one = str(r.randint(-size, size - 1)) if size else "0:"
        parts.append(r.choice((":", f"{start}:{stop}", f"::{step}", one, "None, :")))
    return ", ".join(parts) or "..."


def chosen(r: random.Random, x: Any) -> str:
    """An index with tensors, lists and masks."""
    parts: list[str] = []
    count = r.choice((1, 2, 3))
    for size in x.shape:
        places = [r.randint(-size, size - 1) if size else 0 for _ in range(count)]
        mask = [bool(r.getrandbits(1)) for _ in range(size)]
        parts.append(
            r.choice(
                (
                    ":", ":", f"m.tensor({places})", f"m.tensor({[[place] for place in places]})", str(places),
                    str(places[0]), f"{r.randint(0, size)}:", str(mask), f"m.tensor({mask})", "None, :",
                )
            )
        )  # fmt: skip
    return ", ".join(parts) or "..."


def array_of(x: Any) -> Any:
    """The numbers of a tensor; infinite ones are NaN: which of them they are, rounding decides."""
    x = x.detach()
    if x.is_complex():
        return np.stack([array_of(x.real), array_of(x.imag)], -1)
    if str(x.dtype).split(".")[-1] in ("float16", "bfloat16"):
        x = x.float()
    values = x.contiguous().cpu().numpy()
    return np.where(np.isfinite(values), values, np.nan) if values.dtype.kind == "f" else values


def results(library: Any, lines: list[str], inputs: Any, names: list[str]) -> dict[str, tuple[str, list[int], Any]]:
    """(dtype, shape, numbers) of each tensor of a program, and of the gradients of a sum of all, as "grad x0"; where
    the backward pass is refused, "refused".
    """
    values = environment(library, inputs)
    for line in lines:
        exec(line, values)
    found = {name: described(values[name]) for name in names}
    total = None
    for name in names:
        x = values[name]
        if x.requires_grad and x.numel() and str(x.dtype).split(".")[-1] in ("float32", "float64", "complex64"):
            part = ((x.real if x.is_complex() else x).double() * 0.5).sum()
            total = part if total is None else total + part
    if total is None:
        return found
    try:
        total.backward()
    except RuntimeError:
        return found | {"refused": ("", [], np.zeros(0))}
    leaves = {name: values[name] for name in inputs}
    return found | {f"grad {name}": described(x.grad) for name, x in leaves.items() if x.grad is not None}


def described(x: Any) -> tuple[str, list[int], Any]:
    return str(x.dtype).split(".")[-1], list(x.shape), array_of(x)


def difference(expected: tuple[str, list[int], Any], found: tuple[str, list[int], Any], least: float = 0) -> str:
    """What differs; "" for nothing. `least`: how far numbers may be off at least."""
    for what, one, two in zip(("dtype", "shape"), expected, found, strict=False):
        if one != two:
            return f"{what}: {one} in torch, {two} here"
    one, two = np.asarray(expected[2]), np.asarray(found[2])
    if one.dtype.kind in "biu":
        same = bool((one == two).all())
    else:
        finite = np.abs(one[np.isfinite(one)])
        near = max(TOLERANCE.get(expected[0], USUAL), least)
        same = np.allclose(two, one, rtol=near, atol=near * max(1.0, float(finite.max(initial=0))), equal_nan=True)
    return "" if same else f"numbers: {one.tolist()} in torch, {two.tolist()} here"


def compare(seed: int, torch: Any, own: Any) -> str:
    """What a program of this seed shows; "" where both libraries agree, or torch refuses the gradient."""
    program = Program(seed, torch)
    if not program.fits():
        return ""
    lines, inputs, names = program.lines, program.inputs, program.names
    try:
        expected = results(torch, lines, inputs, names)
    except RuntimeError:  # a tensor that torch does not let be read any more
        return ""
    try:
        found = results(own, lines, inputs, names)
    except Exception:
        return traceback.format_exc(limit=-1)
    if "refused" in expected:
        return ""
    if expected.keys() != found.keys():
        return f"results: {sorted(expected.keys() ^ found.keys())}"
    told = {name: difference(expected[name], found[name]) for name in expected}
    return next((f"{name}: {text}" for name, text in told.items() if text), "")


def golden(torch: Any) -> list[dict[str, Any]]:
    """Programs with what torch computes: those with few elements, whose numbers are all finite."""
    kept: list[dict[str, Any]] = []
    seed = 0
    while len(kept) < PROGRAMS:
        seed += 1
        program = Program(seed, torch)
        if not program.fits() or len(program.lines) < 6:
            continue
        try:
            expected = results(torch, program.lines, program.inputs, program.names)
        except RuntimeError:
            continue
        if "refused" in expected or any(
            values.size > MOST or (values.dtype.kind == "f" and not np.isfinite(values).all())
            for _, _, values in expected.values()
        ):
            continue
        rounded = {name: (dtype, shape, short(values, dtype)) for name, (dtype, shape, values) in expected.items()}
        given = {"inputs": program.inputs, "lines": program.lines, "names": program.names}
        kept.append(given | {"results": rounded})
    return kept


def short(values: Any, dtype: str) -> list[Any]:
    """The numbers in a row, with as many digits as are compared."""
    digits = 10 if dtype == "float64" else 6
    return [float(f"{number:.{digits}g}") if values.dtype.kind == "f" else int(number) for number in values.flat]


def main(arguments: list[str]) -> None:
    import torch

    import pyapp

    warnings.simplefilter("ignore")
    steps: dict[str, Callable[[], None]] = {
        "golden": lambda: write(golden(torch)),
        "compare": lambda: tell(range(int(arguments[1]), int(arguments[1]) + int(arguments[2])), torch, pyapp),
    }
    steps[arguments[0]]()


def write(programs: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(program, separators=(",", ":")) for program in programs)
    GOLDEN.write_text(f"[\n{lines}\n]\n")


def tell(seeds: range, torch: Any, own: Any) -> None:
    count = 0
    for seed in seeds:
        if text := compare(seed, torch, own):
            count += 1
            print(f"-- {seed}", *Program(seed, torch).lines, text[:400], sep="\n")
    print(f"{count} of {len(seeds)} programs differ")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1:])
