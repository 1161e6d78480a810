"""Imports point to lower layers and form no circles; no file contains paths of a developer's machine."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyapp"

# The layers of pyapp, lowest first: a module may import from lower layers and from its own package.
LAYERS = [
    {"dataclass", "errors", "interrupts", "_index"},
    {"events", "late_linalg", "late_parts"},
    {"engine"},
    {
        "nn",
        "formats",
        "hub",
        *("extension", "extension_arguments", "extension_cuda"),
        *"amp backends compiler distributions fft futures jit linalg masked multiprocessing profiler random".split(),
        *("control_flow", "return_types", "settings"),
        *"library signal special storage testing".split(),
        *("sparse", "traced_numbers", "types", "utils", "version", "webgpu"),
    },
    {"ao", "optim", "adapters", "foreach", "nested", "overrides", "quasirandom", "serialization", "_C", "_utils"},
    {"__config__", "_dynamo", "_inductor", "cpu", "functional", "fx", "mps", "quantization", "xpu"},
    {"models", "text", "train", "audio", "cuda", "distributed", "export", "func", "datasets", "onnx", "vision"},
    {"recipes", "autograd", "keras", "lab", "accelerator"},
    {"tasks"},
    {"serve", "browser_models"},
    {"cli", "browser_tasks"},
    {"browser"},
    {"__main__"},
]
LAYER = {package: height for height, packages in enumerate(LAYERS) for package in packages}
# Packages in the same layer; the first may import the second.
NEIGHBOURS = {
    ("models", "text"), ("audio", "text"),
    ("models", "vision"),  # how a model's pictures are prepared
    ("models", "audio"),  # how its sound is
    ("datasets", "vision"),  # reads pictures
    ("onnx", "text"),  # what makes a pattern slow
    ("onnx", "export"),  # inputs whose sizes may differ
    ("audio", "onnx"),  # networks for speech and speakers
    ("distributed", "export"),  # a pipeline cuts the program of a model
    ("hub", "formats"),  # the index of a model in several files
    ("nn", "formats"),  # Weights opens files
    ("utils", "formats"),  # a log for TensorBoard
    ("utils", "hub"),  # the older names of its functions
    ("jit", "nn"),  # the class that compiled modules have in torch
    ("jit", "futures"),  # what fork gives
    ("utils", "nn"),  # which module computes, for counts of operations
    ("extension", "extension_arguments"), ("extension", "extension_cuda"),  # kernels of C, and of CUDA
    ("extension_cuda", "extension_arguments"),
}  # fmt: skip

# Packages that may import only from these.
ONLY = {"train": {"dataclass", "errors", "events", "engine", "formats", "nn", "optim", "utils"}}

# Known circular imports, those inside functions included; to be removed.
KNOWN_CIRCLES: list[str] = []

# models/load.py, its index and models/loading/: from files to models, no architecture
LOADERS = ("load", "loading", "_index")


@functools.cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Import(NamedTuple):
    """An import: its line, the absolute name, and whether it is inside a function."""

    line: int
    name: str
    inside: bool


@functools.cache
def imports_of(path: Path) -> list[Import]:
    """Every import in the file, inside functions too; not those for type checkers."""
    return list(find_imports(path))


SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert)  # hold no statements


def statements(body: Sequence[ast.AST], inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement, those inside others too, but for those for type checkers, and whether it is inside a function.
    Expressions contain no imports.
    """
    for statement in body:
        yield statement, inside
        if isinstance(statement, SIMPLE):
            continue
        for_types = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
        deeper = inside or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ("orelse", "finalbody", "handlers", "cases", *([] if for_types else ["body"])):
            yield from statements(getattr(statement, part, []), deeper)


def find_imports(path: Path) -> Iterator[Import]:
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node, inside in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                yield Import(node.lineno, f"{target}.{alias.name}", inside)


