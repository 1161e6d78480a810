"""Calls on torch's packages beside its ops. Tests run them with pyapp, make_golden.py with torch."""

from __future__ import annotations

import copy
import io
import pickle
from importlib import import_module
from typing import Any

import numpy as np

from tests.porting import distribution_cases, export_cases, masked_cases, nested_cases, tensor_class_cases

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


# -- what programs do with results in place, pruned weights, hooks of optimisers, and texts of modules


def _linear(t: Any) -> Any:
    layer = t.nn.Linear(4, 3)
    with t.no_grad():
        layer.weight.copy_(t.tensor(np.random.RandomState(0).randn(3, 4)))
        layer.bias.fill_(0.5)
    return layer


def _pruned(t: Any, *methods: Any) -> tuple[Any, ...]:
    layer = _linear(t)
    for method in methods:
        method(t.nn.utils.prune, layer)
    layer(t.ones(2, 4)).sum().backward()
    names = [name for name, _ in (*layer.named_parameters(), *layer.named_buffers())]
    before = layer.weight, layer.weight_orig.grad, names, t.nn.utils.prune.is_pruned(layer)
    t.nn.utils.prune.remove(layer, "weight")
    return (*before, layer.weight, sorted(layer.state_dict()))


def _pruned_together(t: Any) -> Any:
    pair = [_linear(t), t.nn.Linear(2, 2)]
    with t.no_grad():
        pair[1].weight.copy_(t.tensor([[0.1, 5.0], [-0.01, 3.0]]))
    several = [(layer, "weight") for layer in pair]
    for amount in (3, 0.5):
        t.nn.utils.prune.global_unstructured(several, t.nn.utils.prune.L1Unstructured, amount=amount)
    return [layer.weight for layer in pair]


def _hooks_of_steps(t: Any) -> Any:
    layer, seen = _linear(t), []
    optimizer = t.optim.SGD(layer.parameters(), lr=0.1)
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(["before", len(args), len(kwargs)]))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(["after", float(layer.bias.sum())]))
    for k in range(2):
        optimizer.zero_grad()
        layer(t.ones(1, 4)).sum().backward()
        optimizer.step()
        if k == 0:
            handle.remove()
    return seen


