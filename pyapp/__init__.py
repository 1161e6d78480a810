"""pyapp: machine learning in Python, in a browser tab and natively.

>>> import pyapp
>>> x = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (x @ x).sum().backward()
>>> x.grad
tensor([[ 7., 11.],
        [ 9., 13.]])
"""

from .engine import *  # noqa: F403
from .engine import bool_ as bool  # noqa: F401
from .engine.ops import *  # noqa: F403

__version__ = "0.1.0"
