"""GGML's block types with NumPy: what they hold (layout), to float32 (reading), and from it (writing)."""
