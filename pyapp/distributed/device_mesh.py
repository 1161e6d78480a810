"""torch.distributed.device_mesh's names (docs/distributed.md)."""

from ..engine.processes.mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
