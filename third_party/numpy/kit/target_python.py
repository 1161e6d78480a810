#!/usr/bin/env python3
"""Answers Meson's questions about the Python that the extension modules are for; runs anything else natively."""

import json
import os
import subprocess
import sys
from pathlib import Path

WORK, BUILD_PYTHON = Path(os.environ["NUMPY_BUILD"]), os.environ["BUILD_PYTHON"]
VERSION, SHORT = "3.14.2", "3.14"


def describe(asked: list[str]) -> dict:
    """What Meson's introspection script prints, with the values of Pyodide's Python."""
    answer = json.loads(subprocess.check_output([BUILD_PYTHON, *asked]))
    namespace: dict = {}
    exec((WORK / "sysconfigdata.py").read_text(), namespace)
    variables = dict(namespace["build_time_vars"])
    include, library = str(WORK / "include" / f"python{SHORT}"), f"/lib/python{SHORT}"
    packages = f"{library}/site-packages"
    variables.update(base_prefix="/usr", prefix="/usr", exec_prefix="/usr", INCLUDEPY=include, CONFINCLUDEPY=include)
    variables.update(
        py_version=VERSION, py_version_short=SHORT, py_version_nodot="314", LIBPYTHON="", LIBPC="", LIBDIR=""
    )
    paths = {"stdlib": library, "platstdlib": library, "purelib": packages, "platlib": packages}
    paths.update({"include": include, "platinclude": include, "scripts": "/bin", "data": ""})
    answer.update(variables=variables, version=SHORT, platform="emscripten-5.0.3-wasm32", is_freethreaded=False)
    answer.update(paths=paths, sysconfig_paths=paths, install_paths=paths, is_pypy=False, is_venv=False)
    answer.update(link_libpython=False, suffix=variables["EXT_SUFFIX"], limited_api_suffix=".abi3.so")
    return answer


def main() -> None:
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        print(f"Python {VERSION}")
    elif any(argument.endswith("python_info.py") for argument in arguments):
        print(json.dumps(describe(arguments)))
    else:
        os.execv(BUILD_PYTHON, [BUILD_PYTHON, *arguments])


main()
