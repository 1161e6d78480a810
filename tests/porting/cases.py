"""Calls on torch's packages beside its ops. Tests run them with pyapp, make_golden.py with torch."""

from __future__ import annotations

from typing import Any

import numpy as np

# -- functions of functions, of x and y

X = np.array([0.3, -1.2, 2.0])
Y = np.array([1.0, 0.5, -0.7])


FUNCTIONS = {
    "grad": lambda t, x, y: t.func.grad(lambda a: (a.sin() * y).sum())(x),
    "grad of two": lambda t, x, y: t.func.grad(lambda a, b: (a * b).exp().sum(), argnums=(0, 1))(x, y),
    "grad of a dict": lambda t, x, y: tuple(
        t.func.grad(lambda d: (d["a"] ** 2 * d["b"]).sum())({"a": x, "b": y}).values()
    ),  # fmt: skip
    "grad_and_value": lambda t, x, y: t.func.grad_and_value(lambda a: (a**3).sum())(x),
    "grad with aux": lambda t, x, y: t.func.grad(lambda a: ((a**3).sum(), a * 2), has_aux=True)(x),
    "grad of grad": lambda t, x, y: t.func.grad(lambda a: t.func.grad(lambda b: (b**3 * a).sum())(x).sum())(y.sum()),
    "vjp": lambda t, x, y: t.func.vjp(lambda a, b: (a * b, a + b), x, y)[1]((x, y)),
    "jvp": lambda t, x, y: t.func.jvp(lambda a: (a * a).cumsum(0), (x,), (y,)),
    "jvp of what stays": lambda t, x, y: t.func.jvp(lambda a: a * 3, (x,), (y,)),
    "jvp of jvp": lambda t, x, y: t.func.jvp(
        lambda a: t.func.jvp(lambda b: b.sin() * b, (a,), (y,))[1], (x,), (x,)
    ),  # fmt: skip
    "jacrev": lambda t, x, y: t.func.jacrev(lambda a: a.outer(a * y))(x),
    "jacrev of two": lambda t, x, y: t.func.jacrev(lambda a, b: (a * b).cumsum(0), argnums=(0, 1))(x, y),
    "jacrev of several": lambda t, x, y: t.func.jacrev(lambda a: {"s": a.sum(), "v": a.tanh()})(x)["v"],
    "jacfwd": lambda t, x, y: t.func.jacfwd(lambda a: (a * y).softmax(0))(x),
    "hessian": lambda t, x, y: t.func.hessian(lambda a: (a.exp() * y).sum().square())(x),
    "hessian of two": lambda t, x, y: t.func.hessian(lambda a, b: (a**2 * b**3).sum(), argnums=(0, 1))(x, y),
    "vmap": lambda t, x, y: t.vmap(t.dot, in_dims=(1, None))(x.outer(y), y),
    "vmap of vmap": lambda t, x, y: t.vmap(t.vmap(lambda a, b: a - b, (None, 0)), (0, None))(x, y),
    "vmap of grad": lambda t, x, y: t.func.vmap(t.func.grad(lambda a, b: t.sin(a) * b))(x, y),
    "grad of vmap": lambda t, x, y: t.func.grad(lambda a: t.vmap(lambda b: b**3)(a).sum())(x),
    "vmap out_dims": lambda t, x, y: t.vmap(lambda a: (a * y, a.sum()), out_dims=(1, 0))(x),
    "jacobian": lambda t, x, y: t.autograd.functional.jacobian(lambda a, b: a.outer(b), (x, y)),
    "functional hessian": lambda t, x, y: t.autograd.functional.hessian(lambda a: (a**3).prod(), x),
    "functional vjp": lambda t, x, y: t.autograd.functional.vjp(lambda a: a * a.sum(), x, y),
    "functional jvp": lambda t, x, y: t.autograd.functional.jvp(lambda a: a * a.sum(), x, y),
    "hvp": lambda t, x, y: t.autograd.functional.hvp(lambda a: (a**3).sum() * a[0], x, y),
    "vhp": lambda t, x, y: t.autograd.functional.vhp(lambda a: (a**3).sum() * a[0], x, y),
}

# -- distributions: their settings and those of another, which a divergence is taken to; where log_prob is taken

A = np.array([0.3, 1.2, 2.5])
DISTRIBUTIONS = {
    "Normal": ((A, A), (A * 2, A[::-1])), "LogNormal": ((A, A), (A * 2, A[::-1])), "Gumbel": ((A, A), None),
    "Laplace": ((A, A), (A * 2, A[::-1])), "Cauchy": ((A, A), None), "Exponential": ((A,), (A[::-1],)),
    "Uniform": ((A, A + 2), (A - 1, A + 3)), "Bernoulli": ((A / 3,), (A[::-1] / 3,)),
    "Geometric": ((A / 3,), (A[::-1] / 3,)), "Categorical": ((A,), (A[::-1],)),
    "OneHotCategorical": ((A,), (A[::-1],)), "Gamma": ((A, A + 1), (A[::-1], A)), "Chi2": ((A * 3,), (A[::-1],)),
    "Beta": ((A, A[::-1]), (A + 1, A)), "Dirichlet": ((A,), (A[::-1],)), "StudentT": ((A * 2 + 4, A, A), None),
    "HalfNormal": ((A,), (A[::-1],)),
}  # fmt: skip
VALUES = {
    "Bernoulli": [0.0, 1.0, 1.0], "Geometric": [0.0, 2.0, 3.0], "Categorical": [0, 2, 1],
    "OneHotCategorical": np.eye(3), "Beta": [0.2, 0.5, 0.9], "Dirichlet": [0.2, 0.5, 0.3],
    "Uniform": [0.5, 9.0, 2.6],
}  # fmt: skip


