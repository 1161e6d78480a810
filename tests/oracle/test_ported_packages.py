"""torch's packages beside its ops, compared live: files, functions of functions, data, distributions, settings."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from tests.oracle.compare import check_equal, to_pyapp, to_torch
from tests.porting import cases, running

torch = pytest.importorskip("torch")


def package(name: str) -> tuple[Any, Any]:
    return importlib.import_module(f"torch{name}"), importlib.import_module(f"pyapp{name}")


@pytest.mark.parametrize("name", running.NAMES)
def test_scripts_train_alike(name: str) -> None:
    with torch.backends.__allow_nonbracketed_mutation():  # torch's tests, which test_samples.py imports, forbid it
        theirs = running.load(name, "torch").main(running.fill)
    ours = running.load(name, "pyapp").main(running.fill)
    # As in test_scripts.py. Rounding alone moves torch's own results so far: those of speech.py in float64 are up to
    # 6e-5 of the number away, and the pictures that diffusion.py draws have numbers near 0 beside those of about 1.
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


# -- files


def checkpoint(framework: Any) -> dict[str, Any]:
    """What checkpoints hold, with shared memory, views and every dtype."""
    nn = framework.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    running.fill(model)
    optimizer = framework.optim.AdamW(model.parameters(), amsgrad=True)
    x = framework.tensor(np.arange(15, dtype=np.float32).reshape(5, 3))
    model(x).square().sum().backward()
    optimizer.step()
    whole = framework.arange(20.0).reshape(4, 5)
    dtypes = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 uint32 float8_e4m3fn float8_e5m2"
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "rate": 1.5e-3, "done": False,
        "none": None, "name": "ü", "large": 1 << 70, "bytes": b"\x00\xff", "path": [1, (2, "x"), {"y": [3.5]}],
        "whole": whole, "turned": whole.t(), "row": whole[1], "every second": whole[:, ::2], "again": whole,
        "parameter": nn.Parameter(framework.ones(2)), "leaf": framework.ones(3, requires_grad=True),
        "scalar": framework.tensor(5), "empty": framework.empty(0, 3), "size": whole.size(),
        "dtype": framework.bfloat16, "device": framework.device("cpu"),
        "dtypes": [framework.ones(3).to(getattr(framework, name)) for name in dtypes.split()],
    }  # fmt: skip


def same(ours: Any, theirs: Any, where: str = "") -> None:
    if isinstance(theirs, torch.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride(), where
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1], where
        assert ours.requires_grad == theirs.requires_grad and ours.storage_offset() == theirs.storage_offset(), where
        assert isinstance(theirs, torch.nn.Parameter) == isinstance(ours, pyapp.nn.Parameter), where
        wide = "float64" if theirs.dtype.is_floating_point else "int64"
        a, b = ours.detach().to(getattr(pyapp, wide)), theirs.detach().to(getattr(torch, wide))
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=where)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            same(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
        assert len(ours) == len(theirs) and type(ours) is type(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(theirs, (torch.dtype, torch.device)):
        assert str(ours).split(".")[-1] == str(theirs).split(".")[-1], where
    else:
        assert ours == theirs, where


def test_torch_reads_what_we_save(tmp_path: Path) -> None:
    value = checkpoint(pyapp)
    pyapp.save(value, tmp_path / "ours.pt")
    for settings in ({}, {"mmap": True}):
        found = torch.load(tmp_path / "ours.pt", weights_only=True, **settings)
        same(value, found)
        assert found["turned"].untyped_storage().data_ptr() == found["whole"].untyped_storage().data_ptr()
        assert found["again"] is found["whole"]
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    model.load_state_dict(found["model"])
    torch.optim.AdamW(model.parameters(), amsgrad=True).load_state_dict(found["optimizer"])


@pytest.mark.parametrize("zipped", [True, False])
def test_we_read_what_torch_saves(zipped: bool) -> None:
    value = checkpoint(torch)
    if not zipped:
        value["dtypes"] = value["dtypes"][:10]
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    found = pyapp.load(file, map_location="cpu", weights_only=True)
    same(found, value)
    found["whole"][0, 1] = 77.0
    assert found["turned"][1, 0].item() == 77.0 and found["again"] is found["whole"]
    model = pyapp.nn.Sequential(pyapp.nn.Linear(3, 4), pyapp.nn.BatchNorm1d(4))
    model.load_state_dict(found["model"])
    pyapp.optim.AdamW(model.parameters(), amsgrad=True).load_state_dict(found["optimizer"])


def test_a_schedule_goes_on_from_torchs_state() -> None:
    rates = []
    for framework in (torch, pyapp):
        p = framework.nn.Parameter(framework.ones(1))
        optimizer = framework.optim.SGD([p], lr=0.5)
        rates.append(framework.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], gamma=0.1))
        for _ in range(3 if framework is torch else 0):
            optimizer.step()
            rates[-1].step()
    file = io.BytesIO()
    torch.save(rates[0].state_dict(), file)
    file.seek(0)
    rates[1].load_state_dict(pyapp.load(file))
    assert rates[1].get_last_lr() == pytest.approx(rates[0].get_last_lr())


# -- functions of functions


def both(call: Any, *arrays: Any) -> tuple[Any, Any]:
    """The call with pyapp and with torch."""
    ours = call(pyapp, *(to_pyapp(np.asarray(a), "float64") for a in arrays))
    theirs = call(torch, *(to_torch(np.asarray(a), "float64") for a in arrays))
    return ours, theirs


@pytest.mark.parametrize("name", cases.FUNCTIONS)
def test_functions_of_functions(name: str) -> None:
    ours, theirs = both(cases.FUNCTIONS[name], cases.X, cases.Y)
    check_equal(ours, theirs, 1e-9)
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert a.requires_grad == b.requires_grad


def leaves(value: Any) -> list[Any]:
    return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, tuple) else [value]


def test_a_gradient_of_captured_parameters() -> None:
    """What func.grad gives can be differentiated by what the function holds, as in a step of MAML."""

    def call(t: Any, x: Any, y: Any) -> Any:
        w = t.nn.Parameter(y.clone())
        found = t.func.grad(lambda a: ((a * w) ** 2).sum())(x)
        found.sum().backward()
        return w.grad

    check_equal(*both(call, cases.X, cases.Y), 1e-12)


def test_functional_call_and_ensembles() -> None:
    found = []
    for t in (pyapp, torch):
        models = [t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.BatchNorm1d(4)) for _ in range(3)]
        for i, model in enumerate(models):
            running.fill(model)
            with t.no_grad():
                model[0].weight.mul_(i + 1)
            model.eval()
        x = t.tensor(np.outer(cases.Y, cases.X).astype(np.float32))
        parameters, buffers = t.func.stack_module_state(models)
        alone = t.func.functional_call(models[0], dict(models[1].named_parameters()), (x,))
        every = t.vmap(lambda p, b, m=models, x=x, t=t: t.func.functional_call(m[0], (p, b), (x,)))(parameters, buffers)
        loss = lambda p, m=models, x=x, t=t: t.func.functional_call(m[0], p, x).square().mean()  # noqa: E731
        gradient = t.func.grad(loss)({n: p.detach() for n, p in models[0].named_parameters()})
        found.append((alone, every, tuple(gradient.values())))
    check_equal(*found, 1e-5)


# -- distributions


@pytest.mark.parametrize("name", cases.DISTRIBUTIONS)
def test_distributions(name: str) -> None:
    compare(cases.distribution(pyapp, name), cases.distribution(torch, name), 2e-6)


def test_transformed_distributions() -> None:
    def call(t: Any, loc: Any, x: Any) -> Any:
        D = t.distributions
        squashed = D.TransformedDistribution(D.Normal(loc, 0.5), [D.TanhTransform()])
        made = [
            D.AffineTransform(1.0, -2.0),
            D.SigmoidTransform(),
            D.ExpTransform(),
        ]
        several = D.TransformedDistribution(D.Normal(loc, 2.0), D.ComposeTransform(made))
        by_vector = D.TransformedDistribution(D.Independent(D.Normal(loc, 1.0), 1), [D.ExpTransform()])
        drawn = squashed.rsample((3,))
        assert tuple(drawn.shape) == (3, 3) and bool(
            (squashed.log_prob(drawn) - squashed.log_prob(drawn * 1.0) < 1e-3).all()
        )
        return (
            squashed.log_prob(x / 4), several.log_prob(x.exp().clamp(1.05, 2.6)), by_vector.log_prob(x),
            several.transforms[0](x), D.HalfNormal(loc).cdf(x),
        )  # fmt: skip

    check_equal(*both(call, cases.A, cases.A), 1e-6)


def test_multivariate_normal() -> None:
    covariance = np.array([[2, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 0.7]])

    def call(t: Any, loc: Any, matrix: Any, x: Any) -> Any:
        p = t.distributions.MultivariateNormal(loc, matrix)
        q = t.distributions.MultivariateNormal(loc * 2, precision_matrix=matrix * 2)
        independent = t.distributions.Independent(t.distributions.Normal(loc, 1.0), 1)
        return p.log_prob(x), p.entropy(), t.distributions.kl_divergence(p, q), independent.log_prob(x), p.variance

    check_equal(*both(call, cases.A, covariance, np.outer(cases.A, cases.A)), 1e-6)


@pytest.mark.parametrize("name", sorted(set(cases.DISTRIBUTIONS) - {"Categorical", "Cauchy"}))
def test_draws_have_the_mean_and_the_deviation(name: str) -> None:
    params = [
        pyapp.tensor(a if name in ("Uniform", "StudentT") else np.minimum(a, 1.0)) for a in cases.DISTRIBUTIONS[name][0]
    ]
    p = getattr(pyapp.distributions, name)(*params)
    pyapp.manual_seed(4)
    drawn = p.sample((40_000,)).double()
    limit = 6 * p.stddev.double() / 200
    assert bool(((drawn.mean(0) - p.mean).abs() < limit).all())
    if name != "LogNormal":  # its deviation is that of rare numbers
        np.testing.assert_allclose(drawn.std(0).numpy(), p.stddev.double().numpy(), rtol=0.06)


# -- special functions


@pytest.mark.parametrize("name", pyapp.special.__all__)
def test_special_functions(name: str) -> None:
    low, high = {"ndtri": (0.01, 0.99), "logit": (0.01, 0.99), "erfinv": (-0.9, 0.9)}.get(name, (0.1, 4.0))
    values = np.linspace(low, high, 12)
    more: tuple[Any, ...] = {"softmax": (0,), "log_softmax": (0,), "logsumexp": (0,)}.get(name, ())
    if name in ("gammainc", "gammaincc", "xlog1py", "xlogy"):
        ours, theirs = both(lambda t, a, b: getattr(t.special, name)(a, b), values, values[::-1])
    elif name == "zeta":
        ours, theirs = both(lambda t, a, b: t.special.zeta(a + 1, b), values, values[::-1])
    elif "_polynomial_" in name:
        function = lambda t, a, n: (getattr(t.special, name)(a, 5), getattr(t.special, name)(a, n))  # noqa: E731
        ours, theirs = both(function, values, np.arange(12))
    elif name == "polygamma":
        ours, theirs = both(lambda t, a: t.special.polygamma(1, a), values)
    elif name == "multigammaln":
        ours, theirs = both(lambda t, a: t.special.multigammaln(a + 2, 3), values)
    else:
        ours, theirs = both(lambda t, a: getattr(t.special, name)(a, *more), values)
    check_equal(ours, theirs, 1e-6)


# -- settings and constructors


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16"])
def test_the_default_dtype(name: str) -> None:
    made = [
        lambda t: t.zeros(2), lambda t: t.ones(2), lambda t: t.empty(2), lambda t: t.full((2,), 1.5),
        lambda t: t.tensor(1.5), lambda t: t.tensor([1]), lambda t: t.tensor([]), lambda t: t.arange(0, 1, 0.5),
        lambda t: t.arange(3), lambda t: t.linspace(0, 1, 3), lambda t: t.eye(2), lambda t: t.rand(2),
        lambda t: t.randn(2), lambda t: t.tensor([1]) / 2, lambda t: t.tensor([1]) * 1.5, lambda t: t.tensor([1]).exp(),
        lambda t: t.tensor([True]).sqrt(), lambda t: t.nn.Linear(2, 2).weight,
        lambda t: t.nn.BatchNorm1d(2).running_mean,
        lambda t: t.tensor([1.0], dtype=t.float32) * 2.5, lambda t: t.Tensor([1]), lambda t: t.logspace(0, 1, 3),
        lambda t: t.hann_window(4), lambda t: t.scalar_tensor(2), lambda t: t.randint(0, 3, (2,)),
        lambda t: t.tensor([1.5], dtype=float), lambda t: t.nn.Embedding(2, 2).weight, lambda t: t.tensor([1]) ** -1.0,
    ]  # fmt: skip
    try:
        for t in (torch, pyapp):
            t.set_default_dtype(getattr(t, name))
        assert str(pyapp.get_default_dtype()).endswith(name)
        for i, make in enumerate(made):
            ours, theirs = (str(make(t).dtype).split(".")[1] for t in (pyapp, torch))
            assert ours == theirs, i
    finally:
        for t in (torch, pyapp):
            t.set_default_dtype(t.float32)
    for wrong in (torch.int64, "int64"):
        with pytest.raises(TypeError):
            (torch if wrong is torch.int64 else pyapp).set_default_dtype(wrong)


@pytest.mark.parametrize("at", range(len(cases.CONSTRUCTORS)))
def test_constructors_and_settings(at: int) -> None:
    if not torch.cuda.is_available():
        check_equal(cases.CONSTRUCTORS[at](pyapp), cases.CONSTRUCTORS[at](torch))


def test_generators_under_no_grad() -> None:
    for t in (torch, pyapp):

        @t.no_grad()
        def steps(x: Any) -> Any:
            got = yield (x * 2).requires_grad
            yield got
            return 5

        run = steps(t.ones(1, requires_grad=True))
        assert next(run) is False and t.is_grad_enabled()
        assert run.send("sent") == "sent"
        with pytest.raises(StopIteration) as end:
            next(run)
        assert end.value.value == 5


# -- mixed precision, data, averages


def test_the_scaler_skips_steps_that_are_not_finite() -> None:
    found = []
    for t in (torch, pyapp):
        p = t.nn.Parameter(t.tensor([1.0, 2.0]))
        optimizer = t.optim.SGD([p], lr=0.1)
        scaler = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        rows = []
        for factor in (1.0, float("inf"), 1.0, 2.0, 3.0):
            optimizer.zero_grad()
            scaler.scale((p * factor).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            rows.append((scaler.get_scale(), p.tolist()))
        found.append((rows, scaler.state_dict()))
    assert found[0][0] == found[1][0] and found[0][1] == found[1][1]


def test_loaders_make_the_same_batches() -> None:
    def batches(t: Any) -> Any:
        data = t.utils.data
        numbers = data.TensorDataset(t.arange(10), t.arange(10.0) / 2)
        rows = [{"x": i, "y": (i / 2, str(i)), "z": np.float32(i), "w": np.ones(2) * i} for i in range(5)]

        class Stream(data.IterableDataset):  # type: ignore[name-defined, misc]
            def __iter__(self) -> Any:
                return iter(range(7))

        sampler = data.BatchSampler(data.SequentialSampler(range(5)), 2, False)
        parts = data.random_split(numbers, [0.5, 0.3, 0.2], generator=t.Generator().manual_seed(3))
        loaders = [
            data.DataLoader(numbers, batch_size=4), data.DataLoader(numbers, batch_size=4, drop_last=True),
            data.DataLoader(rows, batch_size=2), data.DataLoader(Stream(), batch_size=3),
            data.DataLoader(numbers, batch_size=None), data.DataLoader(rows, batch_sampler=sampler),
            data.DataLoader(numbers + numbers, sampler=[3, 11, 2], batch_size=2),
            data.DataLoader(data.Subset(numbers, [4, 2]), collate_fn=lambda b: b, batch_size=2),
            data.DataLoader(data.StackDataset(a=range(3), b=range(3)), batch_size=3),
        ]  # fmt: skip
        assert sorted(i for part in parts for i in part.indices) == list(range(10))
        lengths = [len(loader) for loader in loaders if not isinstance(loader.dataset, Stream)]
        return [list(loader) for loader in loaders], lengths, [len(p) for p in parts]

    ours, theirs = batches(pyapp), batches(torch)
    assert ours[1:] == theirs[1:]
    compare(ours[0], theirs[0])


def compare(ours: Any, theirs: Any, tolerance: float | None = None) -> None:
    """Containers of tensors, dicts and texts."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        compare(list(ours.values()), list(theirs.values()), tolerance)
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b, tolerance)
    else:
        check_equal(ours, theirs, tolerance)


