"""The house keeps its order: imports point downwards, files stay short, nothing of one machine is written down."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pyapp"
LONGEST_FILE = 500
CODE = {".py", ".c", ".h", ".js", ".mjs", ".css", ".html", ".sh"}

# Floors of the house: a module may import from lower floors and from its own room.
FLOORS = [
    {"errors"},
    {"events", "late_linalg"},
    {"engine"},
    {
        "nn",
        "formats",
        "hub",
        *"amp backends compiler distributions extension fft jit linalg random settings special testing utils".split(),
    },
    {"models", "text", "train", "audio", "cuda", "func", "optim"},
    {"autograd"},
    {"tasks"},
    {"cli", "browser"},
    {"__main__"},
]
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
# Rooms on the same floor that may use each other, in this direction only.
NEIGHBOURS = {
    ("train", "models"), ("train", "text"), ("train", "audio"), ("models", "text"), ("audio", "text"),
    ("hub", "formats"),  # the index of a model in several files
}  # fmt: skip

LOADER = "speech"  # models/speech.py: from files to models, no architecture


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of every import in the file, inside functions too; not those for type checkers."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{target}.{alias.name}"


def room_of(name: str) -> str | None:
    """The room in pyapp/ that a dotted name leads to; None outside the package and for the public names of pyapp."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "pyapp" and parts[1] in FLOOR else None


def complaint(path: Path, target: str) -> str | None:
    """What is wrong with the module at `path` importing `target`."""
    here, there = room_of(name_of(path)), room_of(target)
    if target.split(".")[0] != "pyapp" or here is None:
        return None
    if there is None:  # `import pyapp` draws the public names, which come from engine and nn
        return f"imports {target} through the top" if FLOOR[here] <= FLOOR["nn"] else None
    if here == there:
        mine, theirs = name_of(path).split("."), target.split(".")
        if here == "models" and len(mine) > 2 and len(theirs) > 2 and mine[2] not in (theirs[2], LOADER):
            return f"is a model and imports another one, {target}"
        return None
    if FLOOR[there] < FLOOR[here] or (here, there) in NEIGHBOURS:
        return None
    return f"imports {target}, which is not below it"


def test_every_room_has_its_floor() -> None:
    rooms = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert rooms - {"__init__", "__pycache__", "_native"} <= set(FLOOR), "give the new room a floor"


def test_imports_point_downwards() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {problem}"
        for path in modules()
        for line, target in imports_of(path)
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
        ("tasks.py", "pyapp.cli.main"),
        ("text/generate.py", "pyapp.train.loop"),
    ],
)
def test_an_arrow_that_points_up_is_seen(path: str, target: str) -> None:
    assert complaint(PACKAGE / path, target)


def test_an_arrow_that_points_down_is_fine() -> None:
    assert complaint(PACKAGE / "models/llama2c.py", "pyapp.nn.Module") is None
    assert complaint(PACKAGE / "tasks.py", "pyapp.train.loop.train") is None


def tracked_files() -> list[Path]:
    """What is committed, or would be; skips where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    return [path for line in listed.splitlines() if (path := ROOT / line).is_file()]


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in tracked_files() if path.suffix in CODE}
    assert lengths
    long = [f"{path.relative_to(ROOT)}: {lines}" for path, lines in lengths.items() if lines > LONGEST_FILE]
    assert not long, f"more than {LONGEST_FILE} lines: {', '.join(long)}"


def test_no_paths_of_one_machine() -> None:
    """Neither folders of a developer nor addresses of package registries (spelled so as not to find themselves)."""
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
