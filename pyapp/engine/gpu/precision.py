"""How precisely cards multiply matrices (`backends.cuda.matmul`)."""

from __future__ import annotations


class Precision:
    """`allow_tf32`: products of float32 matrices may round their factors to 10 bits, which tensor cores take."""

    allow_tf32 = False


precision = Precision()
