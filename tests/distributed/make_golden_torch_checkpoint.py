"""Writes golden_torch_checkpoint, a state that two processes of torch divide: torchrun --nproc-per-node 2
tests/distributed/make_golden_torch_checkpoint.py (extra `oracle`).
"""

from pathlib import Path

import torch
import torch.distributed.checkpoint
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

torch.distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
state = {
    "a.weight": distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0)]),
    "b.weight": distribute_tensor(torch.arange(8.0).reshape(2, 4) / 2, mesh, [Shard(1)]),
    "c": torch.tensor([1, 2, 3]),
}
folder = str(Path(__file__).with_name("golden_torch_checkpoint"))
torch.distributed.checkpoint.save(state, storage_writer=HuggingFaceStorageWriter(path=folder, save_distributed=True))
torch.distributed.destroy_process_group()
