"""Every op by torch's name, for make_golden_names.py, test_names.py and the op table."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

# What a port of a model may ask for, by torch's names; Tensor's methods where torch has no function.
LIST = """
zeros ones full empty zeros_like ones_like full_like empty_like arange linspace logspace eye tril triu
meshgrid tensor from_numpy rand randn randint rand_like randn_like randint_like randperm bernoulli multinomial
normal manual_seed Generator index_select gather scatter scatter_add scatter_reduce index_add index_fill
index_copy index_put take_along_dim masked_fill masked_select masked_scatter where nonzero unique
unique_consecutive topk sort argsort kthvalue searchsorted bucketize bincount histc isin reshape view flatten
squeeze unsqueeze transpose permute expand broadcast_to broadcast_tensors repeat tile repeat_interleave stack
cat concat concatenate split chunk tensor_split narrow roll flip fliplr flipud rot90 unfold contiguous einsum
movedim moveaxis swapaxes unbind unflatten ravel diagonal diag diag_embed diagflat hstack vstack dstack
column_stack block_diag kron tensordot cartesian_prod combinations tril_indices triu_indices atleast_1d
atleast_2d atleast_3d clone detach abs absolute neg positive sign sgn exp exp2 expm1 log log2 log10 log1p sqrt
rsqrt square reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2 erf erfc erfinv
lgamma digamma polygamma igamma igammac mvlgamma i0 isreal gradient
sigmoid logit round floor ceil trunc frac clamp clip pow float_power fmod remainder
floor_divide div true_divide add sub mul rsub hypot maximum minimum fmax fmin logaddexp logaddexp2 lerp
addcmul addcdiv angle conj_physical real copysign nextafter ldexp frexp heaviside gcd lcm sinc xlogy deg2rad rad2deg
nan_to_num signbit isnan isinf isfinite isposinf isneginf isclose allclose equal eq ne lt le gt ge bitwise_and
bitwise_or
bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not
sum mean prod var std var_mean std_mean min max amin amax aminmax argmin argmax any all norm logsumexp
logcumsumexp cumsum cumprod cummax cummin median nanmedian quantile nanquantile mode nansum nanmean
count_nonzero diff trapezoid cov corrcoef dist cdist matmul mm mv bmm dot outer addmm baddbmm trace cholesky
inverse det slogdet svd qr matrix_power cross stft istft hann_window hamming_window blackman_window
bartlett_window softmax log_softmax relu addbmm addmv addr broadcast_shapes renorm diagonal_scatter
select_scatter slice_scatter as_strided matrix_exp cholesky_solve cholesky_inverse pinverse geqrf orgqr ormqr
lu_solve lu_unpack complex polar real imag conj conj_physical angle view_as_real view_as_complex resolve_conj
resolve_neg is_conj is_neg is_complex vdot
""".split()
FUNCTIONAL = """
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d unfold fold pad max_pool1d max_pool2d
max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_unpool1d max_unpool2d max_unpool3d lp_pool1d
lp_pool2d interpolate upsample grid_sample affine_grid pixel_shuffle pixel_unshuffle
scaled_dot_product_attention layer_norm rms_norm group_norm batch_norm instance_norm local_response_norm
normalize linear bilinear embedding embedding_bag one_hot dropout relu relu6 gelu silu mish elu celu selu
leaky_relu prelu rrelu glu hardtanh hardsigmoid hardswish hardshrink softshrink tanhshrink softplus softsign
softmax softmin log_softmax logsigmoid threshold gumbel_softmax sigmoid tanh cosine_similarity
pairwise_distance pdist mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy binary_cross_entropy
binary_cross_entropy_with_logits kl_div ctc_loss cosine_embedding_loss hinge_embedding_loss
margin_ranking_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss
poisson_nll_loss gaussian_nll_loss triplet_margin_loss triplet_margin_with_distance_loss alpha_dropout dropout1d
dropout2d dropout3d feature_alpha_dropout channel_shuffle lp_pool3d fractional_max_pool2d fractional_max_pool3d
upsample_nearest upsample_bilinear multi_head_attention_forward
""".split()
MODULES = {
    "linalg": """
        cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex lstsq lu
        lu_factor lu_solve matmul matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve
        solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
    """.split(),
    "fft": """
        fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft hfft2 ihfft2 hfftn ihfftn
        fftfreq rfftfreq fftshift ifftshift
    """.split(),
    "special": """
        digamma entr erf erfc erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 log1p log_ndtr log_softmax logit
        logsumexp multigammaln ndtr ndtri polygamma psi round sinc softmax xlog1py xlogy
    """.split(),
    "autograd": "grad backward Function gradcheck gradgradcheck".split(),
}


def wanted() -> list[tuple[str, str]]:
    """(module, name): module "" is the top, "nn.functional", "linalg" ..."""
    return [
        *(("", n) for n in LIST),
        *(("nn.functional", n) for n in FUNCTIONAL),
        *((module, n) for module, names in MODULES.items() for n in names),
    ]


def find(package: Any, module: str, name: str) -> Callable[..., Any] | None:
    """The function of a package, or the method of Tensor; None if there is none."""
    place = importlib.import_module(f"{package.__name__}.{module}") if module else package
    found = getattr(place, name, None)
    return found if found is not None or module else getattr(package.Tensor, name, None)
