"""Classes that derive from Tensor and Parameter, `__torch_function__`, and what else of torch programs seldom use."""

from __future__ import annotations

import importlib
import operator
import pickle
from typing import Any


def _kinds(*values: Any) -> list[str]:
    return [type(value).__name__ for value in values]


def _results(t: Any) -> Any:
    """The classes of results of operations."""

    class Mine(t.Tensor):
        def twice(self) -> Any:
            return self * 2

    F = t.nn.functional
    x = t.arange(6.0).reshape(2, 3).as_subclass(Mine)
    y = t.ones(3).as_subclass(Mine).requires_grad_()
    loss = (y.twice() * t.arange(3.0)).sum()
    loss.backward()
    x += 1
    x[0, 0] = 9.0
    found = [
        x + 1, 1 + x, t.ones(3) + x, x.twice(), t.exp(x), x.view(6), x[0], x.T, x.data, x.detach(), x.clone(),
        x.double(), t.zeros_like(x), x.new_zeros(2), x == x, x.max(dim=1), x.max(dim=1)[0], x.split(1)[0],
        t.cat([x, x]), t.transpose(x, 0, 1), F.relu(x), F.linear(x, t.ones(2, 3)), F.layer_norm(x, (3,)),
        t.einsum("ij->ji", x), x.mul_(2), t.linalg.norm(x), t.where(x > 1, x, x), loss, y.grad, x.sum().item(),
        x.tolist(), Mine([1.0, 2.0]), Mine(2, 3), t.Tensor._make_subclass(Mine, t.ones(1), True),
    ]  # fmt: skip
    with t.no_grad():
        found += [x.reshape(3, 2), t.unsqueeze(x, 0)]
    with t._C.DisableTorchFunctionSubclass():
        found += [x + 1]
    return _kinds(*found), x, y.grad, repr(y), isinstance(x, Mine)


def _siblings(t: Any) -> Any:
    """Classes that know nothing of one another; a derived one beside its base."""

    class One(t.Tensor):
        pass

    class Other(t.Tensor):
        pass

    class Derived(One):
        pass

    a, b, c = (t.ones(1).as_subclass(kind) for kind in (One, Other, Derived))
    try:
        a + b
        refused = False
    except TypeError:
        refused = True
    return refused, _kinds(a + c, c + a, t.stack([a, c]))