def _cached(t: Any) -> Any:
    calls = []

    class Twice(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            calls.append(1)
            return x * 2

    layer = _linear(t)
    t.nn.utils.parametrize.register_parametrization(layer, "weight", Twice())
    calls.clear()
    with t.nn.utils.parametrize.cached():
        found = [layer(t.ones(1, 4)), layer.weight.sum(), len(calls)]
    return [*found, layer.weight.sum(), len(calls)]


def _refused(call: Any) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return "ValueError" if isinstance(error, ValueError) else "RuntimeError"
    return "taken"


def _into(t: Any, make: Any, dtype: str = "float32", count: int = 1) -> Any:
    """What a function writes into `out`, and whether that is what it returns."""
    out = tuple(t.empty(0, dtype=getattr(t, dtype)) for _ in range(count))
    found = make(out if count > 1 else out[0])
    return [*out, all(a is b for a, b in zip(found, out, strict=True)) if count > 1 else found is out[0]]


def _x(t: Any) -> Any:
    return t.tensor([[1.0, -2.0], [3.0, 0.5]])


def _free_places(t: Any) -> Any:
    """A module that was taken away, and places in lists that hold none."""
    net = t.nn.Module()
    net.first, net.second = t.nn.Linear(2, 1), t.nn.ReLU()
    net.first = None
    net.list = t.nn.ModuleList([None, t.nn.Tanh()])
    net.list.append(None)
    net.by_name = t.nn.ModuleDict({"a": None, "b": t.nn.ReLU()})
    net.register_module("none", None)
    return [str(net), len(net.list), str(list(net.list)), [name for name, _ in net.named_modules()], str(net.none)]


def _written_optimizer(t: Any) -> Any:
    """An optimiser as programs write their own: settings that are None, halves, a state that is not by parameter."""
    required = import_module(f"{t.__name__}.optim.optimizer").required

    class Counting(t.optim.Optimizer):  # type: ignore[name-defined,misc]
        def __init__(self, params: Any, lr: Any = required, eps: Any = None) -> None:
            super().__init__(params, {"lr": lr, "eps": eps})

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("new", 7)

        @t.no_grad()  # type: ignore[misc]
        def step(self) -> None:
            self.state.setdefault("all", t.zeros(1)).add_(1)
            for p in self.param_groups[0]["params"]:
                own = self.state[p]
                own["norm"], own["rows"] = p.norm().float(), [p.sum(0).float()]
                own["step"] = own.get("step", t.tensor(0.0)) + 1
                p.sub_(p.grad, alpha=self.param_groups[0]["lr"])

    p = t.nn.Parameter(t.ones(2, 2, dtype=t.bfloat16).t())
    first = Counting([p], 0.5)
    (p * 3).sum().backward()
    first.step()
    again = Counting([p], 0.25)
    again.load_state_dict(first.state_dict())
    group = again.param_groups[0]
    found = again.state[p]
    return [
        p, again.state["all"], found["norm"], found["rows"][0], found["step"], group["lr"], group["new"],
        str(sorted(map(str, again.state_dict()["state"]))), _refused(lambda: Counting([p])),
    ]  # fmt: skip


def _old_forms(t: Any) -> Any:
    """Factors before the tensors."""
    x, m, one = t.tensor([1.0, 2.0]), t.ones(2, 2), t.ones(1, 2, 2)
    return [
        t.add(x, 0.5, x), x.sub(2, x), x.clone().add_(0.5, x), x.addcmul(0.5, x, x), x.clone().addcdiv_(0.5, x, x + 1),
        t.addmm(0.5, m, 2, m, m), m.clone().addmm_(2, m, m), t.addmv(0.5, x, 2, m, x), t.addr(1, m, 2, x, x),
        t.baddbmm(0.5, one, 2, one, one),
    ]  # fmt: skip


def _typed(t: Any) -> list[bool]:
    x, is_of = t.ones(1), t.jit.isinstance
    return [
        is_of([x], list[t.Tensor]), is_of([1], list[t.Tensor]), is_of({"a": 1}, dict[str, int]), is_of(x, t.Tensor),
        is_of({"a": 1}, dict[str, str]), is_of(None, t.Tensor | None), is_of((1, x), tuple[int, t.Tensor]),
        is_of((1, 2), tuple[int, t.Tensor]), isinstance(t.nn.ReLU(), t.jit.ScriptModule), isinstance(1, t.SymInt),
    ]  # fmt: skip


def _own_loss(t: Any) -> Any:
    base = import_module(f"{t.__name__}.nn.modules.loss")._Loss
    return [base(reduction="sum").reduction, base(reduce=False).reduction, base(size_average=False).reduction]


def _versions_in_a_file(t: Any) -> Any:
    file = io.BytesIO()
    t.save({"model": t.nn.Sequential(t.nn.Linear(1, 1), t.nn.BatchNorm1d(1)).state_dict()}, file)
    file.seek(0)
    state = t.load(file, weights_only=True)["model"]
    return [type(state).__name__, str(sorted(state._metadata.items()))]


def _copied(t: Any) -> Any:
    """A module with a state of its own for copies, and functions in a pickle."""

    class Counted(t.nn.Module):  # type: ignore[name-defined,misc]
        def __getstate__(self) -> Any:
            return {**self.__dict__, "copies": self.copies + 1}

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            self.copies += 1

    module = Counted()
    module.copies, module.layer = 0, t.nn.Linear(1, 1)
    functions = [t.relu, t.tanh, t.nn.functional.gelu, t.nn.functional.relu, t.nn.functional.mse_loss, t.cat]
    same = [pickle.loads(pickle.dumps(f)) is f for f in functions]
    return [copy.deepcopy(module).copies, len(list(copy.deepcopy(module).parameters())), str(same)]


def _wide_gradients(t: Any) -> Any:
    """A Function whose gradients have the shape of the result; a power whose result is changed."""

    class Sum(t.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, g * 3

    a, b = t.ones(1, requires_grad=True), t.ones(2, 3, requires_grad=True)
    Sum.apply(a, b).sum().backward()
    x = t.arange(1.0, 4.0).requires_grad_()
    y = x**3
    y /= 2
    y.sum().backward()
    e = t.full((2,), 2.0, requires_grad=True)
    t.pow(t.tensor([3.0, 0.0]), e).sum().backward()
    return [a.grad, b.grad, x.grad, e.grad]


class _Members:
    """Programs that write into the dicts of a module's members."""

    @staticmethod
    def made(t: Any) -> Any:
        class Made(t.nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = t.nn.Linear(2, 2), t.nn.ReLU()
                self.register_buffer("kept", t.ones(2))
                self.register_buffer("later", None)
                self.w = t.nn.Parameter(t.ones(2))

            def __setstate__(self, state: Any) -> None:
                self.__dict__.update(state)

        return Made()

    @staticmethod
    def written(t: Any) -> Any:
        m = _Members.made(t)
        m._modules["b"] = t.nn.Tanh()
        m._modules.update(c=t.nn.GELU())
        first = [type(m.b).__name__, type(m.c).__name__, m._modules.setdefault("d", m.b) is m.d]
        gone = [m._modules.pop("d") is m.b, m._modules.pop("d", 5), hasattr(m, "d"), m._modules.popitem()[0]]
        m._parameters["w"] = t.nn.Parameter(t.zeros(2))
        m._buffers["later"] = t.full((2,), 3.0)
        values = [m.w, m.later, ",".join(sorted(m.state_dict()))]
        m._buffers["later"] = None
        m.later = t.ones(1)
        del m._parameters["w"], m._modules["b"]
        left = [hasattr(m, "w"), hasattr(m, "b"), ",".join(sorted(m.state_dict()))]
        m._modules = {"a": t.nn.Linear(2, 3), "q": t.nn.ReLU()}
        whole = [m.a.out_features, type(m.q).__name__, ",".join(n for n, _ in m.named_children())]
        return [str(first), str(gone), *values, str(left), str(whole)]

    @staticmethod
    def copied(t: Any) -> Any:
        """Deep and shallow copies, a pickle, copies of __dict__ and containers."""
        found = []
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU())
        for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), copy.copy(m)):
            other._modules["1"] = t.nn.Tanh()
            found.append([type(getattr(x, "1")).__name__ for x in (other, m)])
        own = copy.deepcopy(_Members.made(t))
        own._modules["b"] = t.nn.SiLU()
        m = _Members.made(t)
        replica = m.__new__(type(m))
        replica.__dict__ = m.__dict__.copy()
        replica._parameters, replica._modules = {}, replica._modules.copy()
        replica._modules["b"] = t.nn.GELU()
        names = t.nn.ModuleDict({"x": t.nn.ReLU()})
        names._modules["y"] = t.nn.Tanh()
        lazy = t.nn.LazyLinear(3)
        lazy(t.ones(1, 2))
        lazy._parameters["bias"] = t.nn.Parameter(t.full((3,), 7.0))
        plain_linear = t.nn.Linear(1, 1, bias=False)
        bias = plain_linear._parameters["bias"]
        return [
            str(found), type(own.b).__name__, type(replica.b).__name__, type(m.b).__name__, hasattr(replica, "w"),
            hasattr(m, "w"), names.y is names["y"], lazy.bias, bias is None,
        ]  # fmt: skip


