"""torch.distributed.fsdp's names (docs/distributed.md)."""

from ..nn.fully_sharded import FSDPModule, MixedPrecisionPolicy, full_state_dict, fully_shard, load_full_state_dict

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "full_state_dict", "fully_shard", "load_full_state_dict"]
