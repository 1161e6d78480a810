"""Wrong calls of every function and every method of a tensor: the error has its name and shows the call."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pyapp
from pyapp import fft, linalg, nn
from pyapp.engine import ops, quant
from pyapp.engine.op import Op
from pyapp.engine.tensor import OWN_METHODS, Tensor
from pyapp.engine.user_errors import describe
from pyapp.errors import KernelError, OperationError
from tests.together import check_each, fewer_in_browser

from .cases_user_errors import CASES, OTHERWISE
from .make_golden_user_errors import GOLDEN, error_of

# No operations on tensors: settings, questions about types, what runs functions of the user's.
APART = {
    "Device", "Graph", "Op", "Tensor", "DType", "Generator", "SampleBuffers", "capture", "enable_grad", "no_grad",
    "set_grad_enabled", "is_grad_enabled", "grad", "op", "ops", "primitive", "quant", "set_num_threads", "as_dtype",
    "get_num_threads", "instruction_set", "flush_denormals", "set_printoptions", "default_generator", "device",
    "finfo", "iinfo", "inference_mode", "dtype", "Size", "triplet_margin_with_distance_loss", "from_file",
}  # fmt: skip
# These accept arguments that are not tensors.
TAKES_ANYTHING = {
    "is_tensor", "seed", "initial_seed", "get_default_dtype", "broadcast_shapes", "atleast_1d",
    "atleast_2d", "atleast_3d", "broadcast_tensors", "is_nonzero",
}  # fmt: skip


def namespaces() -> Iterator[tuple[str, Any]]:
    for name in sorted({*pyapp.engine.__all__, *ops.__all__} - APART):
        yield name, getattr(pyapp, name)
    for namespace in (linalg, fft, nn.functional):
        for name in sorted(set(namespace.__all__) - APART):
            yield f"{namespace.__name__}.{name}", getattr(namespace, name)


FUNCTIONS = [(name, f) for name, f in namespaces() if callable(f) and not inspect.isclass(f)]
for _name in ops.__all__:  # whose modules bring methods
    getattr(ops, _name)
METHODS = sorted(n for n, f in vars(Tensor).items() if n not in OWN_METHODS and callable(f) and n[0] != "_")


def x() -> Any:
    return pyapp.arange(6, dtype=pyapp.float32).reshape(2, 3)


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    function = inspect.unwrap(function, stop=lambda f: hasattr(f, "operation"))
    function = getattr(function, "operation", function)
    found: dict[str, inspect.Parameter] = {}
    if isinstance(function, Op):
        for body in (function.by_name, function.definition, function.host, *function.kernels.values()):
            found = {**(inspect.signature(body).parameters if body else {}), **found}
        return found
    return dict(inspect.signature(function).parameters)


def rest_of(function: Any, filler: Any) -> list[Any]:
    """An argument for each parameter without a default, except the first."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [p for p in parameters_of(function).values() if p.kind in kinds and p.default is p.empty]
    return [filler for _ in known[1:]]


