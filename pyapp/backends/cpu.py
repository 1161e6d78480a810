"""torch.backends.cpu."""

from ..engine.native import instruction_set

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The processor's instructions that the kernels use, by torch's names: AVX512, AVX2, or DEFAULT for others."""
    name = instruction_set()
    return "AVX512" if name.startswith("avx512") else "AVX2" if name.startswith("avx2") else "DEFAULT"
