"""torch.distributed.fsdp's names (docs/distributed.md)."""

from ..nn.fully_sharded import full_state_dict, fully_shard, load_full_state_dict

__all__ = ["full_state_dict", "fully_shard", "load_full_state_dict"]
