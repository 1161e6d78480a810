"""pyapp: machine learning in Python, in a browser tab and natively.

>>> import pyapp
>>> x = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (x @ x).sum().backward()
>>> x.grad
tensor([[ 7., 11.],
        [ 9., 13.]])
"""

import importlib
from typing import Any

from .engine import *  # noqa: F403
from .engine import bool_ as bool  # noqa: F401
from .engine.by_name import as_factory as _as_factory
from .engine.by_name import by_torch_names as _by_torch_names
from .engine.by_name import method_as_function as _method_as_function
from .engine.by_name import over_shape as _over_shape
from .engine.by_name import rename_in as _rename_in
from .engine.by_name import rename_methods as _rename_methods
from .engine.ops import *  # noqa: F403
from .engine.ops import LATER as _LATER

__version__ = "0.1.0"
_rename_in(globals(), ops.__all__)  # noqa: F405
layer_norm, rms_norm = _over_shape(layer_norm), _over_shape(rms_norm)  # noqa: F405
_rename_methods()
_MAKERS = """
    arange empty empty_like eye full full_like linspace ones ones_like rand rand_like randint randn randn_like randperm
    tensor zeros zeros_like
""".split()
for _name in _MAKERS:
    globals()[_name] = _as_factory(globals()[_name])
_ROOMS = """
    amp autograd backends compiler cuda distributions extension fft func jit linalg nn optim random special testing
    utils
""".split()
# Ops of _LATER that make tensors.
_FACTORIES = """
    bartlett_window blackman_window hamming_window hann_window logspace normal randint_like scalar_tensor tril_indices
    triu_indices
""".split()
# Functions of torch.nn.functional that torch has at its top, too.
_FUNCTIONAL = """
    alpha_dropout bilinear binary_cross_entropy_with_logits celu_ cosine_embedding_loss cosine_similarity
    ctc_loss dropout embedding_bag
    feature_alpha_dropout hinge_embedding_loss kl_div margin_ranking_loss pairwise_distance poisson_nll_loss relu_
    rrelu_ selu_ threshold_ triplet_margin_loss
""".split()
# Methods that torch has as functions, too; so it has all that end in an underscore.
_AS_METHODS = """
    adjoint conj dequantize get_device is_conj is_inference is_neg is_signed resolve_conj resolve_neg split_with_sizes
    unsafe_chunk unsafe_split unsafe_split_with_sizes
""".split()
# Names of torch that are no ops, by the module that has them, imported when first asked for.
_MODULES = {
    "amp": "GradScaler autocast",
    "compiler": "compile",
    "engine.layout": "channels_last channels_last_3d contiguous_format layout memory_format preserve_format strided",
    "engine.dtype": "get_default_dtype set_default_dtype",
    "engine.typed_tensors": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor Size
    """,
    "formats.torch_files": "load save",
    "func": "vmap",
    "random": "get_rng_state set_rng_state",
    "settings": """
        are_deterministic_algorithms_enabled get_default_device get_float32_matmul_precision get_num_interop_threads
        is_anomaly_enabled is_autocast_cpu_enabled is_autocast_enabled is_inference_mode_enabled is_storage
        set_default_device set_default_tensor_type set_float32_matmul_precision set_num_interop_threads typename
        use_deterministic_algorithms
    """,
}
_ELSEWHERE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Rooms, and what the page can do without at first."""
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        found = _by_torch_names(getattr(ops, name), name)  # noqa: F405
        globals()[name] = found = _as_factory(found) if name in _FACTORIES else found
        return found
    if name in _ELSEWHERE:
        found = globals()[name] = getattr(importlib.import_module(f".{_ELSEWHERE[name]}", __name__), name)
        return found
    if name in _FUNCTIONAL:
        return getattr(importlib.import_module(".nn.functional", __name__), name)
    if name in _AS_METHODS or name[-1] == "_" != name[0]:
        method = _method_as_function(name)
        if method is not None:
            return method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
