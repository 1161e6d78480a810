"""Memory of zeros that the system gives when it is first written. Natively only."""

from __future__ import annotations

import ctypes
import mmap

from .storage import Storage


def late_zeros(nbytes: int) -> Storage:
    """Zeros in fresh memory of the CPU, which goes back to the system with its storage. In huge pages where there are
    any, as those of other large storages are.
    """
    memory = mmap.mmap(-1, nbytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    owner = (ctypes.c_ubyte * nbytes).from_buffer(memory)  # keeps the mapping
    return Storage.adopt(ctypes.addressof(owner), nbytes, owner)
