"""torch.distributed.fsdp's names (docs/distributed.md)."""

from ..nn.fully_sharded import FSDPModule, full_state_dict, fully_shard, load_full_state_dict

__all__ = ["FSDPModule", "full_state_dict", "fully_shard", "load_full_state_dict"]
