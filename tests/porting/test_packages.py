"""torch's packages beside its ops (fft, distributions, func …) against golden values of torch; files; errors."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError
from tests.porting import cases

FOLDER = Path(__file__).parent
GOLDEN = json.loads((FOLDER / "golden_cases.json").read_text())
CALLS = cases.calls()


def same(ours: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(theirs, float) and not isinstance(ours, str):
        assert math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-6) or str(ours) == str(theirs), where
    else:
        assert ours == theirs, where


@pytest.mark.parametrize("name", CALLS)
def test_against_torch(name: str) -> None:
    same(cases.plain(CALLS[name](pyapp)), GOLDEN[name], name)


def test_there_is_a_golden_value_for_every_case() -> None:
    assert list(GOLDEN) == list(CALLS)


# -- files


def test_save_and_load(tmp_path: Path) -> None:
    x = pyapp.arange(12.0).reshape(3, 4)
    layer = pyapp.nn.Linear(2, 2)
    names = "bool uint8 int8 int16 int32 int64 uint32 float16 bfloat16 float32 float64 float8_e5m2".split()
    value = {
        "x": x, "rows": [x[1], x.t()], "state": layer.state_dict(), "p": layer.weight, "n": 1 << 70, "text": "ü",
        "many": {k: pyapp.ones(2).to(k) for k in names}, "none": None, "size": x.size(), 3: (True, 0.5, b"\xff"),
        "dtype": pyapp.float16, "number": np.float32(0.5),
    }  # fmt: skip
    pyapp.save(value, tmp_path / "a.pt")
    found = pyapp.load(tmp_path / "a.pt")
    assert list(found) == list(value) and found[3] == value[3] and found["n"] == 1 << 70 and found["size"].numel() == 12
    assert found["dtype"] is pyapp.float16 and found["number"] == 0.5
    found["x"][0, 1] = 77.0
    assert found["rows"][1][1, 0].item() == 77.0 and found["rows"][1].stride() == (1, 4)
    assert isinstance(found["p"], pyapp.nn.Parameter) and found["p"].requires_grad
    for name in names:
        assert found["many"][name].dtype.name == name and found["many"][name].float().tolist() == [1.0, 1.0]
    assert not list(tmp_path.glob(".*"))
    file = io.BytesIO()
    pyapp.save([x], file)
    assert pyapp.load(io.BytesIO(file.getvalue()))[0].tolist() == x.tolist()
    assert pyapp.load(file.getvalue())[0].tolist() == x.tolist()


def test_storages_begin_where_they_can_be_mapped() -> None:
    file = io.BytesIO()
    pyapp.save({"a": pyapp.full((5,), 3.0), "b": pyapp.full((7,), 5.0)}, file)
    data = file.getvalue()
    for count, number in ((5, 3.0), (7, 5.0)):
        assert data.index(np.full(count, number, "<f4").tobytes()) % 64 == 0


def test_what_cannot_be_saved() -> None:
    nested: Any = []
    for _ in range(80):
        nested = [nested]
    for value, error, message in (
        (pyapp.nn.Linear(1, 1), TypeError, "state_dict"), ({"f": len}, TypeError, "not builtin_function"),
        (np.array(["a"]), TypeError, "from_numpy"), (nested, ValueError, "64"),
        (1 << 200, ValueError, "127 bits"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            pyapp.save(value, io.BytesIO())


def test_damaged_files_are_refused() -> None:
    file = io.BytesIO()
    pyapp.save({"a": pyapp.ones(40), "b": [1, (2, "c")]}, file)
    data = file.getvalue()
    for end in range(0, len(data), 41):
        with pytest.raises(FileFormatError):
            pyapp.load(data[:end])
    random = np.random.RandomState(0)
    for _ in range(150):
        broken = bytearray(data)
        broken[random.randint(len(data))] ^= 1 << random.randint(8)
        try:
            pyapp.load(bytes(broken))
        except FileFormatError:
            pass


def test_programs_are_not_run() -> None:
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return print, ("run",)

    with pytest.raises(FileFormatError):
        pyapp.load(pickle.dumps(Evil(), 2), weights_only=False)


# -- functions of functions


def test_errors_of_functions() -> None:
    x = pyapp.ones(3)
    for call, error, message in (
        (lambda: pyapp.func.grad(lambda a: a * 2)(x), RuntimeError, "one number"),
        (lambda: pyapp.func.grad(lambda a: a.sum())(pyapp.tensor([1])), TypeError, "floating-point"),
        (lambda: pyapp.func.grad(lambda a: a.sum(), argnums=2)(x), RuntimeError, "no argument 2"),
        (lambda: pyapp.vmap(lambda a, b: a)(x, pyapp.ones(2)), ValueError, r"\[2, 3\] examples"),
        (lambda: pyapp.vmap(lambda a: 1)(x), ValueError, "must give tensors"),
        (
            lambda: pyapp.func.functional_call(pyapp.nn.Linear(1, 1), {"w": x}, (x,), strict=True),
            KeyError,
            "unexpected",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_vmap_names_a_dim_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"in_dims 2 of float32\[3, 2\]"):
        pyapp.vmap(lambda x: x, in_dims=2)(pyapp.ones(3, 2))


def test_vmap_draws_other_numbers_for_each_example_or_the_same() -> None:
    pyapp.manual_seed(0)
    state = pyapp.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match="random numbers are drawn: say randomness='different'"):
        pyapp.vmap(lambda a: pyapp.nn.functional.dropout(a))(pyapp.ones(4, 2))
    assert pyapp.get_rng_state().tolist() == state
    assert pyapp.vmap(lambda a: pyapp.nn.functional.dropout(a, training=False))(pyapp.ones(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="not 'often'"):
        pyapp.vmap(lambda a: a, randomness="often")
    drawn = pyapp.vmap(lambda a: a + pyapp.rand(()), randomness="different")(pyapp.zeros(4))
    assert len(set(drawn.tolist())) == 4
    assert len(set(pyapp.vmap(lambda a: a + pyapp.rand(()), randomness="same")(pyapp.zeros(4)).tolist())) == 1


def test_functional_call_puts_the_own_tensors_back() -> None:
    layer = pyapp.nn.Linear(2, 1)
    own = layer.weight
    with pytest.raises(ValueError):
        pyapp.func.functional_call(layer, {"weight": pyapp.ones(1, 3)}, (pyapp.ones(2),))
    assert layer.weight is own and dict(layer.named_parameters())["weight"] is own


# -- data


def test_loaders_shuffle_by_their_generator() -> None:
    data = pyapp.utils.data

    def passes() -> list[list[int]]:
        loader = data.DataLoader(range(20), 6, shuffle=True, generator=pyapp.Generator().manual_seed(1))
        return [[x for batch in loader for x in batch.tolist()] for _ in range(2)]

    first, second = passes()
    assert sorted(first) == sorted(second) == list(range(20)) and first != second and passes() == [first, second]


def test_batches() -> None:
    data = pyapp.utils.data
    assert [batch.tolist() for batch in data.DataLoader(range(3), 2, num_workers=1)] == [[0, 1], [2]]  # in the page too
    rows = [{"x": i, "y": (i / 2, str(i)), "z": np.ones(2) * i} for i in range(5)]
    first, *_, last = data.DataLoader(rows, batch_size=2)
    assert first["x"].tolist() == [0, 1] and first["y"][0].dtype is pyapp.float64 and first["y"][1] == ("0", "1")
    assert last["z"].shape == (1, 2)
    parts = data.random_split(range(10), [0.5, 0.3, 0.2])
    assert [len(p) for p in parts] == [5, 3, 2] and sorted(x for p in parts for x in p) == list(range(10))
    drawn = list(data.WeightedRandomSampler([0.0, 1.0, 0.0], 5))
    assert drawn == [1] * 5
    for call, message in (
        (lambda: data.DataLoader(range(3), batch_size=0), "positive"),
        (lambda: data.DataLoader(range(3), shuffle=True, sampler=[0]), "mutually exclusive"),
        (lambda: data.random_split(range(3), [1, 1]), "add up"),
        (lambda: data.TensorDataset(pyapp.ones(2), pyapp.ones(3)), "one length"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(RuntimeError, match="one shape"):
        next(iter(data.DataLoader([pyapp.ones(1), pyapp.ones(2)], batch_size=2)))


# -- settings


def test_the_default_dtype() -> None:
    try:
        pyapp.set_default_dtype(pyapp.float64)
        made = [pyapp.zeros(1), pyapp.tensor(0.5), pyapp.rand(1), pyapp.arange(0, 1, 0.5), pyapp.tensor([1]) / 3]
        made += [pyapp.nn.Linear(1, 1).weight, pyapp.eye(1), pyapp.tensor([1]).sqrt(), pyapp.Tensor([1])]
        assert {x.dtype.name for x in made} == {"float64"} and pyapp.get_default_dtype() is pyapp.float64
    finally:
        pyapp.set_default_dtype(pyapp.float32)
    assert pyapp.zeros(1).dtype is pyapp.float32
    with pytest.raises(TypeError):
        pyapp.set_default_dtype(pyapp.int32)


def test_random_states() -> None:
    pyapp.manual_seed(7)
    state = pyapp.get_rng_state()
    first = pyapp.rand(3).tolist()
    with pyapp.random.fork_rng():
        pyapp.rand(10)
    second = pyapp.rand(3).tolist()
    pyapp.set_rng_state(state)
    assert pyapp.rand(3).tolist() == first and pyapp.rand(3).tolist() == second
    with pytest.raises(TypeError):
        pyapp.set_rng_state(pyapp.zeros(5))


def test_devices_that_are_not_there() -> None:
    device = pyapp.device("cuda", 1)
    assert (device.type, device.index, str(device)) == ("cuda", 1, "cuda:1") and device is pyapp.device("cuda:1")
    with pyapp.device("cpu"):
        assert pyapp.ones(1).device == "cpu"
    for call in (
        lambda: pyapp.ones(1).cuda(),
        lambda: pyapp.nn.Linear(1, 1).to(device),
        lambda: pyapp.ones(1, device=device),
    ):
        with pytest.raises(ValueError, match="no device 'cuda"):
            call()
    with pytest.raises(RuntimeError, match="no CUDA device"):
        pyapp.cuda.synchronize()
    with pytest.raises(ValueError):
        pyapp.device("cuda:x")
    with pytest.warns(UserWarning, match="autocast has no effect"):
        with pyapp.autocast("cuda"):
            pass


def test_draws_of_distributions() -> None:
    pyapp.manual_seed(4)
    for name in sorted(set(cases.DISTRIBUTIONS) - {"Categorical", "Cauchy", "LogNormal"}):
        p = getattr(pyapp.distributions, name)(*(pyapp.tensor(a) for a in cases.DISTRIBUTIONS[name][0]))
        drawn = p.sample((4000,)).double()
        assert bool(((drawn.mean(0) - p.mean).abs() <= 0.1 * p.stddev.double()).all()), name
        assert bool(((drawn.std(0) / p.stddev.double() - 1).abs() < 0.2).all()), name
    d, a = pyapp.distributions, pyapp.tensor(cases.A)
    weights = d.Categorical(pyapp.ones(3))
    for p in (d.Poisson(a), d.Binomial(pyapp.tensor([1, 5, 9]), a / 3), d.MixtureSameFamily(weights, d.Normal(a, a))):
        drawn = p.sample((4000,)).double()
        assert bool(((drawn.mean(0) - p.mean).abs() <= 0.1 * p.stddev.double()).all()), type(p)
        assert bool(((drawn.std(0) / p.stddev.double() - 1).abs() < 0.2).all()), type(p)


# -- layers


def test_lazy_layers_take_their_size_from_an_input_or_a_state() -> None:
    nn = pyapp.nn

    def made() -> Any:
        return nn.Sequential(nn.LazyConv2d(4, 3, groups=2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))

    model, x = made(), pyapp.randn(2, 2, 5, 5)
    parameters = list(model.parameters())
    assert isinstance(model[3], nn.Linear) and "LazyLinear" in repr(model) and nn.parameter.is_lazy(model[3].weight)
    y = model(x)
    assert y.shape == (2, 3) and type(model[0]) is nn.Conv2d and model[3].in_features == 36
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    again = made()
    again.load_state_dict(model.state_dict())
    assert again.eval()(x).tolist() == model.eval()(x).tolist()


def test_names_of_other_modules_are_found() -> None:
    from pyapp.distributions.normal import Normal

    import pyapp.cuda.amp
    import pyapp.nn.modules.utils
    from pyapp.nn.modules.batchnorm import _BatchNorm
    from pyapp.nn.parameter import Parameter
    from pyapp.optim.swa_utils import AveragedModel
    from pyapp.utils.checkpoint import checkpoint

    assert issubclass(pyapp.nn.BatchNorm2d, _BatchNorm) and not issubclass(pyapp.nn.InstanceNorm2d, _BatchNorm)
    assert Normal is pyapp.distributions.Normal and isinstance(pyapp.nn.Linear(1, 1).weight, Parameter)
    assert callable(checkpoint) and AveragedModel(pyapp.nn.Linear(1, 1)).n_averaged.item() == 0
    assert pyapp.nn.modules.utils._pair(3) == (3, 3) and pyapp.cuda.amp.autocast(enabled=False)


def test_the_state_of_a_wrapped_model_loads_into_a_bare_one() -> None:
    from pyapp.nn.modules.utils import consume_prefix_in_state_dict_if_present

    bare = pyapp.nn.Sequential(pyapp.nn.Linear(2, 3), pyapp.nn.BatchNorm1d(3))
    wrapped = pyapp.nn.Module()
    wrapped.module = bare
    state = wrapped.state_dict()
    for _ in range(2):  # the second time there is nothing to take away
        consume_prefix_in_state_dict_if_present(state, "module.")
        assert list(state) == list(bare.state_dict())
        assert state._metadata == bare.state_dict()._metadata
    bare.load_state_dict(state)
    plain = {"module.a": 1, "b": 2}
    consume_prefix_in_state_dict_if_present(plain, "module.")
    assert plain == {"b": 2, "a": 1}


# -- classes of one's own


def test_an_optimiser_of_ones_own() -> None:
    """As the literature's are written: state that begins empty, groups, a decorated step with a closure."""

    class Lion(pyapp.optim.Optimizer):
        def __init__(self, params: Any, lr: float = 1e-2, betas: tuple[float, float] = (0.9, 0.99)) -> None:
            super().__init__(params, dict(lr=lr, betas=betas))

        @pyapp.no_grad()
        def step(self, closure: Any = None) -> Any:
            loss = None
            if closure is not None:
                with pyapp.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = pyapp.zeros_like(p)
                    b1, b2 = group["betas"]
                    p.add_((state["exp_avg"] * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])
                    state["exp_avg"].mul_(b2).add_(p.grad, alpha=1 - b2)
            return loss

    p = pyapp.nn.Parameter(pyapp.tensor([0.5, -0.25]))
    optimizer = Lion([p], lr=0.125)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0.3125 and p.tolist() == [0.375, -0.125]
    again = Lion([p])
    again.load_state_dict(optimizer.state_dict())
    assert (
        again.state[p]["exp_avg"].tolist() == optimizer.state[p]["exp_avg"].tolist()
        and again.param_groups[0]["lr"] == 0.125
    )


