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
from .engine.by_name import by_torch_names as _by_torch_names
from .engine.by_name import over_shape as _over_shape
from .engine.by_name import rename_in as _rename_in
from .engine.ops import *  # noqa: F403
from .engine.ops import LATER as _LATER

__version__ = "0.1.0"
_rename_in(globals(), ops.__all__)  # noqa: F405
layer_norm, rms_norm = _over_shape(layer_norm), _over_shape(rms_norm)  # noqa: F405
_ROOMS = ("autograd", "cuda", "extension", "fft", "linalg", "nn", "optim", "special")
# Functions of torch.nn.functional that torch has at its top, too.
_FUNCTIONAL = """
    alpha_dropout bilinear celu_ cosine_embedding_loss cosine_similarity ctc_loss dropout embedding_bag
    feature_alpha_dropout hinge_embedding_loss kl_div margin_ranking_loss pairwise_distance poisson_nll_loss relu_
    rrelu_ selu_ threshold_ triplet_margin_loss
""".split()


def __getattr__(name: str) -> Any:
    """Rooms, and the ops that the page can do without at first."""
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        found = globals()[name] = _by_torch_names(getattr(ops, name), name)  # noqa: F405
        return found
    if name in _FUNCTIONAL:
        return getattr(importlib.import_module(".nn.functional", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
