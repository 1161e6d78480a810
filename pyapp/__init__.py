"""pyapp: machine learning in Python, in a browser tab and natively.

>>> import pyapp
>>> x = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (x @ x).sum().backward()
>>> x.grad
tensor([[ 7., 11.],
        [ 9., 13.]])
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.platform != "emscripten":
    from . import interrupts as _interrupts

    if _interrupts.is_command():
        _interrupts.end_quietly()

from .engine import *  # noqa: F403
from .engine import bool_ as bool  # noqa: F401
from .engine import ops as _ops
from .engine.ops._index import FUNCTION_MODULES as _FUNCTIONS
from .engine.ops._index import METHOD_MODULES as _METHODS
from .engine.tensor import Tensor as _Tensor

if TYPE_CHECKING:
    from .engine.ops._index import *  # noqa: F403

__version__ = "0.1.0"
# Packages and modules that are imported when first asked for.
_PACKAGES = """
    amp autograd backends compiler cuda distributions extension fft func jit linalg nn optim random special testing
    utils
""".split()
# Functions of torch.nn.functional that torch has at its top, too.
_FUNCTIONAL = """
    alpha_dropout bilinear binary_cross_entropy_with_logits celu_ cosine_embedding_loss cosine_similarity
    ctc_loss dropout embedding_bag
    feature_alpha_dropout hinge_embedding_loss kl_div margin_ranking_loss pairwise_distance poisson_nll_loss relu_
    rrelu_ selu_ threshold_ triplet_margin_loss
""".split()
# Names of torch that are no ops, by the module that has them, imported when first asked for.
_MODULES = {
    "amp": "GradScaler autocast",
    "compiler": "compile",
    "engine.memory_format": """
        channels_last channels_last_3d contiguous_format layout memory_format preserve_format strided
    """,
    "engine.dtype": "set_default_dtype",
    "engine.typed_tensors": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor
    """,
    "formats.torch_files": "load save",
    "engine.shape": "Size",
    "func": "vmap",
    "random": "get_rng_state set_rng_state",
    "settings": """
        OutOfMemoryError
        are_deterministic_algorithms_enabled get_default_device get_float32_matmul_precision get_num_interop_threads
        is_anomaly_enabled is_autocast_cpu_enabled is_autocast_enabled is_inference_mode_enabled is_storage
        set_default_device set_default_tensor_type set_float32_matmul_precision set_num_interop_threads typename
        use_deterministic_algorithms
    """,
}
_ELSEWHERE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _FUNCTIONS:
        found = globals()[name] = _ops.declared(name).public
        return found
    if name in _ELSEWHERE:
        found = globals()[name] = getattr(importlib.import_module(f".{_ELSEWHERE[name]}", __name__), name)
        return found
    if name in _FUNCTIONAL:
        return getattr(importlib.import_module(".nn.functional", __name__), name)
    if name in _METHODS and name[-1] == "_" != name[0]:  # what torch has as a function, too
        return getattr(_Tensor, name, None) or _method(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _method(name: str) -> Any:
    importlib.import_module(f".engine.ops.{_METHODS[name]}", __name__)
    return getattr(_Tensor, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_FUNCTIONS, *_ELSEWHERE, *_FUNCTIONAL})
