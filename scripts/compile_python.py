"""Runs inside Pyodide (see compile_python.mjs): compiles the Python sources in archives for exactly that Python.

Pyodide's standard library is source code, so each start would compile some hundred modules again. This script compiles
the modules that are imported at the start; the others stay source, which is smaller. `job` (JSON) has:

    imports    statements; the modules that they import are compiled
    install    wheels to unpack before that
    archives   [{source, target, place, optimize, bare}]: archive to read, archive to write, folder that it will be used
               from, and compile()'s level: 2 leaves out docstrings and assertions; `bare` leaves out what nobody reads
               in a tab: the docstrings and type hints of private functions
    stored     true: members are not deflated (for precompressed copies of the whole archive)
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib._bootstrap_external as bootstrap
import importlib.util
import json
import sys
import sysconfig
import zipfile

SITE_PACKAGES = "/" + sysconfig.get_paths()["purelib"].lstrip("/")  # it begins with two slashes
NO_DOCSTRINGS = 2  # level of compile()
DATE = (2026, 1, 1, 0, 0, 0)


def imported(statements: str) -> set[str]:
    """Files of the modules that are loaded now and after running each of the `statements`. Failures are reported."""
    for statement in statements.splitlines():
        try:
            exec(statement, {})
        except Exception as error:
            print(f"compile_python: {statement!r} failed: {type(error).__name__}: {error}", file=sys.stderr)
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    return {spec.origin for spec in specs if spec and spec.origin}


def without_private_notes(source: bytes) -> ast.Module:
    """The tree of a module whose private functions have neither docstrings nor type hints. The Lab shows those of
    others, also of methods such as __init__."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.name.startswith("_") or node.name.endswith("__"):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
    return tree


def byte_code(source: bytes, filename: str, optimize: int, bare: bool) -> bytes:
    """A .pyc that is valid whatever the time stamps are (PEP 552, unchecked)."""
    text = without_private_notes(source) if bare else source
    code = compile(text, filename, "exec", dont_inherit=True, optimize=optimize)
    return bytes(
        bootstrap._code_to_hash_pyc(  # type: ignore[attr-defined]
            code, importlib.util.source_hash(source), False
        )
    )


def convert(members: dict[str, bytes], place: str, wanted: set[str], optimize: int, bare: bool) -> dict[str, bytes]:
    """`members` of an archive used from `place`, with x.py replaced by x.pyc where it is among `wanted`; without
    docstrings all are, since some modules mend those of others."""
    converted = {}
    for name, data in members.items():
        path = f"{place}/{name}"
        if name.endswith(".py") and (path in wanted or optimize == NO_DOCSTRINGS):
            converted[f"{name}c"] = byte_code(data, path, optimize, bare)
        else:
            converted[name] = data
    return converted


def without_descriptions(members: dict[str, bytes]) -> dict[str, bytes]:
    """`members` of a wheel whose METADATA ends before the description, a page of text that nobody reads in a tab."""
    return {
        name: data.partition(b"\n\n")[0] + b"\n" if name.endswith(".dist-info/METADATA") else data
        for name, data in members.items()
    }


def write_record(members: dict[str, bytes]) -> None:
    """The RECORD of a wheel, made anew."""
    record = next((name for name in members if name.endswith(".dist-info/RECORD")), None)
    if record is None:
        return
    del members[record]
    lines = []
    for name, data in sorted(members.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    members[record] = ("".join(lines) + f"{record},,\n").encode()


def write(members: dict[str, bytes], target: str, method: int) -> None:
    with zipfile.ZipFile(target, "w", method, compresslevel=9) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = method
            info.external_attr = 0o644 << 16
            archive.writestr(info, members[name])


def main(job: dict) -> None:
    for wheel in job["install"]:
        zipfile.ZipFile(wheel).extractall(SITE_PACKAGES)
    importlib.invalidate_caches()
    wanted = imported(job["imports"])
    method = zipfile.ZIP_STORED if job["stored"] else zipfile.ZIP_DEFLATED
    for archive in job["archives"]:
        with zipfile.ZipFile(archive["source"]) as source:
            members = {info.filename: source.read(info) for info in source.infolist() if not info.is_dir()}
        place = archive["place"].replace("{site-packages}", SITE_PACKAGES)
        members = without_descriptions(convert(members, place, wanted, archive["optimize"], archive["bare"]))
        write_record(members)
        write(members, archive["target"], method)


if "job" in globals():
    main(json.loads(globals()["job"]))
