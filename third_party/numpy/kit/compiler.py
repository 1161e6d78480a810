#!/usr/bin/env python3
"""emcc and em++ (by the name it is called with) with the ABI of Pyodide 314; -shared becomes a side module."""

import os
import re
import shutil
import sys
from pathlib import Path

ABI = ["-fPIC", "-fwasm-exceptions", "-sSUPPORT_LONGJMP=wasm"]
ASKS_ABOUT_ITSELF = {"--version", "-v", "-dumpversion", "--print-search-dirs"}
ONLY_COMPILES = {"-c", "-E", "-S", "-M"}
# What wasm-ld of this age does not take, or what a side module must not have.
FOR_ANOTHER_LINKER = re.compile(
    r"-shared|-Wl,(--allow-shlib-undefined|-O\d|--as-needed|--no-undefined|-soname.*|--version-script.*|-rpath.*"
    r"|--fatal-warnings)|-sERROR_ON_UNDEFINED.*"
)


def main() -> None:
    name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    tool = shutil.which(
        name, path=os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != Path(__file__).parent)
    )
    extra = [*ABI, "-include", str(Path(__file__).resolve().with_name("time64.h"))]
    if name == "em++":
        extra.append("-D_LIBCPP_DISABLE_EXTERN_TEMPLATE")
    if ASKS_ABOUT_ITSELF.intersection(arguments) or {"-E", "-dM"} <= set(arguments):
        extra = []
    elif not ONLY_COMPILES.intersection(arguments) and "-shared" in arguments:
        module = Path(arguments[arguments.index("-o") + 1]).name.split(".")[0]
        arguments = [argument for argument in arguments if not FOR_ANOTHER_LINKER.fullmatch(argument)]
        arguments += ["-sSIDE_MODULE=2", "-sWASM_BIGINT", f"-sEXPORTED_FUNCTIONS=_PyInit_{module}"]
    assert tool is not None
    os.execv(tool, [tool, *extra, *arguments])


main()
