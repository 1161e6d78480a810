"""The ops of each file of claims that is imported late. Generated: python -m scripts.op_index."""

from __future__ import annotations

LATE = {
    "channel_normalization": """
        _channel_norm channel_norm_backward
    """,
    "channels_last": """
        _convolution_channels_last _expanded_depthwise_channels_last _packed_convolution_weight _pool_channels_last
    """,
    "convolution_gradients": """
        _convolution_transpose convolution_backward convolution_transpose_backward
    """,
    "ctc": """
        _ctc _ctc_gradient
    """,
    "distances": """
        _distances distances_backward
    """,
    "element_updates": """
        computed_elements update_elements
    """,
    "embedding_bags": """
        _embedding_bag
    """,
    "fourier": """
        _dft _irdft _multiply_along _rdft _rdft_whole
    """,
    "indexer": """
        _indexed_places
    """,
    "int8_product": """
        _int8_linear
    """,
    "linear_algebra": """
        _eigh _exchanges_of_lu _further_columns _lu_square _qr _sign_and_log_of_det _solve _solve_triangular _svd
        _svdvals cholesky det inverse matrix_exp
    """,
    "logsumexp": """
        logsumexp
    """,
    "losses": """
        _cross_entropy _cross_entropy_planes _cross_entropy_rows _nll_loss _weighted_cross_entropy
        cross_entropy_backward cross_entropy_planes_backward cross_entropy_rows_backward nll_loss_backward
        weighted_cross_entropy_backward
    """,
    "optimizer_steps": """
        adafactor_step adamw_step muon_step optimizer_steps scale_all sums_of_squares
    """,
    "pooling": """
        _max_of_windows _mean_of_windows _places_of_max max_of_windows_backward mean_of_windows_backward
    """,
    "recurrences": """
        _advance_states linear_scan
    """,
    "recurrent": """
        _gru_cell _lstm_cell gru_cell_backward gru_steps gru_steps_backward lstm_cell_backward lstm_steps
        lstm_steps_backward rnn_steps rnn_steps_backward
    """,
    "resample": """
        _grid_sample _resampled _resampled_bytes grid_sample_backward
    """,
    "running_statistics": """
        _batch_norm
    """,
    "scattered_extremes": """
        _scatter_extreme
    """,
    "special_functions": """
        _exponent _mantissa _ndtri _polygamma _zeta gcd igamma igammac lcm
    """,
}