def _rounded_once(t: Any) -> Any:
    """Sums with factors in half types: a wrong rounding changes a third of the numbers."""
    found = []
    for kind in (t.bfloat16, t.float16):
        a, b, c = ((t.arange(1.0, 33.0) * n).sin().to(kind) for n in (1.3, 2.1, 3.7))
        found += [
            a.add(b, alpha=0.7), t.rsub(a, 1.7, alpha=0.3), a.lerp(b, 0.25), a.lerp(b, c), a.addcmul(b, c, value=0.3),
            a.addcdiv(b, c, value=0.3), a.clone().sub_(b, alpha=0.7), t._foreach_add([a], [b], alpha=0.7)[0],
        ]  # fmt: skip
    return [x.double() for x in found]


def _older_functions(t: Any) -> Any:
    x = (t.arange(1.0, 13.0) * 1.7).sin().reshape(6, 2)
    b, a = x[:3].clone().requires_grad_(), (x[:3] @ x[:3].T + 2 * t.eye(3)).requires_grad_()
    t.triangular_solve(b, a, upper=False, transpose=True).solution.square().sum().backward()
    q, data = t.tensor([0.2, 0.5, 0.9], requires_grad=True), x.clone().requires_grad_()
    (t.quantile(x, q, dim=0).square().sum() + t.nanquantile(x, q).sum()).backward()
    lengths = t.tensor([2, 0, 4])
    parts = [t.segment_reduce(data, r, lengths=lengths) for r in ("sum", "mean", "max", "min", "prod")]
    sum(part[::2].square().sum() for part in parts).backward()
    counts, edges = t.histogramdd(x, [2, 3], range=[-1.0, 1.0, -2.0, 2.0], weight=x[:, 0].abs())
    return [
        b.grad, a.grad, q.grad, data.grad, *parts, counts, *edges, x.clone().as_strided_((2, 2), (3, 1), 1),
        *t._foreach_maximum([x, -x], 0.3), isinstance(x.max(0), t.return_types.max),
        isinstance(t.linalg.qr(x), t.return_types.linalg_qr), isinstance(x.topk(1), t.return_types.sort),
        t.UntypedStorage.__name__, t.amp.grad_scaler.GradScaler is t.amp.GradScaler, x.view(dtype=t.int32),
        str([pickle.loads(pickle.dumps(f)) is f for f in (t.linalg.cholesky, t.linalg.inv, t.fft.fft, t.special.erf)]),
    ]  # fmt: skip


