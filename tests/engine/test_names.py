"""pyapp has torch's names, with arguments in torch's order and torch's defaults."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.engine.declare import function
from pyapp.engine.op import Op
from pyapp.engine.ops._index import FUNCTION_MODULES
from tests.together import check_each

from .names import find, wanted

GOLDEN = json.loads(Path(__file__).with_name("golden_names.json").read_text())
# Parameters that torch.overrides lists differently from torch, or that have no effect in pyapp.
UNTOLD = {"out", "dtype", "device", "layout", "requires_grad", "pin_memory", "memory_format", "inplace", "size_average"}
UNTOLD |= {"reduce", "_stacklevel", "generator", "training", "onesided", "equation"}
# Functions whose entry in torch.overrides is not their signature, or whose docstring explains the difference.
TOLD_OTHERWISE = {
    "std",
    "var",
    "std_mean",
    "var_mean",
    "topk",
    "svd",
    "sort",
    "linalg.svd",
    "nn.functional.embedding_bag",
    "sum",
    "fft.hfftn",
    "fft.ihfftn",
    "linalg.matrix_rank",
    "linalg.pinv",
    "multinomial",
    "pow",
    "autograd.backward",
    "autograd.gradcheck",
    "autograd.gradgradcheck",
    "kthvalue",
    "addbmm",
    "baddbmm",
    "cross",
    "nn.functional.pad",
    "nn.functional.max_pool3d",
    "nn.functional.rms_norm",
    "nn.functional.softmax",
    "nn.functional.softmin",
    "nn.functional.log_softmax",
    "nn.functional.multi_head_attention_forward",
}


def names_of(function: Any) -> list[tuple[str, str]]:
    """(name, default as text) of the parameters that a user may give."""
    function = inspect.unwrap(function, stop=lambda f: hasattr(f, "operation"))
    function = getattr(function, "operation", function)
    if isinstance(function, Op):
        bodies = [function.by_name, function.definition, function.host, *function.kernels.values()]
        lists = [inspect.signature(body).parameters.values() for body in bodies if body is not None]
        found = max(lists, key=len)
    else:
        found = inspect.signature(function).parameters.values()
    return [(p.name, "" if p.default is p.empty else repr(p.default)) for p in found]


def test_all_is_there_as_in_torch() -> None:
    check_each(check_name, ((f"{module}.{name}".lstrip("."), module, name) for module, name in wanted()))


def check_name(full: str, module: str, name: str) -> None:
    function = find(pyapp, module, name)
    assert function is not None, f"there is no {full}"
    told = GOLDEN[full]
    if told is None or full in TOLD_OTHERWISE or inspect.isclass(function):
        return
    own = [(n, d) for n, d in names_of(function) if n not in UNTOLD]
    torch = [(n, d) for n, d in told if n not in UNTOLD]
    common = {n for n, _ in own} & {n for n, _ in torch}
    assert [n for n, _ in own if n in common] == [n for n, _ in torch if n in common]
    defaults = dict(torch)
    differing = {n: (d, defaults[n]) for n, d in own if n in common and not same(d, defaults[n])}
    assert not differing


def same(own: str, torch: str) -> bool:
    """Whether two defaults mean the same."""
    if own == torch or "" in (own, torch):
        return True
    try:
        return float(eval(own, {})) == float(eval(torch, {}))
    except (TypeError, ValueError, NameError, SyntaxError):
        return False


@pytest.mark.native_only
def test_the_index_of_ops_is_what_the_modules_declare() -> None:
    """In a separate process, because tests declare names too. `python -m scripts.op_index` writes the index."""
    script = """
from scripts import op_index, top_index

assert op_index.INDEX.read_text() == op_index.render(), "run python -m scripts.op_index"
assert op_index.STUB.read_text() == op_index.render_stub(), "run python -m scripts.op_index"
assert op_index.LATE_CLAIMS.read_text() == op_index.render_late_claims(), "run python -m scripts.op_index"
assert top_index.STUB.read_text() == top_index.stub(), "run python -m scripts.top_index"
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_no_module_has_the_name_of_a_function() -> None:
    """An import puts a module into its package under its name, where the function of that name would be."""
    assert not FUNCTION_MODULES.keys() & {name.split(".")[0] for name in FUNCTION_MODULES.values()}
    assert pyapp.linear_activated is not None and inspect.isfunction(pyapp.ops.linear_activated)


@pytest.mark.native_only
def test_every_name_is_found_before_its_module_is_imported() -> None:
    script = """
import sys
import pyapp
from pyapp.engine.ops._index import FUNCTION_MODULES, METHOD_MODULES

assert "numpy" not in sys.modules
assert "pyapp.engine.ops.linalg.eigen" not in sys.modules
x = pyapp.zeros(2, 2, dtype=pyapp.complex64)
for name in METHOD_MODULES:
    getattr(x, name)
for name in FUNCTION_MODULES:
    assert name in dir(pyapp)
    getattr(pyapp, name)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.native_only
def test_an_unknown_method_imports_nothing() -> None:
    script = """
import sys
import pyapp

tensor, before = pyapp.zeros(3), set(sys.modules)
assert not hasattr(tensor, "nonsense")
assert set(sys.modules) == before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.native_only
def test_names_of_ops_that_are_not_imported_are_refused() -> None:
    script = """
import sys
from pyapp.extension import op

assert "pyapp.engine.ops.linalg.factor" not in sys.modules
try:
    op(name="cholesky")(lambda x: x)
except ValueError as error:
    assert "'cholesky' in pyapp.engine.ops.linalg.factor" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_name_is_declared_once() -> None:
    def norm(x: Any) -> Any:
        return x

    with pytest.raises(ValueError, match="norm: .* declares what pyapp.engine.ops.norms declares"):
        function()(norm)
    assert pyapp.norm is not norm


@pytest.mark.native_only
def test_the_class_has_methods_of_modules_that_are_not_imported() -> None:
    code = (
        "import sys, pyapp; m = 'pyapp.engine.ops.diagonals'; assert m not in sys.modules; "
        "print(pyapp.Tensor.trace(pyapp.ones(2, 2)).item(), hasattr(pyapp.Tensor, 'none'), m in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["2.0", "False", "True"]
