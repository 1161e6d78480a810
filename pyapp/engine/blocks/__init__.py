"""GGML's block types in NumPy: their layouts, conversion to float32 (reading) and from float32 (writing)."""
