"""Weights that other libraries have quantised, as `quantization_config` in config.json says: read as tensors."""