def _asked(t: Any) -> Any:
    """What `__torch_function__` is asked; a class that keeps its kind through clone alone."""
    calls: list[str] = []

    class Logged(t.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Loose(t.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with t._C.DisableTorchFunctionSubclass():
                found = func(*args, **(kwargs or {}))
            return found.as_subclass(cls) if func is t.Tensor.clone else found

    x, y = t.ones(2, 2).as_subclass(Logged), t.ones(2).as_subclass(Loose)
    calls.clear()
    x.sum(dim=0), x.view(4), t.add(x, x), x.mul_(2), x.unsqueeze(0), x.max(dim=1), t.cat((x, x), dim=1), x + 1
    t.nn.functional.softmax(x, dim=0), t.matmul(x, x)
    return calls, _kinds(y + 1, y.clone())


def _others(t: Any) -> Any:
    """Objects that are no tensors, with `__torch_function__`."""
    table: dict[Any, Any] = {}

    class Scalar:
        def __init__(self, value: float) -> None:
            self.value = value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return table[func](*args, **(kwargs or {})) if func in table else NotImplemented

    class Wrapped:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def inner(value: Any) -> Any:
                if isinstance(value, (list, tuple)):
                    return [inner(each) for each in value]
                return value.tensor if isinstance(value, Wrapped) else value

            return Wrapped(func(*map(inner, args), **{k: inner(v) for k, v in (kwargs or {}).items()}))

    F = t.nn.functional
    table[t.mean] = lambda x: x.value * 2
    table[t.add] = lambda x, y: ("add", *_kinds(x, y))
    table[F.relu] = lambda x, inplace=False: "relu"
    s, w = Scalar(3.0), Wrapped(t.arange(4.0).reshape(2, 2))
    found: list[Any] = [t.mean(s), t.add(s, t.ones(2)), t.add(t.ones(2), s), F.relu(s)]
    try:
        t.mul(s, 3)
    except TypeError:
        found.append("refused")
    results = [
        t.softmax(w, dim=0), F.relu(w), t.sum(w, 0), F.linear(w, t.ones(2, 2)), t.cat([w, w]), t.transpose(w, 0, 1),
        F.layer_norm(w, (2,)), t.matmul(t.ones(2, 2), w), F.cross_entropy(w, t.tensor([0, 1])), t.zeros_like(w),
    ]  # fmt: skip
    overrides: Any = importlib.import_module(f"{t.__name__}.overrides")
    asks = [overrides.has_torch_function((x,)) for x in (s, t.ones(1), 3)] + [overrides.is_tensor_like(s)]
    return found, [result.tensor for result in results], asks, overrides.resolve_name(t.add)


def _parameters(t: Any) -> Any:
    """Classes of parameters."""

    class Scaled(t.nn.Parameter):
        def __new__(cls, data: Any, requires_grad: bool = True, scale: float = 2.0) -> Any:
            made = t.Tensor._make_subclass(cls, data, requires_grad)
            made.scale = scale
            return made

    layer = t.nn.Linear(2, 1, bias=False)
    layer.weight = Scaled(t.ones(1, 2), scale=3.0)
    optimizer = t.optim.SGD(layer.parameters(), lr=0.1)
    layer(t.ones(1, 2)).sum().backward()
    optimizer.step()
    layer.double()
    again = type(layer.state_dict()["weight"])
    return (
        layer.weight, layer.weight.scale, _kinds(layer.weight, layer.weight + 1), again is t.Tensor,
        isinstance(layer.weight, t.nn.Parameter), [name for name, _ in layer.named_parameters()],
    )  # fmt: skip


def _twice(t: Any) -> Any:
    """A second backward pass without the graph being kept: through what saves no elements."""
    F = t.nn.functional
    through = {
        "mean": lambda x: x.mean(), "sum": lambda x: x.sum(1), "view": lambda x: x.view(-1), "permute": lambda x: x.t(),
        "index": lambda x: x[0], "cat": lambda x: t.cat([x, x]), "stack": lambda x: t.stack([x, x]),
        "neg": lambda x: -x, "sub": lambda x: 1 - x, "clone": lambda x: x.clone(), "flip": lambda x: x.flip(0),
        "expand": lambda x: x.expand(4, 2, 3),
        "pad": lambda x: F.pad(x, (1, 1)), "split": lambda x: x.split(1)[0], "to": lambda x: x.double(),
        "add": lambda x: x + x, "cumsum": lambda x: x.cumsum(0), "tril": lambda x: x.tril(),
        "round": lambda x: x.round(), "exp": lambda x: x.exp(), "relu": lambda x: x.relu(), "mul": lambda x: x * x,
        "std": lambda x: x.std(), "linear": lambda x: F.linear(x, t.ones(2, 3)),
        "large": lambda x: x.repeat(100, 10).sum(0) + 1,
    }  # fmt: skip
    found = []
    for name, function in through.items():
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = (function(x) + 0).sum()
        y.backward()
        try:
            y.backward()
            found.append([name, x.grad])
        except RuntimeError:
            found.append([name, "refused"])
    x = t.ones(3, requires_grad=True)
    trunk = x + 1
    (trunk * 2).sum().backward(), (trunk - 3).exp().sum().backward()
    return found, x.grad


def _memory(t: Any) -> Any:
    """Orders of elements in memory."""
    x, five = t.arange(120.0).reshape(2, 3, 4, 5), t.zeros(2, 3, 4, 5, 6)
    last, last_3d = t.channels_last, t.channels_last_3d
    found = [
        x.to(memory_format=last), x.contiguous(memory_format=last), x.clone(memory_format=last),
        x.to(t.float64, memory_format=last), x.double(memory_format=last), t.empty(2, 3, 4, 5, memory_format=last),
        t.zeros_like(x, memory_format=last), five.to(memory_format=last_3d),
        t.zeros(0).resize_(2, 3, 4, 5, memory_format=last),
    ]  # fmt: skip
    told = [[y.stride(), y.is_contiguous(), y.is_contiguous(memory_format=last)] for y in found]
    y = found[0]
    refused = False
    try:
        t.zeros(2, 3).to(memory_format=last)
    except RuntimeError:
        refused = True
    leaf = x.clone().requires_grad_()
    (leaf.to(memory_format=last) * y).sum().backward()
    back = [y.contiguous().stride(), y.to(memory_format=t.contiguous_format).stride(), y.to(memory_format=last) is y]
    return told, back, y, leaf.grad, refused


def _eigenpairs(t: Any) -> Any:
    a = t.diag(t.arange(1.0, 41.0)).double()
    a[0, 1] = a[1, 0] = 0.5
    start = t.eye(40, 2).double() + 0.01
    b, inverse, steps = t.diag(t.linspace(1.0, 2.0, 40)).double(), t.diag(1 / t.arange(1.0, 41.0)).double(), []
    _, vectors = t.lobpcg(a, k=2, X=start, niter=200)
    values_b, by_b = t.lobpcg(
        a, k=2, B=b, iK=inverse, largest=False, X=start, niter=200, tracker=lambda w: steps.append(w.ivars["istep"])
    )
    leaf = a[:12, :12].clone().requires_grad_()
    values, some = t.lobpcg(leaf, k=2, largest=False, X=start[:12], niter=500, tol=1e-12)
    (values[0] * 2 + (some**2)[:, 1] @ t.arange(12.0).double()).backward()
    refused = False
    try:
        t.lobpcg(t.eye(4), k=2)
    except ValueError:
        refused = True
    return (
        t.lobpcg(a, k=1, X=start, niter=200)[0],
        (a @ vectors - vectors * t.tensor([40.0, 39.0])).abs().max().item() < 1e-3,
        [round(v, 4) for v in values_b.tolist()], (by_b.T @ b @ by_b).round(), steps[:2],
        t.lobpcg(t.stack([a, 2 * a]), k=2, X=start.repeat(2, 1, 1), niter=200)[0],
        [[round(v, 4) for v in row] for row in (leaf.grad + leaf.grad.T)[:3, :3].tolist()], refused,
    )  # fmt: skip


def _returned(t: Any) -> Any:
    """Results of several parts, made by hand."""
    made = t.return_types.max((t.ones(2), t.zeros(2).long()))
    copied = pickle.loads(pickle.dumps(t.return_types.sort([t.ones(2), t.zeros(2).long()])))
    refused = False
    try:
        t.return_types.max((t.ones(2),))
    except TypeError:
        refused = True
    return made.values, made.indices, type(copied).__name__, copied[1], t.return_types.max.n_fields, refused


def _registered(t: Any) -> Any:
    """Hooks of registration; pruning methods among the hooks of a module; what several functions saved."""
    names: list[str] = []
    module = t.nn.modules.module
    handles = [
        getattr(module, f"register_module_{kind}_registration_hook")(lambda owner, name, value: names.append(name))
        for kind in ("parameter", "buffer", "module")
    ]
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
    for handle in handles:
        handle.remove()
    t.nn.Linear(2, 2)
    prune = importlib.import_module(f"{t.__name__}.nn.utils.prune")
    layer = t.nn.Linear(3, 3)
    with t.no_grad():
        layer.weight.copy_(t.arange(9.0).reshape(3, 3) - 4)
    prune.l1_unstructured(layer, "weight", amount=2)
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    (hook,) = layer._forward_pre_hooks.values()
    parametrize = importlib.import_module(f"{t.__name__}.nn.utils.parametrize")
    one, other = t.nn.Linear(2, 2), t.nn.Linear(2, 2)
    parametrize.register_parametrization(one, "weight", t.nn.Tanh(), unsafe=True)
    parametrize.transfer_parametrizations_and_params(one, other)
    moved = [t.equal(one.weight, other.weight), list(other.state_dict()), type(other).__name__]
    before = parametrize.type_before_parametrizations(other).__name__
    return len(net), names, _kinds(hook, *hook), hook._tensor_name, len(hook), layer.weight, moved, before


def _modes(t: Any) -> Any:
    """What a mode sees, and what it replaces."""
    overrides: Any = importlib.import_module(f"{t.__name__}.overrides")
    mode: Any = overrides.TorchFunctionMode
    seen: list[str] = []

    class Seen(mode):
        def __init__(self, sign: str) -> None:
            self.sign = sign

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(self.sign + func.__name__)
            return func(*args, **(kwargs or {}))

    class Wide(mode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is t.zeros:
                kwargs.setdefault("dtype", t.float64)
            return args[0] - args[1] if func.__name__ == "add" else func(*args, **kwargs)

    class None_(mode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = t.arange(6.0).reshape(2, 3)
    leaf = t.ones(2, requires_grad=True)
    with Seen("a"):
        t.sin(x) + 1
        t.cat([x.t(), t.zeros(1, 2)]).view(-1)
        with Seen("b"):
            (leaf * 3).sum().backward()
    with Wide():
        found = [t.zeros(2), t.add(x, 1), t.nn.functional.linear(x, t.ones(1, 3))]
    refused = False
    try:
        with None_():
            t.sin(x)
    except TypeError:
        refused = True
    return [name for name in seen if "backward" not in name], found, refused, x + 1, leaf.grad


def _by_name(t: Any) -> Any:
    """Functions whose arguments are given by name; buffers; rates of schedules within others; losses of nothing."""

    class Scaled(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any = 2.0, more: Any = 1.0) -> Any:
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * ctx.factor, (g * x).sum()

    x, factor = t.arange(3.0).requires_grad_(), t.tensor(2.0, requires_grad=True)
    Scaled.apply(x, factor=factor).sum().backward()
    buffer = t.nn.Buffer(t.ones(2), persistent=False)
    net = t.nn.Module()
    net.kept, net.lost, net.empty = t.nn.Buffer(t.zeros(1)), buffer, t.nn.Linear(1, 1)
    net.register_buffer("later", None)
    refused = []
    optimizer = t.optim.SGD([("w", t.nn.Parameter(t.ones(1)))], lr=1.0)
    for wrong in (
        lambda: setattr(net, "later", 3), lambda: t.optim.SGD({t.nn.Parameter(t.ones(1))}, lr=1.0),
        lambda: optimizer.add_param_group({"params": [t.nn.Parameter(t.ones(1))]}),
        lambda: t.autograd.functional.jacobian(lambda x: 3, t.ones(1)),
    ):  # fmt: skip
        try:
            wrong()
        except (TypeError, ValueError) as error:
            refused.append(isinstance(error, TypeError))
    plans = t.optim.lr_scheduler
    rise, fall = plans.ConstantLR(optimizer, 0.1, 2), plans.ExponentialLR(optimizer, 0.5)
    plan = plans.SequentialLR(optimizer, [rise, fall], [2])
    rates = []
    for _ in range(4):
        optimizer.step()
        plan.step()
        rates.append([*plan.get_last_lr(), *rise.get_last_lr(), *fall.get_last_lr(), fall._step_count])
    logits = t.ones(2, 3, requires_grad=True)
    loss = t.nn.functional.cross_entropy(logits, t.tensor([-100, -100]))
    (first,) = t.autograd.grad(loss, logits, create_graph=True)
    kinds = isinstance(buffer, t.nn.Buffer), isinstance(net.kept, t.nn.Buffer), isinstance(t.ones(1), t.nn.Buffer)
    return x.grad, factor.grad, buffer * 2, kinds, list(net.state_dict()), refused, rates, first


def _kept(t: Any) -> Any:
    """Parameters that optimisers have stay the same objects; rates that are tensors; states under older names."""
    utils = importlib.import_module(f"{t.__name__}.nn.utils.parametrizations")
    parametrize = importlib.import_module(f"{t.__name__}.nn.utils.parametrize")
    prune = importlib.import_module(f"{t.__name__}.nn.utils.prune")
    averages = importlib.import_module(f"{t.__name__}.optim.swa_utils")

    class Doubled(t.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

        def right_inverse(self, x: Any) -> Any:
            return x / 2

    class Pair(Doubled):
        def forward(self, x: Any) -> Any:
            return x, x

    layer = t.nn.Linear(2, 2).eval()
    with t.no_grad():
        layer.weight.copy_(t.arange(4.0).reshape(2, 2))
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Doubled())
    held = layer.parametrizations.weight
    same = [held.original is weight, not held[0].training, layer.weight.tolist()]
    refused = False
    try:
        parametrize.register_parametrization(layer, "weight", Pair())
    except ValueError:
        refused = len(held) == 1
    parametrize.remove_parametrizations(layer, "weight")
    same += [layer.weight is weight, weight.tolist(), refused]
    prune.l1_unstructured(layer, "weight", amount=2)
    same += [layer.weight_orig is weight]
    prune.remove(layer, "weight")
    same += [layer.weight is weight, weight.tolist()]
    normed = utils.weight_norm(t.nn.Linear(2, 1))
    normed.load_state_dict(
        {"bias": t.zeros(1), "weight_g": t.tensor([[5.0]]), "weight_v": t.tensor([[3.0, 4.0]])}, strict=True
    )
    turned = t.nn.Linear(2, 2, dtype=t.complex64)
    with t.no_grad():
        turned.weight.copy_(t.tensor([[3j, 0], [0, 1 + 0j]]))
    utils.spectral_norm(turned, n_power_iterations=20)
    plans = t.optim.lr_scheduler
    rate = t.tensor(0.5)
    optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=rate)
    plan = plans.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    plan.step()
    (group,) = optimizer.param_groups
    rates = [rate.item(), float(group["initial_lr"]), group["lr"] is rate, [float(each) for each in plan.base_lrs]]
    follows = plans.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    optimizer.add_param_group({"params": [t.nn.Parameter(t.ones(1))], "lr": 1.0})
    for _ in range(2):
        follows.step(1.0)
    rates += [float(each["lr"]) for each in optimizer.param_groups]
    rates += [isinstance(follows, plans.LRScheduler)]

    class Falls:
        def __init__(self) -> None:
            self.factor = 0.25

        def __call__(self, step: int) -> float:
            return self.factor

    state = plans.LambdaLR(optimizer, [Falls(), lambda step: 1.0]).state_dict()
    mean = pickle.loads(pickle.dumps(averages.AveragedModel(layer)))
    for _ in range(2):
        mean.update_parameters(layer)
    return same, normed.weight, t.view_as_real(turned.weight), rates, state["lr_lambdas"], mean.module.weight


def _corners(t: Any) -> Any:
    """Values of distributions and functions at the ends of their ranges."""
    D, inf, nan = t.distributions, float("inf"), float("nan")
    wide = t.float64
    x = t.zeros((), requires_grad=True)
    D.Binomial(1.0, logits=x).log_prob(t.zeros(())).backward()
    drawn = []
    for dtype in (t.float32, t.float64):
        small = t.tensor(1e-2, dtype=dtype)
        values = D.Beta(small, small).sample([4000])
        shares = [(values < 0.1).float().mean().item(), (values > 0.9).float().mean().item()]
        drawn += [int((values == 0).sum()), int((values == 1).sum()), *(0.44 < share < 0.54 for share in shares)]
    z = t.tensor([complex(nan, 1), complex(inf, nan), complex(1, -inf)])
    return [
        x.grad, drawn, D.Geometric(t.ones(())).log_prob(t.zeros(())),
        D.Binomial(100, t.zeros((), dtype=wide)).log_prob(t.ones((), dtype=wide)),
        D.ContinuousBernoulli(t.zeros(1, dtype=wide)).entropy(),
        D.Categorical(t.tensor([0.0, 1.0], dtype=wide)).log_prob(t.tensor(0)),
        t.view_as_real(t.nan_to_num(z, nan=12.0, posinf=3.0, neginf=-3.0)),
        t.view_as_real(t.fft.fftn(t.ones(2, 2), dim=[])), t.view_as_real(t.fft.fftn(t.ones(4), s=2, dim=0)),
    ]  # fmt: skip


def _own_ops(t: Any) -> Any:
    """Ops with a name, of torch.library."""
    library = importlib.import_module(f"{t.__name__}.library")

    def scale(x: t.Tensor, factor: float = 2.0) -> t.Tensor:
        return t.from_numpy(x.numpy() * factor)

    def total(xs: Any) -> t.Tensor:
        return t.stack([x.sum() for x in xs]).sum()

    scale.__annotations__ = {"x": t.Tensor, "factor": float, "return": t.Tensor}
    total.__annotations__ = {"xs": list[t.Tensor], "return": t.Tensor}
    own = library.custom_op("pyapp_test::scale", scale, mutates_args=())
    own.register_fake(lambda x, factor=2.0: t.empty_like(x))
    own.register_autograd(
        lambda ctx, g: (g * ctx.factor if ctx.needs_input_grad[0] else None, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    whole = library.custom_op("pyapp_test::total", total, mutates_args=())
    whole.register_autograd(
        lambda ctx, g: (
            [g.expand(n) if need else None for n, need in zip(ctx.sizes, ctx.needs_input_grad[0], strict=True)],
        ),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "sizes", [x.shape for x in inputs[0]]),
    )
    library.define("pyapp_test::twice", "(Tensor x, *, float more=0.0) -> Tensor")
    library.impl("pyapp_test::twice", "cpu", lambda x, more=0.0: x * 2 + more)
    x, y = t.arange(3.0).requires_grad_(), t.ones(2, requires_grad=True)
    (own(x, factor=3.0).sum() + whole([x, y])).backward()
    ops = t.ops.pyapp_test
    meta = own(t.ones(2, 3, device="meta"))
    with t.no_grad():
        plain = [ops.scale(x), ops.scale.default(x, 4.0), ops.twice(x.detach(), more=1.0), whole([x])]
    return x.grad, y.grad, plain, tuple(meta.shape), meta.is_meta


def _sizes(t: Any) -> Any:
    """Shapes: their slices, sums and counts of elements; storages; pickles of computed tensors."""
    x = t.ones(2, 3, 4, requires_grad=True)
    made = [
        x.shape, x.size(), x.shape[1:], x.shape[:0], x.shape + (5,), (5, *x.shape), (5,) + x.shape, x.shape * 2,
        t.Size((t.tensor(2), 3)), t.broadcast_shapes((1, 3), (2, 1)),
    ]  # fmt: skip
    counts = [size.numel() if isinstance(size, t.Size) else None for size in made]
    told = [isinstance((1, 2), t.Size), x.shape == (2, 3, 4), hash(x.shape) == hash((2, 3, 4)), x[x.shape[3:]].ndim]
    again = pickle.loads(pickle.dumps(x * 2))
    y, whole = t.arange(6, dtype=t.int16)[2:], t.zeros(0)
    kept = [
        y.storage().size(),
        y.storage().dtype.itemsize,
        y.storage().tolist(),
        y.storage().nbytes(),
        bool(whole.storage()),
    ]
    try:
        y.shape = (3,)
        told.append("assigned")
    except AttributeError:
        told.append("refused")
    return [list(size) for size in made], counts, told, again, again.requires_grad, again.is_leaf, kept


def _outermost(t: Any) -> Any:
    """The function that arrives at objects that are no tensors is the one that was called, and stays the same one."""
    names = "linalg.solve linalg.inv linalg.eigvalsh logdet diagonal unsqueeze squeeze isclose prod transpose".split()
    names += "std nn.functional.softplus nn.functional.normalize fft.rfft linalg.svd permute flatten".split()
    places = {name: operator.attrgetter(name)(t) for name in names}  # before there is a class of tensors
    seen: list[Any] = []

    class Operator:
        shape = t.Size((2, 2))

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(next((name for name, function in places.items() if function is func), func.__name__))
            return 7.0

    class Mine(t.Tensor):
        pass

    o, settings = Operator(), {"transpose": (0, 1), "permute": ((1, 0),), "unsqueeze": (0,), "isclose": (t.ones(2),)}
    settings["linalg.solve"] = (t.ones(2, 2),)
    x = t.ones(2).as_subclass(Mine)
    for name in names:
        seen.append(operator.attrgetter(name)(t)(o, *settings.get(name, ())))
    return seen, t.is_tensor(o), t.is_tensor(x), type(x + 1).__name__


def _modules(t: Any) -> Any:
    """Attributes of modules that a class finds itself; modules that have their own `to`."""

    class Wrapper(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = t.nn.Linear(2, 1)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def to(self, device: Any) -> Any:
            return self.cpu()

    found = Wrapper()
    missing = []
    for name in ("nothing", "lost"):
        try:
            getattr(t.nn.Linear(1, 1) if name == "lost" else found, name)
        except AttributeError as error:
            missing.append(f"'{name}'" in str(error))
    return found.in_features, found.to("cpu") is found, missing, hasattr(found, "weight")


def _kinds_of_distributions(t: Any) -> Any:
    """What distributions are; constraints of parts."""
    D, C = t.distributions, t.distributions.constraints
    one = t.ones(2)
    made = [
        D.LogNormal(one, one), D.HalfNormal(one), D.HalfCauchy(one), D.InverseGamma(one, one), D.Normal(one, one),
        D.Gamma(one, one), D.Bernoulli(one / 2), D.MultivariateNormal(one, t.eye(2) * 4),
    ]  # fmt: skip
    kinds = [
        [isinstance(d, D.TransformedDistribution), isinstance(d, D.ExponentialFamily), isinstance(d, D.Normal)]
        for d in made
    ]
    x = t.tensor([[0.5, -1.0], [2.0, 3.0]])
    checks = [
        C.cat([C.positive, C.unit_interval], dim=0, lengths=[1, 1]).check(x), C.stack([C.positive, C.real], 1).check(x),
        C.stack([C.positive, C.real], 1).event_dim, C.MixtureSameFamilyConstraint(C.positive).check(x),
        C.is_dependent(C.dependent(event_dim=1)), C.dependent(event_dim=1).event_dim,
        D.transform_to(C.cat([C.positive, C.unit_interval], 0, [1, 1]))(x),
        D.biject_to(C.stack([C.positive, C.real], 1))(x),
    ]  # fmt: skip

    class Own(D.ExponentialFamily):
        """The exponential distribution by its natural parameter."""

        _mean_carrier_measure = 0

        def __init__(self, rate: Any) -> None:
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        @property
        def _natural_params(self) -> Any:
            return (-self.rate,)

        def _log_normalizer(self, x: Any) -> Any:
            return -t.log(-x)

    class Given(D.Distribution):
        arg_constraints = {"value": C.dependent, "scale": C.positive}

        def __init__(self, value: Any, scale: Any) -> None:
            self.value, self.scale = value, scale
            super().__init__(validate_args=True)

    given = Given(t.tensor(-1.0), t.tensor(1.0))
    try:
        Given(t.tensor(-1.0), t.tensor(0.0))
        checks.append("taken")
    except ValueError:
        checks.append("refused")
    checks += [given.batch_shape, t._C._get_tracing_state()]
    normal = made[-1]
    parts = normal.scale_tril, normal.precision_matrix, normal.expand((3,)).covariance_matrix.shape
    logits = D.relaxed_bernoulli.LogitRelaxedBernoulli(t.tensor(0.5), logits=one).log_prob(one)
    return kinds, checks, Own(t.tensor([0.5, 2.0])).entropy(), parts, logits


def _factors(t: Any) -> Any:
    """Gradients of Cholesky factors, also of entries that are not read."""
    found = []
    for upper in (False, True):
        for solves in (True, False):
            factor = t.tensor([[2.0, 0.5], [-1.0, 3.0]], dtype=t.float64).requires_grad_()
            b = t.tensor([[1.0, 2.0, 0.0], [3.0, -1.0, 1.0]], dtype=t.float64).requires_grad_()
            y = t.cholesky_solve(b, factor, upper) if solves else t.cholesky_inverse(factor, upper)
            y.square().sum().backward()
            found += [y, factor.grad, b.grad if solves else 0]
    return found


def calls() -> dict[str, Any]:
    """All cases by name."""
    own = {
        "results": _results, "siblings": _siblings, "asked": _asked, "others": _others, "parameters": _parameters,
        "a second pass": _twice, "orders in memory": _memory, "lobpcg": _eigenpairs, "parts": _returned,
        "registration": _registered, "kept": _kept, "corners": _corners, "modes": _modes,
        "arguments by name": _by_name, "ops of one's own": _own_ops, "sizes": _sizes, "outermost": _outermost,
        "modules": _modules, "distributions": _kinds_of_distributions, "factors": _factors,
    }  # fmt: skip
    return {f"classes {name}": case for name, case in own.items()}
