"""Devices whose kernels are sources that they compile: CUDA's (native/cuda) with the driver, for `devices/cuda.py`, and
WebGPU's (native/webgpu), for `devices/webgpu.py`."""