def _futures(t: Any) -> Any:
    first = t.futures.Future()
    after = first.then(lambda done: done.wait() + 1)
    both, done = t.futures.collect_all([first, after]), []
    first.add_done_callback(lambda future: done.append(future.value()))
    before = first.done()
    first.set_result(3)
    return [before, after.wait(), str(done), str([f.wait() for f in both.wait()]), str(t.futures.wait_all([first])),
            _refused(lambda: first.set_result(4)), _refused(t.futures.Future().value)]  # fmt: skip


PROGRAMS = {
    "members written": _Members.written, "members of copies": _Members.copied, "rounded once": _rounded_once,
    "older functions": _older_functions, "futures": _futures,
    "wide gradients": _wide_gradients,
    "versions in a file": _versions_in_a_file, "copied": _copied,
    "free places": _free_places, "a written optimiser": _written_optimizer, "old forms": _old_forms, "typed": _typed,
    "a loss of one's own": _own_loss,
    "a generator of a device": lambda t: t.Generator("cpu").manual_seed(5).initial_seed(),
    "assertions": lambda t: [
        t._assert(True, ""), t._check(True), _refused(lambda: t._check(False, lambda: "no")),
        _refused(lambda: t._check_value(False)), t._shape_as_tensor(t.ones(2, 3)), t.sym_int(2.7), t.sym_max(2, 3),
    ],
    "matmul into": lambda t: _into(t, lambda o: t.matmul(_x(t), _x(t).T, out=o)),
    "mul into": lambda t: _into(t, lambda o: t.mul(_x(t), _x(t), out=o), "float64"),
    "add into": lambda t: _into(t, lambda o: t.add(_x(t), 1, alpha=2, out=o)),
    "linear into": lambda t: _into(t, lambda o: _nn(t).linear(_x(t), _x(t), out=o)),
    "pools into": lambda t: _into(t, lambda o: _nn(t).avg_pool2d(_x(t)[None].repeat(1, 2, 2), 2, out=o)),
    "normalize into": lambda t: _into(t, lambda o: t.nn.functional.normalize(_x(t), dim=1, out=o)),
    "a graph in a pickle": lambda t: _graph(t),
    "norms of nothing": lambda t: [
        t.linalg.norm(t.zeros(*shape), p) for shape in ((0, 0), (0, 3), (3, 0)) for p in (1, 2, "nuc", "fro")
    ],
    "sum into": lambda t: _into(t, lambda o: t.sum(_x(t), 1, out=o)),
    "cat into": lambda t: _into(t, lambda o: t.cat([_x(t), _x(t)], 1, out=o)),
    "comparison into": lambda t: _into(t, lambda o: t.gt(_x(t), 0, out=o), "bool"),
    "max into": lambda t: [
        *t.max(_x(t), 1, out=(t.empty(2), t.empty(2, dtype=t.int64))), t.topk(_x(t), 1, out=None).values,
    ],
    "range into": lambda t: _into(t, lambda o: t.arange(1, 6, 2, out=o), "int32"),
    "zeros into": lambda t: _into(t, lambda o: t.zeros(2, 3, out=o), "int64"),
    "itself into": lambda t: [t.add(x := _x(t), x, out=x), x],
    "a view into": lambda t: [x := t.zeros(2, 3), t.exp(_x(t), out=x[:, 1:]), x],
    "a dtype that does not fit": lambda t: _refused(lambda: t.mul(_x(t), 0.5, out=t.zeros(2, 2, dtype=t.int64))),
    "a gradient into": lambda t: _refused(lambda: t.exp(_x(t).requires_grad_(), out=t.zeros(2, 2))),
    "pruned": lambda t: _pruned(t, lambda p, m: p.l1_unstructured(m, "weight", 5)),
    "pruned twice": lambda t: _pruned(
        t, lambda p, m: p.l1_unstructured(m, "weight", 0.3), lambda p, m: p.ln_structured(m, "weight", 0.5, n=2, dim=0),
        lambda p, m: p.l1_unstructured(m, "weight", 1),
    ),
    "pruned by a mask": lambda t: _pruned(
        t, lambda p, m: p.identity(m, "weight"), lambda p, m: p.custom_from_mask(m, "weight", t.eye(3, 4)),
    ),
    "pruned by scores": lambda t: _pruned(
        t, lambda p, m: p.l1_unstructured(m, "weight", 2, importance_scores=t.arange(12.0).reshape(3, 4)),
    ),
    "pruned together": _pruned_together, "hooks of steps": _hooks_of_steps, "cached": _cached,
    "names in a text": lambda t: str(_named(t)),
    "states that fit": lambda t: str(_linear(t).load_state_dict(_linear(t).state_dict())),
    "states that lack": lambda t: str(_linear(t).load_state_dict({"bias": t.zeros(3), "more": t.ones(1)}, False)),
    "Poisson": lambda t: t.distributions.Poisson(t.tensor(A)).log_prob(t.tensor([0.0, 2.0, 5.0])),
    "Binomial": lambda t: [
        (b := t.distributions.Binomial(5, t.tensor(A / 3))).log_prob(t.tensor([0.0, 2.0, 5.0])), b.mean, b.variance,
    ],
    "a mixture": lambda t: [
        (m := t.distributions.MixtureSameFamily(
            t.distributions.Categorical(t.tensor(A)), t.distributions.Normal(t.tensor(A), t.tensor(A[::-1].copy()))
        )).log_prob(t.tensor(X)), m.mean, m.variance, m.cdf(t.tensor(X)), list(m.sample((4,)).shape),
    ],
    "a mixture of vectors": lambda t: [
        (m := t.distributions.MixtureSameFamily(
            t.distributions.Categorical(t.ones(2)),
            t.distributions.Independent(t.distributions.Normal(t.zeros(2, 3), t.ones(2, 3)), 1),
        )).log_prob(t.tensor(X).float()), m.mean, list(m.sample((4, 2)).shape),
    ],
    "an accelerator": lambda t: isinstance(t.accelerator.is_available(), bool),
}  # fmt: skip


