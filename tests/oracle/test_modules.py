"""Layers beside torch's: arguments, names and shapes in the state, first values, results and gradients."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import pyapp
from tests.nn import layer_cases, module_cases, training_cases
from tests.nn.training_cases import Case

from .compare import agree, check_equal, dtype_name, to_pyapp, to_torch, torch, values

CASES = {**training_cases.MODULES, **layer_cases.LAYERS, **module_cases.MODULES}
FUNCTIONS = {**module_cases.LOSSES, **module_cases.FUNCTIONS, **training_cases.LOSSES}
# What torch.nn exports and pyapp does not: see the test below.
LEFT_OUT = """
    Container CrossMapLRN2d NLLLoss2d UninitializedBuffer factory_kwargs
""".split()
# Arguments that pyapp leaves out, or has in addition.
UNTOLD = {"size_average", "reduce", "generator", "args", "kwargs", "min_value", "max_value"}


def kind_of(array: np.ndarray, dtype: str) -> str:
    return dtype if array.dtype == np.float32 else str(array.dtype)


def made(P: Any, value: Any, dtype: str) -> Any:
    """An argument for torch or for pyapp."""
    if isinstance(value, np.ndarray):
        return (to_torch if P is torch else to_pyapp)(value, kind_of(value, dtype))
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for part in value if part is not None for x in flat(part)]
    return [value]


def pair(case: Case, dtype: str) -> tuple[Any, Any]:
    """(torch's module, pyapp's) in the same state."""
    torch.manual_seed(0)
    sides = []
    for P in (torch, pyapp):
        kind = getattr(P.nn, case.kind)
        takes = inspect.signature(kind).parameters
        more = {"dtype": getattr(P, dtype)} if "dtype" in takes or case.kind in ("LSTM", "GRU", "RNN") else {}
        sides.append(kind(**case.settings, **more).train(case.training))
    theirs, ours = sides
    with torch.no_grad():
        for tensor in (*theirs.parameters(), *theirs.buffers()):
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand_like(tensor))
    state = {key: to_pyapp(value.numpy(), dtype_name(value)) for key, value in theirs.state_dict().items()}
    own = ours.state_dict()
    assert {k: (v.shape, dtype_name(v)) for k, v in own.items()} == {
        k: (tuple(v.shape), dtype_name(v)) for k, v in theirs.state_dict().items()
    }
    assert ours.load_state_dict(state) == ([], [])
    return theirs, ours


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_layers(name: str, dtype: str) -> None:
    case, limit = CASES[name], 2e-4 if dtype == "float32" else 1e-8
    theirs, ours = pair(case, dtype)
    results, inputs = [], []
    for P, module in ((torch, theirs), (pyapp, ours)):
        leaves = [made(P, array, dtype) for array in case.inputs]
        for x in leaves:
            if x.is_floating_point():
                x.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = flat(module(*leaves, **{key: made(P, v, dtype) for key, v in case.options.items()}))
        total: Any = 0
        for i, y in enumerate(outputs):
            if y.is_floating_point():
                weights = np.random.RandomState(i).randn(*y.shape)
                total = total + (y * (to_torch if P is torch else to_pyapp)(np.asarray(weights), dtype)).sum()
        if total.requires_grad:
            total.backward()
        results.append(outputs)
        inputs.append(leaves)
    check_equal(results[1], results[0], limit)
    grads = dict(theirs.named_parameters())
    ours_grads = dict(ours.named_parameters())
    assert list(grads) == list(ours_grads) or set(grads) == set(ours_grads)
    pairs = [(ours_grads[key], grads[key], key) for key in grads]
    pairs += [(a, b, f"input {i}") for i, (a, b) in enumerate(zip(inputs[1], inputs[0], strict=True))]
    for a, b, what in pairs:
        if b.grad is not None:
            check_equal(a.grad, b.grad, 10 * limit, f"gradient of {what}")
    for key, value in theirs.state_dict().items():  # running values, rows that were shrunk
        check_equal(ours.state_dict()[key], value, limit, key)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, dtype: str) -> None:
    function, arrays, settings = FUNCTIONS[name]

    def call(P: Any, *tensors: Any) -> Any:
        named = {key: made(P, value, dtype) for key, value in settings.items()}
        if "dtype" in named:
            named["dtype"] = getattr(P, named["dtype"])
        whole = [x * 1 if settings.get("inplace") else x for x in tensors]
        return getattr(P.nn.functional, function)(*whole, **named)

    operands = [(array, kind_of(array, dtype)) for array in arrays]
    told = "target" not in settings and name != "kl zeros"  # torch's gradients of targets are NaN at 0
    agree(call, operands, "dense", told, 2e-4 if dtype == "float32" else 1e-8)


BIG: list[tuple[str, dict[str, Any]]] = [
    ("Linear", {"in_features": 300, "out_features": 200}),
    ("Bilinear", {"in1_features": 30, "in2_features": 20, "out_features": 40}),
    ("Embedding", {"num_embeddings": 200, "embedding_dim": 100, "padding_idx": 3}),
    ("EmbeddingBag", {"num_embeddings": 200, "embedding_dim": 100}),
    ("Conv1d", {"in_channels": 40, "out_channels": 60, "kernel_size": 5, "groups": 2}),
    ("ConvTranspose2d", {"in_channels": 40, "out_channels": 60, "kernel_size": 3, "groups": 2}),
    ("LSTM", {"input_size": 40, "hidden_size": 50, "num_layers": 2, "proj_size": 20}),
    ("GRUCell", {"input_size": 40, "hidden_size": 80}),
    ("MultiheadAttention", {"embed_dim": 64, "num_heads": 4, "add_bias_kv": True}),
    ("MultiheadAttention", {"embed_dim": 64, "num_heads": 4, "kdim": 80, "vdim": 40}),
    ("TransformerDecoderLayer", {"d_model": 64, "nhead": 4, "dim_feedforward": 100}),
    ("Transformer", {"d_model": 64, "nhead": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}),
    ("AdaptiveLogSoftmaxWithLoss", {"in_features": 64, "n_classes": 200, "cutoffs": [20, 90]}),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}),
    ("PReLU", {"num_parameters": 3}),
]


@pytest.mark.parametrize(("kind", "settings"), BIG)
def test_first_values_are_distributed_alike(kind: str, settings: dict[str, Any]) -> None:
    """By their mean, deviation and ends; those of torch vary with its seed."""
    found: list[dict[str, list[np.ndarray]]] = []
    for P in (torch, pyapp):
        P.manual_seed(11)
        parts: dict[str, list[np.ndarray]] = {}
        for _ in range(4):
            for key, value in getattr(P.nn, kind)(**settings).named_parameters():
                parts.setdefault(key, []).append(values(value).reshape(-1))
        found.append(parts)
    assert set(found[0]) == set(found[1])
    for key, drawn in found[0].items():
        theirs, ours = np.concatenate(drawn), np.concatenate(found[1][key])
        spread = theirs.std()
        noise = spread / len(theirs) ** 0.5
        assert abs(theirs.mean() - ours.mean()) <= 6 * noise, key
        assert abs(spread - ours.std()) <= 6 * noise, key
        if spread and np.abs(theirs).max() < 2 * spread:  # uniform: the ends are sharp
            np.testing.assert_allclose(np.abs(ours).max(), np.abs(theirs).max(), rtol=12 / len(theirs), err_msg=key)
        assert (theirs == 0).sum() == (ours == 0).sum(), key


def names_in(kind: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(kind).parameters.values()
    return [(p.name, p.default) for p in found if p.name not in UNTOLD and not p.name.startswith("_")]


def classes(place: Any) -> list[str]:
    return [n for n in dir(place) if inspect.isclass(getattr(place, n)) and n[0] != "_" and not n.startswith("Lazy")]


def test_every_layer_is_there_or_known_to_be_left_out() -> None:
    missing = [n for n in classes(torch.nn) if getattr(pyapp.nn, n, None) is None]
    assert sorted(missing) == sorted(set(LEFT_OUT) - {"factory_kwargs"})


@pytest.mark.parametrize("name", [n for n in classes(torch.nn) if hasattr(pyapp.nn, n)])
def test_layers_take_torchs_arguments(name: str) -> None:
    """In torch's order, with torch's defaults, but for functions."""
    ours, theirs = names_in(getattr(pyapp.nn, name)), names_in(getattr(torch.nn, name))
    if name in ("Module", "RNNBase", "RNNCellBase", "Sequential"):  # bases differ, *args
        return
    if not theirs and name in ("LSTM", "GRU", "RNN"):  # *args, **kwargs there
        theirs = [(n, d) for n, d in names_in(torch.nn.RNNBase) if n != "mode"]
        kept = {n for n, _ in ours}
        theirs = [(n, d) for n, d in theirs if n in kept]
        ours = [(n, d) for n, d in ours if n != "nonlinearity"]
    assert [n for n, _ in ours] == [n for n, _ in theirs]
    for (argument, own), (_, told) in zip(ours, theirs, strict=True):
        assert own == told or callable(told), argument


@pytest.mark.parametrize("place", ["utils", "utils.parametrizations"])
@pytest.mark.parametrize("wrap", ["weight_norm", "spectral_norm"])
def test_computed_weights(wrap: str, place: str) -> None:
    """Same names, and from the same state the same results and gradients, call after call."""
    sides = []
    torch.manual_seed(2)
    for P in (torch, pyapp):
        package = P.nn.utils.parametrizations if place.endswith("parametrizations") else P.nn.utils
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sides.append(getattr(package, wrap)(P.nn.Conv1d(3, 4, 2)))
    theirs, ours = sides
    state = {key: to_pyapp(value.detach().numpy(), "float32") for key, value in theirs.state_dict().items()}
    assert ours.load_state_dict(state) == ([], [])
    x = np.random.RandomState(0).randn(2, 3, 5)
    for _ in range(3):
        check_equal(ours(to_pyapp(x, "float32")), theirs(to_torch(x, "float32")), 2e-5)
    ours(to_pyapp(x, "float32")).square().sum().backward()
    theirs(to_torch(x, "float32")).square().sum().backward()
    grads = dict(ours.named_parameters())
    for key, parameter in theirs.named_parameters():
        check_equal(grads[key].grad, parameter.grad, 2e-4, key)


@pytest.mark.parametrize("package", ["nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler"])
def test_functions_of_the_other_packages_are_there(package: str) -> None:
    left_out = {
        "clip_grad_norm", "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "skip_init",
        "PackedSequence_", "bind", "SparseAdam", "swap_in_optimizer_params_and_state", "constant", "dirac", "eye",
        "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "uniform", "xavier_normal",
        "xavier_uniform", "copy_method_params", "Optimizer",
    }  # fmt: skip
    theirs = importlib.import_module(f"torch.{package}")
    ours = importlib.import_module(f"pyapp.{package}")
    public = [
        n for n, value in vars(theirs).items()
        if n[0] != "_" and callable(value) and str(getattr(value, "__module__", "")).startswith("torch")
    ]  # fmt: skip
    missing = [n for n in public if not hasattr(ours, n) and n not in left_out and n != "Tensor"]
    assert not missing
