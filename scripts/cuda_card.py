"""Whether CUDA can use a card of this machine: python -m scripts.cuda_card [--driver]

Says in one line what is missing, and ends with status 2. `--driver`: asks only whether there is a driver, which needs
none of NVIDIA's packages, so that nothing is downloaded in vain.
"""

from __future__ import annotations

import sys

import pyapp
from pyapp.engine.gpu import nvidia


def missing(driver_alone: bool = False) -> str | None:
    """What is missing, and what to do; None where a card can be used."""
    try:
        if driver_alone:
            nvidia.find_driver()
        else:
            device = pyapp.device("cuda")
            _ = device.backend  # with what is missing, where it is
            (pyapp.ones(1, device=device) + 1.0).tolist()  # compiles a kernel
    except (ValueError, RuntimeError, MemoryError) as error:
        return f"There is no card here that CUDA can use: {' '.join(str(error).split())}"
    return None


def main(arguments: list[str]) -> int:
    found = missing("--driver" in arguments)
    if found:
        print(found, file=sys.stderr)
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
