"""Writes golden_torch_checkpoint and golden_torch_safetensors, a state that two processes of torch divide, in its two
formats: torchrun --nproc-per-node 2 tests/distributed/make_golden_torch_checkpoint.py (extra `oracle`).
"""

import os
from pathlib import Path

import torch
import torch.distributed.checkpoint
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

os.chdir(Path(__file__).parent)  # the file has the path
torch.distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
state = {
    "a.weight": distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0)]),
    "b.weight": distribute_tensor(torch.arange(8.0).reshape(2, 4) / 2, mesh, [Shard(1)]),
    "c": torch.tensor([1, 2, 3]),
}
writer = HuggingFaceStorageWriter(path="golden_torch_safetensors", save_distributed=True)
torch.distributed.checkpoint.save(state, storage_writer=writer)
groups = [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["a.weight"]}]
state = {"model": state, "step": 7, "optimizer": {"param_groups": groups}}
torch.distributed.checkpoint.save(state, checkpoint_id="golden_torch_checkpoint")
torch.distributed.destroy_process_group()