def _nn(t: Any) -> Any:
    """The module whose functions take `out` in torch."""
    return t._C._nn if t.__name__ == "torch" else t.nn.functional


def _graph(t: Any) -> list[Any]:
    """What a traced module gives after it was pickled, with hooks and buffers that its graph does not read."""
    fx = import_module(f"{t.__name__}.fx")
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3))
    with t.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    module = fx.symbolic_trace(model.eval())
    found = pickle.loads(pickle.dumps(module))
    return [found(_x(t)), list(found.state_dict()), found.code == module.code, found.training]


def _named(t: Any) -> Any:
    layers = t.nn.Sequential(t.nn.ReLU())
    for name in ("first", "last"):
        layers.add_module(name, t.nn.Tanh())
    return layers


def calls() -> dict[str, Any]:
    """All cases by name, as functions of the framework."""
    found = {f"function {n}": lambda t, f=f: f(t, t.tensor(X), t.tensor(Y)) for n, f in FUNCTIONS.items()}
    found |= {f"distribution {n}": lambda t, n=n: distribution(t, n) for n in DISTRIBUTIONS}
    found |= {f"constructor {i}": f for i, f in enumerate(CONSTRUCTORS)}
    found |= {f"program {n}": f for n, f in PROGRAMS.items()}
    found |= distribution_cases.calls() | tensor_class_cases.calls()
    return found | nested_cases.calls() | export_cases.calls() | masked_cases.calls()


def plain(value: Any) -> Any:
    """Tensors as [dtype, shape, numbers], in containers too."""
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "dtype"):
        wide = value.detach().double().reshape(-1).tolist()
        return [str(value.dtype).rpartition(".")[2], list(value.shape), wide]
    return str(value) if value is not None and not isinstance(value, (int, float, str)) else value