def package_of(name: str) -> str | None:
    """The package (or module) in pyapp/ of a dotted name; None outside pyapp, and for its public names."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "pyapp" and parts[1] in LAYER else None


def complaint(path: Path, target: str) -> str | None:
    """The error of the module at `path` importing `target`, or None."""
    here, there = package_of(name_of(path)), package_of(target)
    if target.split(".")[0] != "pyapp" or here is None:
        return None
    if there is None:  # `import pyapp` uses the public names, which come from engine and nn
        return f"imports {target} through the top package" if LAYER[here] <= LAYER["nn"] else None
    if here == there:
        mine, theirs = name_of(path).split("."), target.split(".")
        named = (*mine[2:3], *theirs[2:3])  # the files or packages in pyapp/models
        if here == "models" and len({*named}) == 2 and not {*named} & {*LOADERS}:
            return f"is a model and imports another one, {target}"
        return None
    if there not in ONLY.get(here, LAYER):
        return f"imports {target}; {here} may import only {', '.join(sorted(ONLY[here]))}"
    if LAYER[there] < LAYER[here] or (here, there) in NEIGHBOURS:
        return None
    return f"imports {target}, which is not below it"


def test_every_package_has_a_layer() -> None:
    packages = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert packages - {"__init__", "__pycache__", "_native"} <= set(LAYER), "add the new package to LAYERS"


def test_imports_point_downwards() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {problem}"
        for path in modules()
        for line, target, _ in imports_of(path)
        if (problem := complaint(path, target))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "path, target",
    [
        ("engine/tensor.py", "pyapp.nn.module.Module"),
        ("engine/tensor.py", "pyapp.zeros"),
        ("formats/llama2c.py", "pyapp.models.llama2c"),
        ("models/llama2c.py", "pyapp.models.other.Model"),
        ("tasks/core.py", "pyapp.cli.main"),
        ("text/generation/generate.py", "pyapp.train.trainer.Trainer"),
        ("models/llama2c.py", "pyapp.train.trainer.Trainer"),
        ("train/trainer.py", "pyapp.models.llama2c.Llama2c"),
        ("train/trainer.py", "pyapp.recipes.story.train_story"),
        ("train/trainer.py", "pyapp.hub.models"),
        ("recipes/story/training.py", "pyapp.tasks.train_story"),
    ],
)
def test_an_upward_import_is_found(path: str, target: str) -> None:
    assert complaint(PACKAGE / path, target)


def test_a_downward_import_is_allowed() -> None:
    assert complaint(PACKAGE / "models/llama2c.py", "pyapp.nn.Module") is None
    assert complaint(PACKAGE / "tasks/training.py", "pyapp.recipes.story.train_story") is None
    assert complaint(PACKAGE / "recipes/story/training.py", "pyapp.train.trainer.Trainer") is None
    assert complaint(PACKAGE / "recipes/story/training.py", "pyapp.models.llama2c.Llama2c") is None
    assert complaint(PACKAGE / "train/trainer.py", "pyapp.optim.AdamW") is None


Graph = dict[str, set[str]]


@functools.cache
def import_graph() -> Graph:
    """module -> the modules it imports, inside functions too. The implicit import of a module's package is left out."""
    names = {name_of(path): path for path in modules()}
    graph: Graph = {name: set() for name in names}
    for name, path in names.items():
        for found in imports_of(path):
            target = module_of(found.name, names)
            if target and target != name:
                graph[name].add(target)
    return graph


def module_of(target: str, names: Container[str]) -> str:
    """The module of an imported name, which may be that of a function or a class; "" outside pyapp."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target


def reachable(graph: Graph, start: str) -> set[str]:
    """The modules that `start` imports directly or indirectly."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def circles(graph: Graph) -> set[frozenset[str]]:
    """Groups of modules that import each other (strongly connected components)."""
    reach = {name: reachable(graph, name) for name in graph}
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"f"}, "f": {"e"}, "g": set()}
    assert circles(graph) == {frozenset("abc"), frozenset("ef")}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def test_imports_inside_functions_are_found() -> None:
    assert "pyapp.recipes.story" in import_graph()["pyapp.tasks.training"]
    assert "pyapp.tasks" in import_graph()["pyapp.cli"]


def test_imports_inside_functions_save_something() -> None:
    """Those of modules that `import pyapp` has imported belong at the top of the file."""
    program = "import sys, pyapp; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    found = [
        f"{path.relative_to(ROOT)}:{line} {target}"
        for path in modules()
        for line, target, inside in imports_of(path)
        if inside and module_of(target, import_graph()) in {*loaded} - {"pyapp"}
    ]
    assert not found, "\n".join(found)


def test_imports_have_no_circles() -> None:
    """Remove a circle from KNOWN_CIRCLES when it is gone."""
    found = circles(import_graph())
    known = {frozenset(f"pyapp.{name}" for name in group.split()) for group in KNOWN_CIRCLES}
    new, gone = ("; ".join(" ".join(sorted(group)) for group in groups) for groups in (found - known, known - found))
    assert not new and not gone, f"new circles: {new or 'none'}. No circles any more: {gone or 'none'}"


def test_dataclasses_are_ours() -> None:
    """The standard decorator compiles methods, which takes milliseconds in the page."""
    found = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path != PACKAGE / "dataclass.py" and any(found.name == "dataclasses.dataclass" for found in imports_of(path))
    ]
    assert not found, "import pyapp.dataclass: " + ", ".join(found)


def tracked_files() -> list[Path]:
    """The files that are or would be committed; skips outside a git repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    return [path for line in listed.splitlines() if (path := ROOT / line).is_file()]


def test_no_paths_of_one_machine() -> None:
    """No developer's folders and no addresses of package registries. (The patterns do not match themselves.)"""
    foreign = re.compile(r"/(?:wor[k]|roo[t]|hom[e]/(?!pyodide)\w+)/|p[y]pi\.org|np[m]js\.org|d[e]b\.debian")
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number} {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), 1)
            if foreign.search(line)
        ]
    assert not found, "\n".join(found)
