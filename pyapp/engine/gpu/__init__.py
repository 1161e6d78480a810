"""Devices whose kernels are CUDA sources: the sources (native/cuda) and the driver. `devices/cuda.py` is the device."""
