"""torch.functional: functions of pyapp that torch has in this module, too."""

from .engine.ops import declared

__all__ = """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul
    einsum istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index
""".split()
globals().update({name: declared(name).public for name in __all__})
