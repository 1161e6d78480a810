"""Ops that are imported when they are first asked for: the page writes a story without them."""

from __future__ import annotations

import importlib
from typing import Any

from ..mistakes import name_methods
from ..tensor import OWN_METHODS, Tensor
from .methods import METHODS

# Ops by the module that has them, imported when first asked for.
_MODULES: dict[str, list[str]] = {
    "activations": """
        celu glu gumbel_softmax hardshrink hardsigmoid hardswish logsigmoid one_hot prelu relu6 rrelu selu
        softmin softshrink softsign tanhshrink threshold
    """.split(),
    "conv": "conv_transpose1d conv_transpose2d conv_transpose3d".split(),
    "decompose": "cross matrix_exp matrix_power pinv pinverse qr".split(),
    "elementwise_more": """
        absolute allclose clamp_max clamp_min clip copysign deg2rad dist equal erfc float_power fmax fmin frexp
        gcd heaviside isclose isneginf isposinf lcm ldexp logaddexp2 logit nextafter polygamma positive rad2deg
        rsub sgn sinc square true_divide xlogy
    """.split(),
    "gamma": "gradient i0 igamma igammac isreal mvlgamma".split(),
    "fourier": """
        bartlett_window blackman_window complex_abs complex_mul hamming_window hann_window istft stft
        view_as_real
    """.split(),
    "index_more": """
        bincount bucketize diagonal_scatter histc index_copy index_fill index_put isin logcumsumexp masked_scatter
        mode msort nanmedian nanquantile scatter_reduce searchsorted select_scatter slice_scatter std_mean take
        unique_consecutive
    """.split(),
    "named": """
        addbmm addmv addr argwhere as_tensor asarray broadcast_shapes can_cast cumulative_trapezoid finfo
        get_default_dtype iinfo inference_mode initial_seed inner is_complex is_floating_point is_nonzero is_tensor
        logdet promote_types result_type seed select unravel_index
        bitwise_and bitwise_not bitwise_or bitwise_xor clone detach eq floor_divide ge gt le log1p logical_and
        logical_not logical_or lt ne numel reciprocal remainder t
        arccos arccosh arcsin arcsinh arctan arctan2 arctanh chain_matmul divide fix ger greater greater_equal less
        less_equal multiply negative not_equal row_stack subtract trapz vdot
        double dtype e float half inf int long nan newaxis pi short
    """.split(),
    "ported": """
        constant_pad_nd dsplit empty_permuted empty_strided fill frobenius_norm frombuffer histogram index_reduce
        is_same_size kaiser_window narrow_copy nuclear_norm put range
    """.split(),
    "normalization": "batch_norm group_norm instance_norm local_response_norm normalize renorm".split(),
    "pool": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d lp_pool1d
        lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d
    """.split(),
    "random_more": "bernoulli normal randint_like".split(),
    "resample": "affine_grid channel_shuffle grid_sample interpolate pixel_shuffle pixel_unshuffle".split(),
    "scaled_attention": "scaled_dot_product_attention".split(),
    "solvers": "cholesky_inverse cholesky_solve geqrf lu_solve lu_unpack ormqr orgqr".split(),
    "shape_more": """
        as_strided atleast_1d atleast_2d atleast_3d block_diag cartesian_prod cdist column_stack combinations
        concat concatenate corrcoef cov diagflat diff dstack fliplr flipud hsplit kron logspace moveaxis pdist
        ravel rot90 scalar_tensor tensor_split tensordot trapezoid tril_indices triu_indices vander vsplit
    """.split(),
}
LATER = {name: module for module, names in _MODULES.items() for name in names}
_METHODS = {name: module for module, names in METHODS.items() for name in names.split()}


_TOLD = "size stride item tolist numpy data_view array __bool__ __index__ __int__ __float__ retain_grad".split()


def module_of_method(name: str) -> str | None:
    """Which of the modules that are imported later has a method of Tensor."""
    return _METHODS.get(name) or LATER.get(name.removesuffix("_"))


def bring(module: str) -> Any:
    """Imports a module of ops, which attaches methods to Tensor."""
    found = importlib.import_module(f".{module}", __package__)
    attach()
    return found


def attach() -> None:
    """The methods that were attached to Tensor tell a user's mistakes by their names."""
    name_methods(Tensor, [name for name in vars(Tensor) if name not in OWN_METHODS or name in _TOLD])


def method_of(self: Tensor, name: str) -> Any:
    """A method that comes with a module that is not imported yet."""
    module = module_of_method(name)
    if module is None:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")
    bring(module)
    return object.__getattribute__(self, name)


Tensor.__getattr__ = method_of  # type: ignore[method-assign]
