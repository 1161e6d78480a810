"""python -m tests.draws [SEED] [COUNT] [DEVICE] [FAMILY ...]"""

import importlib
import sys

from .compare import Runner

MODULES = {"mirror": "tests.mirror.device", "emulated": "tests.cuda.emulated"}  # what registers a device


def main() -> int:
    arguments = [*sys.argv[1:], *["0", "1000", "cpu"][len(sys.argv) - 1 :]]
    seed, count, device = int(arguments[0]), int(arguments[1]), arguments[2]
    if device in MODULES:
        importlib.import_module(MODULES[device])
    return min(Runner(device, families=arguments[3:] or None).run(seed, count), 1)


if __name__ == "__main__":
    sys.exit(main())
