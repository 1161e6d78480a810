"""Claims: the ops, dtypes and layouts that the kernels of native/kernels.h compute, by family.

Calls that a claim refuses run by the op's definition, or by NumPy on the CPU. A claim works for every device that has
its kernels.
"""

from ..op import LATE_CLAIMS

# The families that neither a story nor a transcript needs: each is imported when one of its ops is first called.
LATE = {
    "channels_last": "_convolution_channels_last _expanded_depthwise_channels_last _packed_convolution_weight "
    "_pool_channels_last",
    "convolution_gradients": "convolution_backward _convolution_transpose convolution_transpose_backward",
    "ctc": "_ctc _ctc_gradient",
    "distances": "_distances distances_backward",
    "embedding_bags": "_embedding_bag",
    "element_updates": "computed_elements update_elements",
    "fourier": "_dft _irdft _multiply_along _rdft _rdft_whole",
    "indexer": "_indexed_places",
    "int8_product": "_int8_linear",
    "linear_algebra": "_eigh _exchanges_of_lu _further_columns _lu_square _qr _sign_and_log_of_det _solve "
    "_solve_triangular _svd _svdvals cholesky det inverse matrix_exp",
    "logsumexp": "logsumexp",
    "losses": "_cross_entropy cross_entropy_backward _cross_entropy_planes cross_entropy_planes_backward "
    "_nll_loss _weighted_cross_entropy nll_loss_backward weighted_cross_entropy_backward",
    "optimizer_steps": "adafactor_step adamw_step muon_step scale_all sums_of_squares",
    "pooling": "_max_of_windows _mean_of_windows _places_of_max max_of_windows_backward mean_of_windows_backward",
    "resample": "_grid_sample grid_sample_backward _resampled _resampled_bytes",
    "recurrences": "_advance_states linear_scan",
    "recurrent": "_gru_cell gru_cell_backward gru_steps gru_steps_backward _lstm_cell lstm_cell_backward lstm_steps "
    "lstm_steps_backward rnn_steps rnn_steps_backward",
    "running_statistics": "_batch_norm",
    "scattered_extremes": "_scatter_extreme",
    "special_functions": "_exponent _mantissa _ndtri _polygamma _zeta gcd igamma igammac lcm",
}
LATE_CLAIMS.update((name, f"{__name__}.{module}") for module, names in LATE.items() for name in names.split())

from . import (  # noqa: E402, F401
    attention,
    convolution,
    elementwise,
    embedding,
    indexing,
    int8_attention,
    linear,
    normalization,
    reduce,
    reordering,
    sampling,
    selection,
    spectrum,
)
