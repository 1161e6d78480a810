"""The version, by the names of torch.version. Those of CUDA, HIP and XPU are None: pyapp is not built with them, and
loads CUDA from the driver where there is a card.
"""

import sys

__version__: str = sys.modules[__name__.partition(".")[0]].__version__
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"
