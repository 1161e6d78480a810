"""Methods of Tensor that are no functions, or that come with another module than the function, by that module: it is
imported when the first of them is asked for.
"""

METHODS = {
    "attributes": "H exponential_ get_device is_cpu is_cuda itemsize mH random_ sum_to_size type",
    "named": """
        cpu detach_ diagflat fill_diagonal_ is_signed istft multinomial ndimension nelement new_tensor reshape_as
        split_with_sizes stft storage_offset type_as
    """,
    "ported": """
        adjoint apply_ as_subclass cauchy_ coalesce conj conj_physical cuda dequantize geometric_ index_reduce_
        indices is_conj is_inference is_meta is_mps is_neg is_nested is_pinned is_quantized is_same_size
        is_set_to is_shared is_sparse layout log_normal_ map_ name narrow_copy new_empty_strided output_nr
        pin_memory put_ real record_stream resize_ resize_as_ resolve_conj resolve_neg set_
        share_memory_ to_dense to_sparse unsafe_chunk unsafe_split unsafe_split_with_sizes untyped_storage
        values
    """,
}
