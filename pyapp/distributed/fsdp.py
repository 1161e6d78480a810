"""torch.distributed.fsdp's names (docs/distributed.md)."""

from ..nn.fully_sharded import (
    FSDPModule,
    MixedPrecisionPolicy,
    full_state_dict,
    fully_shard,
    load_full_state_dict,
    register_fsdp_forward_method,
)

__all__ = [
    "FSDPModule", "MixedPrecisionPolicy", "full_state_dict", "fully_shard", "load_full_state_dict",
    "register_fsdp_forward_method",
]  # fmt: skip
