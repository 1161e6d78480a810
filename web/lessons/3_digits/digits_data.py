"""1,797 handwritten digits of 8 × 8 pixels.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (1998), UCI Machine Learning Repository,
doi 10.24432/C50P49, CC BY 4.0; the test part, in the order of scikit-learn's `load_digits`.
"""

import zlib
from pathlib import Path

import numpy as np

COUNT = 1797


def load_digits():
    """(images (1797, 8, 8) float32 from 0, paper, to 1, ink; labels (1797,) int64)."""
    packed = Path(__file__).with_name("digits.bin").read_bytes()
    data = np.frombuffer(zlib.decompress(packed), np.uint8)
    images = data[COUNT:].reshape(COUNT, 8, 8).astype(np.float32) / 16
    return images, data[:COUNT].astype(np.int64)