def distribution(t: Any, name: str) -> tuple[Any, ...]:
    """log_prob, entropy, moments, a divergence, gradients; the shape of draws."""
    settings, others = DISTRIBUTIONS[name]
    package, kind = t.distributions, getattr(t.distributions, name)
    params = [t.tensor(np.ascontiguousarray(a)).requires_grad_() for a in settings]
    p = kind(*params, validate_args=False)
    results = [p.log_prob(t.tensor(np.asarray(VALUES.get(name, [0.5, 1.5, 2.6])))), p.entropy()]
    results += [] if name == "Categorical" else [p.mean, p.variance, p.stddev]
    if others is not None:
        q = kind(*(t.tensor(np.ascontiguousarray(a)) for a in others), validate_args=False)
        results.append(package.kl_divergence(p, q))
    sum(r.clamp(-9, 9).nan_to_num().sum() for r in results).backward()
    return (*results, *(x.grad for x in params), list(p.sample((4, 2)).shape), list(p.batch_shape))


# -- constructors and settings

CONSTRUCTORS = [
    lambda t: t.Tensor(), lambda t: t.Tensor([[1, 2]]), lambda t: t.FloatTensor([1, 2]), lambda t: t.LongTensor([3]),
    lambda t: t.Tensor(2, 3).shape, lambda t: t.LongTensor(4).shape, lambda t: t.Tensor(t.ones(2, 3).size()).shape,
    lambda t: t.BoolTensor([True, False]), lambda t: t.DoubleTensor([0.1]), lambda t: t.Tensor(t.ones(2)),
    lambda t: t.HalfTensor([0.1]), lambda t: t.IntTensor([[1], [2]]), lambda t: t.ByteTensor(range(3)),
    lambda t: isinstance(t.ones(1), t.FloatTensor), lambda t: isinstance(t.ones(1), t.LongTensor),
    lambda t: isinstance(t.ones(2).size(), t.Size), lambda t: t.ones(2, 3).size().numel(),
    lambda t: t.ones(2, 3, 4).size()[1:].numel(), lambda t: isinstance(t.nn.Linear(2, 2).weight, t.nn.Parameter),
    lambda t: isinstance(t.ones(2), t.nn.Parameter), lambda t: isinstance(t.device("cuda"), t.device),
    lambda t: (t.device("cuda:1").index, t.device("cuda").index, t.device("cpu").index, t.device("cuda", 1).type),
    lambda t: (repr(t.device("cuda:1")), str(t.device("cuda")), t.device("cuda") == t.device("cuda:0")),
    lambda t: t.zeros(2, device=t.device("cpu"), pin_memory=False, layout=t.strided),
    lambda t: t.zeros_like(t.ones(2), memory_format=t.preserve_format),
    lambda t: t.ones(1, 2, 3, 4).is_contiguous(memory_format=t.channels_last),
    lambda t: t.ones(1, 3, 4, 2).permute(0, 3, 1, 2).is_contiguous(memory_format=t.channels_last),
    lambda t: t.dsplit(t.arange(8).reshape(1, 2, 4), 2), lambda t: t.arange(4).put_(t.tensor([1]), t.tensor([9])),
    lambda t: t.arange(4.0).resize_(2, 2), lambda t: t.put(t.arange(4), t.tensor([1, 1]), t.tensor([9, 8]), True),
    lambda t: t.relu_(t.tensor([-1.0, 2.0])), lambda t: t.range(1, 4), lambda t: t.histogram(t.arange(5.0), 3),
    lambda t: t.index_reduce(t.ones(3, 2), 0, t.tensor([0, 2, 0]), t.arange(6.0).reshape(3, 2), "amax"),
    lambda t: t.kaiser_window(6), lambda t: t.frombuffer(bytearray(b"\1\0\2\0"), dtype=t.int16),
    lambda t: t.empty_strided((2, 3), (1, 2)).stride(), lambda t: t.empty_permuted((2, 3, 4), (0, 2, 1)).stride(),
    lambda t: t.ones(2).to_dense(), lambda t: t.compile(lambda x: x + 1, disable=True)(t.ones(1)),
    lambda t: t.jit.script(t.nn.Identity())(t.ones(1)), lambda t: t.cuda.is_available() or 1,
    lambda t: (t.backends.mps.is_available(), t.is_anomaly_enabled(), t.is_autocast_enabled()),
    lambda t: (t.ones(1).new(2, 3).shape[1], t.ones(1, dtype=t.int32).new([1, 2]), t.OutOfMemoryError is not None),
    lambda t: t.set_grad_enabled(False)(lambda x: x * 2)(t.ones(1, requires_grad=True)).requires_grad,
    lambda t: t.no_grad(lambda x: x * 2)(t.ones(1, requires_grad=True)).requires_grad,
    lambda t: t.inference_mode(lambda x: x * 2)(t.ones(1, requires_grad=True)).requires_grad,
]  # fmt: skip


def calls() -> dict[str, Any]:
    """All cases by name, as functions of the framework."""
    found = {f"function {n}": lambda t, f=f: f(t, t.tensor(X), t.tensor(Y)) for n, f in FUNCTIONS.items()}
    found |= {f"distribution {n}": lambda t, n=n: distribution(t, n) for n in DISTRIBUTIONS}
    return found | {f"constructor {i}": f for i, f in enumerate(CONSTRUCTORS)}


def plain(value: Any) -> Any:
    """Tensors as [dtype, shape, numbers], in containers too."""
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "dtype"):
        wide = value.detach().double().reshape(-1).tolist()
        return [str(value.dtype).rpartition(".")[2], list(value.shape), wide]
    return str(value) if value is not None and not isinstance(value, (int, float, str)) else value