def test_hooks_before_backward_and_the_graph() -> None:
    layer, x = pyapp.nn.Linear(2, 2), pyapp.ones(1, 2, requires_grad=True)
    layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
    y = layer(x)
    y.sum().backward()
    assert layer.bias.grad.tolist() == [2.0, 2.0]
    z = (x * 3).exp()
    assert z.grad_fn.name() == "ExpBackward0" and z.grad_fn.next_functions[0][0].name() == "MulBackward0"
    assert z.grad_fn.next_functions[0][0].next_functions[0][0].variable is x


def test_parameters_by_key() -> None:
    held = pyapp.nn.ParameterDict({"a": pyapp.ones(1)})
    assert held.get("b") is None and held.setdefault("b", pyapp.zeros(2)).shape == (2,)
    assert (
        held.copy()["a"] is held["a"]
        and held.popitem()[0] == "b"
        and list(held.fromkeys("xy", pyapp.ones(1))) == ["x", "y"]
    )
    assert pyapp.nn.Linear(2, 3).to_empty(device="cpu").weight.shape == (3, 2)


@pytest.mark.parametrize(("shape", "way"), [((4, 4), None), ((5, 3), None), ((3, 5), "cayley")])
def test_orthogonal_weights_stay_so(shape: tuple[int, int], way: str | None) -> None:
    pyapp.manual_seed(0)
    layer = pyapp.nn.utils.parametrizations.orthogonal(pyapp.nn.Linear(*shape), orthogonal_map=way)
    optimizer, before = pyapp.optim.SGD(layer.parameters(), lr=0.5), layer.weight.detach()
    for _ in range(3):
        optimizer.zero_grad()
        layer(pyapp.ones(2, shape[0])).square().sum().backward()
        optimizer.step()
    w = layer.weight.detach()
    short = w if w.shape[0] <= w.shape[1] else w.T
    assert (short @ short.T - pyapp.eye(min(shape))).abs().max().item() < 1e-5
    assert (w - before).abs().max().item() > 1e-3


def test_the_version_by_torchs_names() -> None:
    assert pyapp.version.__version__ == pyapp.__version__ and pyapp.version.cuda is None and pyapp.version.hip is None


def test_loaders_by_the_files_of_torch() -> None:
    """Programs import them from torch's files, too."""
    from pyapp.utils.data import dataloader, dataset, sampler

    assert dataloader.DataLoader is pyapp.utils.data.DataLoader
    assert dataloader.default_collate is pyapp.utils.data.default_collate
    assert dataset.random_split is pyapp.utils.data.random_split and dataset.Dataset is pyapp.utils.data.Dataset
    assert sampler.SubsetRandomSampler is pyapp.utils.data.SubsetRandomSampler
