"""torch.autograd.grad_mode."""

from ..engine.autograd import enable_grad, no_grad, set_grad_enabled
from ..engine.ops.torch_synonyms import inference_mode

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