def test_shuffled_loaders_give_every_example_once() -> None:
    data = pyapp.utils.data
    loader = data.DataLoader(range(20), batch_size=6, shuffle=True, generator=pyapp.Generator().manual_seed(1))
    first, second = ([x for batch in loader for x in batch.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(20)) and first != second
    again = data.DataLoader(range(20), batch_size=6, shuffle=True, generator=pyapp.Generator().manual_seed(1))
    assert [x for batch in again for x in batch.tolist()] == first


def test_lazy_layers_and_averages() -> None:
    found = []
    for t in (pyapp, torch):
        nn, swa = t.nn, t.optim.swa_utils
        model = nn.Sequential(
            nn.LazyConv2d(8, 3, groups=2, padding=1), nn.LazyBatchNorm2d(), nn.LazyConvTranspose2d(4, 2, stride=2),
            nn.LazyInstanceNorm2d(affine=True), nn.Flatten(), nn.LazyLinear(5),
        )  # fmt: skip
        x = t.tensor(np.random.RandomState(0).randn(2, 4, 6, 6).astype(np.float32))
        assert isinstance(model[0], nn.Conv2d) and isinstance(model[5], nn.Linear)
        model.eval()(x)  # so that running values stay
        model.train()
        assert [type(layer) for layer in model][:2] == [nn.Conv2d, nn.BatchNorm2d]
        running.fill(model)
        average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.6))
        optimizer = t.optim.SGD(model.parameters(), lr=0.5)
        schedule, rates = swa.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3), []
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
            rates.append(optimizer.param_groups[0]["lr"])
        swa.update_bn([(x, None)], average)
        copy = nn.Sequential(nn.LazyConv2d(8, 3, groups=2, padding=1), nn.LazyBatchNorm2d())
        state = {k: v for k, v in model.state_dict().items() if k[0] in "01"}
        copy.load_state_dict(state)
        found.append((average.eval()(x), t.tensor(rates), copy.eval()(x)))
    check_equal(*found, 2e-4)


