"""torch.ao.quantization: post-training quantisation, static and dynamic, and training that is aware of it.

Layers with quantised weights hold them in 8 bits. Between them run float32 tensors whose numbers lie on the steps of
torch's quantised tensors; so models compute torch's numbers, up to roundings that lie between two steps.
"""

from .fake_quantize import *  # noqa: F403
from .fake_quantize import __all__ as _fake_quantize
from .fuse_modules import *  # noqa: F403
from .fuse_modules import __all__ as _fuse_modules
from .observer import *  # noqa: F403
from .observer import __all__ as _observer
from .qconfig import *  # noqa: F403
from .qconfig import __all__ as _qconfig
from .quantize import *  # noqa: F403
from .quantize import __all__ as _quantize
from .stubs import *  # noqa: F403
from .stubs import __all__ as _stubs

__all__ = [*_fake_quantize, *_fuse_modules, *_observer, *_qconfig, *_quantize, *_stubs]