def tells(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether the call fails; its error must name the function and show the tensors."""
    name = name.rpartition(".")[2]
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    shown = [describe(a) for a in given]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
    except OperationError as error:
        text = str(error)
        assert text.startswith(f"{name}: ") and f"; in {name}(" in text, text
        assert all(part in text for part in shown), text
        assert not re.match(rf"{name}: _?\w+(:|\(\)) ", text), text
        return True
    except KernelError:
        return True
    except TypeError as error:  # of Python, of functions that tell the rest themselves
        assert str(error).startswith(f"{name}() "), repr(error)
        return True
    except Exception as error:
        raise AssertionError(f"{name}{args}: {error!r} is not told") from error
    return False


def test_functions() -> None:
    check_each(check_function, fewer_in_browser(FUNCTIONS, every=9))


def check_function(name: str, function: Any) -> None:
    parameters = parameters_of(function)
    takes = name.rpartition(".")[2] in TAKES_ANYTHING
    assert tells(name, function, object(), *rest_of(function, object())) or takes
    assert tells(name, function, *rest_of(function, x()), nonsense=1) or takes or "kwargs" in parameters
    tells(name, function, "nonsense", *rest_of(function, x()))
    tells(name, function, x(), *rest_of(function, pyapp.zeros(4, 5, 7)))
    tells(name, function, x(), *rest_of(function, "nonsense"))
    tells(name, function, x() > 2, *rest_of(function, x() > 2))
    tells(name, function, pyapp.zeros(0), *rest_of(function, 99))
    tells(name, function, quant.quantize(pyapp.ones(4, 32), "q8_0"), *rest_of(function, 0))
    if "dim" in parameters:
        tensors = [x() if p in ("input", "x", "a", "tensors") else 0 for p in parameters]
        first = [x()] if "tensors" in parameters else x()
        rest = rest_of(function, tensors[0])
        given = {"dim": 99} if len(rest) == 0 or list(parameters).index("dim") > len(rest) else {}
        assert tells(name, function, first, *([99] * len(rest) if not given else rest), **given)


def test_methods() -> None:
    check_each(check_method, fewer_in_browser(zip(METHODS), every=9))


def check_method(name: str) -> None:
    found = vars(Tensor)[name]
    rest = rest_of(found, object())

    def method(this: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(this, name)(*args, **kwargs)

    assert tells(name, method, x(), *rest, nonsense=1) or "kwargs" in parameters_of(found)
    tells(name, method, x(), *(rest or [object()]))
    tells(name, method, x(), *rest_of(found, pyapp.zeros(4, 5, 7)))
    tells(name, method, pyapp.zeros(0), *rest_of(found, 99))
    tells(name, method, x() > 2, *rest_of(found, x() > 2))
    if "dim" in parameters_of(found) and len(rest) < 2:
        assert tells(name, method, x(), dim=99)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: x().softmax(7), IndexError, "softmax: Dimension out of range (expected to be in range of [-2, 1], but "
         "got 7): dim 7 is out of range for a tensor of 2 dims; in softmax(float32[2, 3] on cpu, 7)"),
        (lambda: x().std(dim=7), IndexError, "std: Dimension out of range (expected to be in range of [-2, 1], but "
         "got 7): dim 7 is out of range for a tensor of 2 dims; in std(float32[2, 3] on cpu, dim=7)"),
        (lambda: pyapp.arccos("a"), TypeError, "arccos: expects a tensor, got 'a'; in arccos('a')"),
        (lambda: x().arccos_("a"), TypeError, "arccos_: takes 1 positional argument but 2 were given; in "
         "arccos_(float32[2, 3] on cpu, 'a')"),
        (lambda: linalg.inv(x()), ValueError, "inv: takes square matrices (..., N, N), got float32[2, 3] on cpu; in "
         "inv(float32[2, 3] on cpu)"),
        (lambda: nn.ReLU()(x() > 2), TypeError, "relu: takes no bools (bool[2, 3] on cpu); convert it first; in "
         "relu(bool[2, 3] on cpu, inplace=False)"),
        (lambda: pyapp.tensor([3], dtype="uint8") ** -1, ValueError, "pow: Integers to negative integer powers are not "
         "allowed; convert them with .float() first; in pow(uint8[1] on cpu, -1)"),
        (lambda: x()[:, 5], IndexError, "index: index 5 is out of bounds for dimension 1 with size 3: 5 is out "
         "of range for dim 1 of float32[2, 3] on cpu; in "
         "index(float32[2, 3] on cpu, (slice(None, None, None), 5))"),
        (lambda: nn.Embedding(3, 2)(pyapp.tensor([5, 1])), IndexError, "embedding: index out of range in self: an "
         "index (a token id, a target) is "
         "out of range; in embedding(float32[3, 2] on cpu, int64[2] on cpu from 1 to 5)"),
    ],
)  # fmt: skip
def test_what_is_said(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message and isinstance(caught.value, RuntimeError)
    assert caught.value.__cause__ is None


# Arguments of another kind or size, of which Python or NumPy complains inside, and what users read.
IN_WORDS: list[tuple[str, Callable[[], Any], str]] = [
    ("no list", lambda: x().hsplit(1.5), "hsplit: takes a list or tuple where it got float"),
    ("no whole number", lambda: x().std(correction=[1.5]), "std: takes a whole number where it got list"),
    ("a word", lambda: nn.functional.avg_pool2d(x()[None], "a"), "avg_pool2d: takes a whole number where it got 'a'"),
    ("None", lambda: nn.functional.avg_pool2d(x()[None], (None, 1)), "avg_pool2d: takes a number where it got None"),
    ("a tuple", lambda: x().bernoulli_((1,)), "bernoulli_: cannot compare int with tuple"),
    ("an exponent", lambda: x().norm([1]), "norm: cannot combine Tensor with list"),
    ("no dims", lambda: pyapp.tensor(1.0).narrow(0, 0, 1), "narrow: there is no such dim, or too few dims or values"),
    ("few dims", lambda: pyapp.lu_unpack(x()[0], x()[0]), "lu_unpack: there are too few or too many dims or values"),
    ("no steps", lambda: fft.fftfreq(0), "fftfreq: divides by zero"),
    ("shapes", lambda: x().index_fill(0, pyapp.tensor([0]), pyapp.zeros(5)), "index_fill: values of shape (5,) do not "
     "fit places of shape (1,3)"),
    ("dtypes", lambda: pyapp.gcd(x() > 2, x() > 2), "gcd: does not exist for these dtypes"),
    ("bounds", lambda: pyapp.bucketize(1, pyapp.tensor(1.0)), "bucketize: takes tensors with at least one dim"),
    ("a dim", lambda: pyapp.tensor(1.0).unique(dim=-1), "unique: there is no such dim: there are 0"),
    ("a table", lambda: pyapp.rope_table(3, 2**64), "rope_table: there is no table of 3 positions for 18,446,744,073"),
    ("a table of nothing", lambda: pyapp.rope_table(2**63 - 1, -1), "rope_table: there is no table of 9,223,372,036,"),
]  # fmt: skip


def test_what_python_says_is_put_into_words() -> None:
    check_each(check_words, IN_WORDS)


def check_words(_: str, call: Callable[[], Any], words: str) -> None:
    with pytest.raises(OperationError) as caught:
        call()
    assert str(caught.value).startswith(words), str(caught.value)


def test_what_is_in_a_tensor() -> None:
    assert 1.0 in x() and 9 not in x()
    with pytest.raises(TypeError, match="a tensor holds numbers, not NoneType"):
        assert None in x()


def test_as_many_parts_of_nothing_as_are_asked_for() -> None:
    """They are not looked at one by one, which would take years."""
    empty = pyapp.zeros(0, 3, 4, requires_grad=True)
    y = nn.functional.adaptive_avg_pool1d(empty, 2**50)
    y.sum().backward()
    values, places = nn.functional.adaptive_max_pool2d(pyapp.ones(1, 2, 3, 4), (2**50, 0), return_indices=True)
    assert y.shape == (0, 3, 2**50) and empty.grad is not None and empty.grad.shape == (0, 3, 4)
    assert values.shape == places.shape == (1, 2, 2**50, 0) and places.dtype is pyapp.int64
    with pytest.raises(MemoryError):
        nn.functional.adaptive_avg_pool1d(pyapp.ones(1, 3, 4), 2**50)
    with pytest.raises(ValueError, match="does not name 1 dims"):
        nn.functional.adaptive_avg_pool1d(empty, 2**63)


def test_bytes_have_areas() -> None:
    assert pyapp.trapezoid(pyapp.tensor([200, 200, 200], dtype=pyapp.uint8)).item() == 400


def test_errors_of_users_pass_unchanged() -> None:
    class Mine(ValueError):
        pass

    def distance(a: Any, b: Any) -> Any:
        raise Mine("of the user's own", 3)

    with pytest.raises(Mine) as caught:
        nn.functional.triplet_margin_with_distance_loss(x(), x(), x(), distance_function=distance)
    assert caught.value.args == ("of the user's own", 3)


def test_a_long_call_is_cut() -> None:
    with pytest.raises(ValueError) as caught:
        pyapp.cat([x()] * 500 + [pyapp.zeros(7)])
    assert len(str(caught.value)) < 700 and "..." in str(caught.value)


TORCH = json.loads(GOLDEN.read_text())


def test_handlers_for_torchs_errors_catch_ours() -> None:
    check_each(check_handler, CASES)


def check_handler(name: str, call: Any) -> None:
    error, wanted = error_of(pyapp, call), TORCH[name].lstrip("_")
    if name in OTHERWISE:
        assert error is None or wanted not in [kind.__name__ for kind in type(error).__mro__]
        return
    assert error is not None, f"torch has a {wanted}"
    assert wanted in [kind.__name__ for kind in type(error).__mro__], repr(error)


def test_a_state_that_does_not_fit_is_told_whole() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict({"weight": pyapp.ones(3, 3), "more": x()})
    assert str(caught.value) == (
        'load_state_dict: Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "bias".\n\t'
        'Unexpected key(s) in state_dict: "more".\n\tsize mismatch for weight: the module has float32[2, 3] on cpu, '
        "the state holds float32[3, 3] on cpu."
    )
    assert layer.weight.tolist() == before
    assert isinstance(caught.value, KeyError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("call", [lambda x, n: x + n, lambda x, n: x.mul_(-n)])
def test_whole_numbers_that_no_float_holds_are_told(call: Callable[[Any, int], Any]) -> None:
    with pytest.raises(OperationError, match="beyond what a float holds"):
        call(x(), 10**400)