def test_assert_close() -> None:
    for t in (torch, pyapp):
        close = t.testing.assert_close
        close(t.ones(2), t.ones(2) + 1e-7)
        close({"a": [t.ones(2), 1.0]}, {"a": [t.ones(2), 1.0]})
        for a, b in [
            (t.ones(2), t.ones(2) + 1e-3), (t.ones(2), t.ones(3)), (t.ones(2), t.ones(2).double()),
            (t.tensor([1]), t.tensor([2])), (t.tensor(float("nan")), t.tensor(float("nan"))), ([t.ones(1)], []),
            ({"a": 1}, {"b": 1}),
        ]:  # fmt: skip
            with pytest.raises(AssertionError):
                close(a, b)
        close(t.tensor(float("nan")), t.tensor(float("nan")), equal_nan=True)
        close(t.ones(2), t.ones(2) + 1e-3, rtol=0, atol=1e-2)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder", None])
def test_orthogonal_weights(shape: tuple[int, int], way: str | None) -> None:
    random, found, base = np.random.RandomState(0), [], None
    first = random.randn(*shape).astype(np.float32)
    moved = random.randn(*shape).astype(np.float32) * 0.3
    np.fill_diagonal(moved, 0)  # signs, which have no gradient
    for t in (torch, pyapp):
        layer = t.nn.Linear(shape[1], shape[0], bias=False)
        with t.no_grad():
            layer.weight.copy_(t.tensor(first))
        t.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=way)
        held = layer.parametrizations.weight
        start = layer.weight.detach()
        base = held[0].base.numpy().copy() if base is None else base
        held[0].base.copy_(t.tensor(base))  # of which columns are drawn
        with t.no_grad():
            held.original.add_(t.tensor(moved))
        weight = layer.weight
        (weight * t.tensor(first)).sum().backward()
        found.append((start, weight, held.original.grad))
        short = weight if shape[0] < shape[1] else weight.T
        np.testing.assert_allclose((short @ short.T).detach().numpy(), np.eye(min(shape)), atol=2e-5)
    check_equal(found[1], found[0], 1e-4)
